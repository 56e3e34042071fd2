// Clusters that say only what they change of another one.

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "hw_specs/find_cluster.h"
#include "hw_specs/validate_cluster.h"
#include "sim/textproto/set_field.h"
#include "tests/exec/runtime/test_folder.h"

namespace twinstep {
namespace {

using google::protobuf::util::MessageDifferencer;
using testing::AllOf;
using testing::HasSubstr;

class ClusterBaseTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) const {
    const std::string path = folder_.File(name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    WriteBytes(path, text);
    return path;
  }
  static std::string ErrorOf(const std::string& path) {
    const Result<Cluster> cluster = FindCluster(path);
    EXPECT_FALSE(cluster.ok());
    if (cluster.ok()) return "";
    EXPECT_EQ(cluster.error().code, ExitCode::kBadInput);
    return cluster.error().message;
  }

  TestFolder folder_;
};

TEST_F(ClusterBaseTest, WhatIsNotSaidIsTheBases) {
  const Result<Cluster> mine =
      FindCluster(Write("mine.textproto",
                        "name: 'mine' base: 'h800' nodes: 2\n"
                        "node { gpus: 4 nic { count: 4 } pcie { duplex_bytes_per_s: 0 } }"));
  ASSERT_TRUE(mine.ok()) << mine.error().message;
  Cluster expected = FindCluster("h800").value();
  ASSERT_NE(expected.node().pcie().duplex_bytes_per_s(), 0);
  expected.set_name("mine");
  expected.clear_description();
  expected.set_nodes(2);
  expected.mutable_node()->set_gpus(4);
  expected.mutable_node()->mutable_nic()->set_count(4);
  expected.mutable_node()->mutable_pcie()->set_duplex_bytes_per_s(0);  // Zeros are said, too.
  EXPECT_TRUE(MessageDifferencer::Equals(mine.value(), expected)) << mine.value().DebugString();
}

TEST_F(ClusterBaseTest, ABaseMayHaveOne) {
  const Cluster two = FindCluster("h200-x2").value(), eight = FindCluster("h200-x8").value();
  EXPECT_TRUE(MessageDifferencer::Equals(two.gpu(), eight.gpu()));
  EXPECT_TRUE(MessageDifferencer::Equals(two.node().nvlink(), eight.node().nvlink()));
  EXPECT_EQ(eight.node().gpus(), 8);
  EXPECT_EQ(eight.node().host().cores(), 128);
  EXPECT_NE(two.gpu().runtime_overhead_bytes(),
            FindCluster("h200").value().gpu().runtime_overhead_bytes());
  EXPECT_EQ(eight.base(), "");
}

TEST_F(ClusterBaseTest, PathsStartAtTheFile) {
  Write("common/gpu.textproto", "base: 'h200' gpu { memory_bytes: 80000000000 }");
  const std::string near = Write("common/near.textproto", "base: 'gpu.textproto' name: 'near'");
  const std::string far = Write("site/far.textproto", "base: '../common/near.textproto'");
  for (const std::string& path : {near, far}) {
    const Result<Cluster> cluster = FindCluster(path);
    ASSERT_TRUE(cluster.ok()) << cluster.error().message;
    EXPECT_EQ(cluster.value().gpu().memory_bytes(), 80'000'000'000);
    EXPECT_EQ(cluster.value().name(), path == near ? "near" : "");
  }
  // A file that is called like a cluster is another one.
  const std::string namesake = Write("h200.textproto", "base: 'h200' name: 'mine'");
  EXPECT_TRUE(FindCluster(namesake).ok());
}

TEST_F(ClusterBaseTest, ABaseThatIsNotThereIsNamedWithFileAndLine) {
  const std::string unknown = Write("a.textproto", "name: 'a'\n  base: 'h20'");
  EXPECT_THAT(ErrorOf(unknown),
              HasSubstr(unknown + ":2:3: base: no cluster 'h20' (did you mean h200"));
  const std::string missing = Write("b.textproto", "base: 'none/c.textproto'");
  EXPECT_THAT(ErrorOf(missing),
              AllOf(HasSubstr(missing + ":1:1: base: "), HasSubstr("No such file")));
  // In a base of a base, too.
  const std::string above = Write("d.textproto", "\nbase: 'a.textproto'");
  EXPECT_THAT(ErrorOf(above), HasSubstr(unknown + ":2:3: base: no cluster 'h20'"));
}

TEST_F(ClusterBaseTest, CyclesAreNamedWithFileAndLine) {
  const std::string own = Write("own.textproto", "name: 'own'\nbase: './own.textproto'");
  EXPECT_THAT(ErrorOf(own), HasSubstr(own + ":2:1: base: " + own + " builds on this file"));
  const std::string first = Write("x/first.textproto", "base: '../y/second.textproto'");
  const std::string second = Write("y/second.textproto", "\n\nbase: '../y/../x/first.textproto'");
  EXPECT_THAT(ErrorOf(first), HasSubstr(second + ":3:1: base: " + first + " builds on this file"));
}

TEST_F(ClusterBaseTest, BadValuesAreFoundWhereTheyStand) {
  const std::string base =
      Write("base.textproto", "base: 'h800'\ngpu { gemm_max_efficiency: 1.5 }");
  const std::string own = Write("own.textproto",
                                "base: 'base.textproto'\n"
                                "gpu {\n  kernel_launch_s: 7\n}");
  EXPECT_THAT(ErrorOf(own),
              AllOf(HasSubstr(base + ":2:7: gpu.gemm_max_efficiency: 1.5 is not between"),
                    HasSubstr(own + ":3:3: gpu.kernel_launch_s: 7 is not between")));
  const std::string parsed = Write("parsed.textproto", "base: 'broken.textproto'");
  const std::string broken = Write("broken.textproto", "nodes: 1\nnodez: 2");
  EXPECT_THAT(ErrorOf(parsed), HasSubstr(broken + ":2:1: nodez: no field of Cluster"));
}

TEST_F(ClusterBaseTest, OnlyFilesHaveOne) {
  Cluster cluster = FindCluster("h800").value();
  ASSERT_TRUE(SetField(&cluster, "base", "h200").ok());
  const Status valid = ValidateCluster(cluster);
  ASSERT_FALSE(valid.ok());
  EXPECT_THAT(valid.error().message, HasSubstr("base: builds"));
}

}  // namespace
}  // namespace twinstep
