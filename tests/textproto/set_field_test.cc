#include "sim/textproto/set_field.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hw_specs/cluster.pb.h"
#include "hw_specs/profile.pb.h"
#include "model_zoo/model.pb.h"
#include "sim/plan/plan.pb.h"

namespace twinstep {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string Failure(const Status& status) {
  EXPECT_FALSE(status.ok());
  return status.ok() ? "" : status.error().message;
}

TEST(SetFieldTest, SetsEveryKindOfValue) {
  Cluster cluster;
  EXPECT_TRUE(SetField(&cluster, "node.pcie.h2d_bytes_per_s", "128e9").ok());
  EXPECT_EQ(cluster.node().pcie().h2d_bytes_per_s(), 128e9);
  EXPECT_TRUE(SetField(&cluster, "gpu.memory_bytes", "65000MiB").ok());
  EXPECT_EQ(cluster.gpu().memory_bytes(), 68'157'440'000);
  EXPECT_TRUE(SetField(&cluster, "name", "tomorrow's").ok());
  EXPECT_EQ(cluster.name(), "tomorrow's");
  EXPECT_TRUE(SetField(&cluster, "gpu.attention_backward_fp32_dq", "True").ok());
  EXPECT_TRUE(cluster.gpu().attention_backward_fp32_dq());
  Model model;
  EXPECT_TRUE(SetField(&model, "recipe.precision", "fp16").ok());
  EXPECT_EQ(model.recipe().precision(), FP16);
  EXPECT_TRUE(SetField(&model, "vocab_size", "32004").ok());
  EXPECT_EQ(model.vocab_size(), 32004);
  Plan plan;
  EXPECT_TRUE(SetField(&plan, "zero_stage", "0").ok());
  EXPECT_TRUE(plan.has_zero_stage());
  EXPECT_TRUE(SetField(&plan, "sequence_parallel", "0").ok());
  EXPECT_TRUE(plan.has_sequence_parallel());
  EXPECT_FALSE(plan.sequence_parallel());
}

TEST(SetFieldTest, UnknownPathListsTheFieldsAndTheClosest) {
  Cluster cluster;
  EXPECT_THAT(Failure(SetField(&cluster, "node.pcie.hd2_bytes_per_s", "1")),
              AllOf(HasSubstr("message Pcie has no 'hd2_bytes_per_s'"),
                    HasSubstr("did you mean h2d_bytes_per_s, "),
                    HasSubstr("its fields are h2d_bytes_per_s, d2h_bytes_per_s, ")));
  EXPECT_THAT(Failure(SetField(&cluster, "node.pcie", "1")), HasSubstr("is a message"));
  EXPECT_THAT(Failure(SetField(&cluster, "nodes.gpus", "1")), HasSubstr("nodes is a value"));
  EXPECT_THAT(Failure(SetField(&cluster, "", "1")), HasSubstr("Cluster has no ''"));
  EXPECT_THAT(Failure(SetField(&cluster, "node..gpus", "1")), HasSubstr("Node has no ''"));
  EXPECT_THAT(Failure(SetField(&cluster, ".", "1")), HasSubstr("Cluster has no ''"));
  Profile profile;
  EXPECT_THAT(Failure(SetField(&profile, "copies.bytes", "1")), HasSubstr("list (copies)"));
}

TEST(SetFieldTest, BadValueLeavesTheMessageAsItWas) {
  Cluster cluster;
  EXPECT_THAT(Failure(SetField(&cluster, "node.pcie.h2d_bytes_per_s", "fast")),
              AllOf(HasSubstr("field node.pcie.h2d_bytes_per_s"), HasSubstr("'fast'")));
  EXPECT_FALSE(cluster.has_node());
  Model model;
  EXPECT_THAT(Failure(SetField(&model, "family", "BERT")),
              HasSubstr("'BERT' is none of FAMILY_UNSPECIFIED, GPT, LLAMA"));
  EXPECT_THAT(Failure(SetField(&model, "tied_embeddings", "maybe")), HasSubstr("true nor false"));
  EXPECT_THAT(Failure(SetField(&model, "layers", "2.5")), HasSubstr("whole number"));
  Plan plan;
  EXPECT_THAT(Failure(SetField(&plan, "zero_stage", "3000000000")), HasSubstr("2147483647"));
}

TEST(SetFieldOfOneTest, FindsTheOwner) {
  Model model;
  Cluster cluster;
  const std::vector<NamedMessage> both = {{"model", &model}, {"cluster", &cluster}};
  EXPECT_TRUE(SetFieldOfOne(both, "layers", "4").ok());
  EXPECT_EQ(model.layers(), 4);
  EXPECT_TRUE(SetFieldOfOne(both, "node.gpus", "4").ok());
  EXPECT_EQ(cluster.node().gpus(), 4);
  EXPECT_TRUE(SetFieldOfOne(both, "cluster.name", "x").ok());
  EXPECT_EQ(cluster.name(), "x");
  EXPECT_EQ(model.name(), "");
  EXPECT_THAT(Failure(SetFieldOfOne(both, "name", "x")), HasSubstr("model.name or cluster.name"));
  EXPECT_THAT(
      Failure(SetFieldOfOne(both, "gpu.memory", "1")),
      AllOf(HasSubstr("message Gpu"), HasSubstr("did you mean memory_bound, memory_bytes, "),
            testing::Not(HasSubstr("Model"))));
  EXPECT_THAT(Failure(SetFieldOfOne(both, "zyxwvut", "1")),
              AllOf(HasSubstr("no field 'zyxwvut' in model or cluster; of model: name, family, "),
                    HasSubstr(", nodes, gpu, node, ")));
  // A name that stands deeper than where it was looked for.
  const auto meant = [&](const char* path) { return Failure(SetFieldOfOne(both, path, "1")); };
  EXPECT_EQ(meant("clip_norm"),
            "no field 'clip_norm' in model or cluster (did you mean recipe.clip_norm?)");
  EXPECT_THAT(meant("nvlink"), HasSubstr("(did you mean node.nvlink.bytes_per_s"));
  EXPECT_THAT(meant("pcie.h2d_bytes_per_sec"),
              HasSubstr("(did you mean node.pcie.h2d_bytes_per_s?)"));
  EXPECT_THAT(meant("nvlnk.bandwidth"), HasSubstr("(did you mean node.nvlink."));
  EXPECT_THAT(meant("."), HasSubstr("no field '.' in model or cluster"));
}

TEST(ParseFieldValuesTest, OneValueOrASweep) {
  const auto one = ParseFieldValues("a.b=1");
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one.value().path, "a.b");
  EXPECT_THAT(one.value().values, ElementsAre("1"));
  EXPECT_THAT(ParseFieldValues("a=1,2,3").value().values, ElementsAre("1", "2", "3"));
  EXPECT_THAT(ParseFieldValues("a=b=c").value().values, ElementsAre("b=c"));
  for (const char* bad : {"", "a", "=1", "a=", "a=1,,2", "a=1,"}) {
    EXPECT_FALSE(ParseFieldValues(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace twinstep
