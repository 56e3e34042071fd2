#include "sim/textproto/text_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <string>

#include "hw_specs/cluster.pb.h"
#include "hw_specs/profile.pb.h"
#include "model_zoo/model.pb.h"
#include "sim/plan/plan.pb.h"
#include "sim/textproto/field_rules.h"
#include "sim/textproto/field_scanner.h"

namespace twinstep {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

template <typename Message>
std::string Failure(const std::string& text) {
  const auto parsed = ParseText<Message>(text, "f");
  EXPECT_FALSE(parsed.ok());
  if (parsed.ok()) return "";
  EXPECT_EQ(parsed.error().code, ExitCode::kBadInput);
  return parsed.error().message;
}

TEST(ParseTextTest, ReadsAFile) {
  const std::string path = testing::TempDir() + "/cluster.textproto";
  std::ofstream(path) << "# A comment.\nnodes: 4\nnode { gpus: 8 nic { bytes_per_s: 12.5e9 } }\n";
  const auto cluster = ParseTextFile<Cluster>(path);
  ASSERT_TRUE(cluster.ok()) << cluster.error().message;
  EXPECT_EQ(cluster.value().nodes(), 4);
  EXPECT_EQ(cluster.value().node().nic().bytes_per_s(), 12.5e9);
}

TEST(ParseTextTest, NamesFileLineColumnAndField) {
  EXPECT_EQ(Failure<Model>("name: 'x'\n  layerz: 3\n"),
            "f:2:3: layerz: no field of Model (did you mean layers?)");
  EXPECT_EQ(Failure<Cluster>("nodes: 4\nnode {\n  nic { cont: 8 }\n}\n"),
            "f:3:9: node.nic.cont: no field of Nic (did you mean count?)");
  EXPECT_EQ(Failure<Model>("layers: many\n"), "f:1:9: layers: Expected integer, got: many");
  EXPECT_EQ(
      Failure<Model>("recipe {\n\tprecision: bf17\n}"),
      "f:2:20: recipe.precision: 'bf17' is none of PRECISION_DEFAULT, BF16, FP16, FP32, FP64");
  EXPECT_THAT(Failure<Model>("layers: 1\nlayers: 2\n"),
              testing::AllOf(StartsWith("f:2:"), HasSubstr(": layers: ")));
  EXPECT_THAT(Failure<Model>("layers: 99999999999999999999\n"), HasSubstr(": layers: "));
  EXPECT_THAT(Failure<Model>("recipe {\n  clip_norm: 1\n"), StartsWith("f:3:1: "));
  EXPECT_THAT(Failure<Model>("name: 'abc\n"), StartsWith("f:1:"));
}

TEST(ParseTextTest, ListsSeveralErrors) {
  EXPECT_EQ(Failure<Model>("layerz: 3\nlayers: 4\nhidden_size: wide\nrecipe { clip: 1 }\n"),
            "f:1:1: layerz: no field of Model (did you mean layers?)\n"
            "f:3:14: hidden_size: Expected integer, got: wide\n"
            "f:4:10: recipe.clip: no field of Recipe (did you mean clip_norm?)");
  // What could be a consequence of the first problem is not reported.
  EXPECT_EQ(Failure<Model>("layers:\nhidden_size: 3\nvocab_size: 4\n"),
            "f:2:1: layers: Expected integer, got: hidden_size");
}

TEST(ParseTextTest, RefusesStringsThatAreNotUtf8) {
  EXPECT_EQ(Failure<Cluster>("nodes: 1\nname: '\\xff'\n"), "f:2:1: name: the text is not UTF-8");
  EXPECT_EQ(Failure<Profile>("versions: 'ok'\nversions: '\\xc0\\x80'\n"),
            "f:2:1: versions[1]: the text is not UTF-8");
  EXPECT_TRUE(ParseText<Cluster>("name: 'K\\303\\266ln'", "f").ok());
}

TEST(ReadTextFileTest, SaysWhatIsWrongWithThePath) {
  const auto missing = ReadTextFile("/no/such/file");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().message, "/no/such/file: No such file or directory");
  const auto directory = ReadTextFile("/");
  ASSERT_FALSE(directory.ok());
  EXPECT_EQ(directory.error().message, "/: is a directory, not a file");
  const auto long_name = ReadTextFile(std::string(100000, 'x'));
  ASSERT_FALSE(long_name.ok());
  EXPECT_THAT(long_name.error().message, HasSubstr("too long"));
  const auto endless = ReadTextFile("/dev/zero");
  ASSERT_FALSE(endless.ok());
  EXPECT_THAT(endless.error().message, HasSubstr("larger than 64 MiB"));
}

TEST(FieldErrorsTest, SaysWhereTheFieldWasWritten) {
  const auto parsed = ParseText<Cluster>(
      "nodes: 0\ngpu {\n  memory_bytes: -1\n  kernel_launch_s: nan\n}\nnode { gpus: 2000 }\n", "f");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  FieldErrors errors(parsed.value().message, parsed.value().source);
  errors.CheckEveryNumber();
  errors.CheckRange("nodes", 1, 100);
  errors.CheckRange("node.gpus", 1, 1000);
  errors.CheckRange("node.nic.count", 1, 1000);
  ASSERT_FALSE(errors.status().ok());
  EXPECT_EQ(errors.status().error().message,
            "f:3:3: gpu.memory_bytes: -1 is not between 0 and 1e+24\n"
            "f:4:3: gpu.kernel_launch_s: nan is not between 0 and 1e+24\n"
            "f:1:1: nodes: is missing or 0, not between 1 and 100\n"
            "f:6:8: node.gpus: 2000 is not between 1 and 1000\n"
            "f:6:1: node.nic.count: is missing or 0, not between 1 and 1000");
}

TEST(FieldErrorsTest, WithoutTextNamesTheSource) {
  const Cluster cluster;
  const TextSource source{"cluster 'x'", nullptr};
  FieldErrors errors(cluster, source);
  errors.CheckRange("node.gpus", 1, 8);
  EXPECT_EQ(errors.status().error().message,
            "cluster 'x': node.gpus: is missing or 0, not between 1 and 8");
}

TEST(FindFieldTest, KnowsNestingCommentsAndStrings) {
  const std::string text = "a: 1 # b { \nc { d: '}' e: 2 } f < g: 3 > h: 4";
  const auto path = [&](const char* mark) { return FindField(text, text.find(mark)).path; };
  EXPECT_EQ(path("1"), "a");
  EXPECT_EQ(path("'}'"), "c.d");
  EXPECT_EQ(path("2"), "c.e");
  EXPECT_EQ(path("3"), "f.g");
  EXPECT_EQ(path("4"), "h");
  EXPECT_EQ(FindField(text, text.find("e:")).line, 1u);
  EXPECT_EQ(FindField(text, text.find("e:")).column, 11u);
  EXPECT_EQ(FindField("", 0).path, "");
  EXPECT_EQ(FindField("}}}>", 3).path, "");
}

// A sign within a number, or a list, takes no value for a name.
TEST(FindFieldTest, KnowsNumbersAndLists) {
  const std::string text = "a: 1.2e-06 b: -5E+7 c: [6, X, 1e-3] d: [] e { f: 8 } g: 9";
  const auto path = [&](const char* mark) { return FindField(text, text.find(mark)).path; };
  EXPECT_EQ(path("06"), "a");
  EXPECT_EQ(path("-5"), "b");
  EXPECT_EQ(path("7"), "b");
  EXPECT_EQ(path("X"), "c");
  EXPECT_EQ(path("1e"), "c");
  EXPECT_EQ(path("[]"), "d");
  EXPECT_EQ(path("8"), "e.f");
  EXPECT_EQ(path("9"), "g");
  // A message is no field of itself.
  EXPECT_EQ(path("{"), "e");
  EXPECT_EQ(FindField(text, text.find('{')).begin, text.find("e {"));
}

TEST(ParseTextTest, NamesTheFieldBehindAnExponent) {
  const std::string before = "collectives { relative_spread: 1.2e-06 ";
  EXPECT_THAT(Failure<Profile>(before + "takes_turns: 2 }"),
              StartsWith("f:1:53: collectives.takes_turns: Integer out of range (2)"));
  EXPECT_THAT(Failure<Profile>("operators { median_s: 2e-06 fusion: WITH }"),
              StartsWith("f:1:37: operators.fusion: 'WITH' is none of ALONE, WITH_NEXT, "));
  EXPECT_THAT(Failure<Profile>("dispatch_s: 2.3e-06\nclocks { boost_s: 1 }\nclocks { boost_s: 1 }"),
              StartsWith("f:3:8: clocks: Non-repeated field \"clocks\" is specified multiple"));
}

TEST(OffsetOfTest, CountsTabsAsTheParserDoes) {
  EXPECT_EQ(OffsetOf("a\n\tb", 1, 8), 3u);
  EXPECT_EQ(OffsetOf("a\nbc", 1, 1), 3u);
  EXPECT_EQ(OffsetOf("a", 5, 0), 1u);
}

// Random edits of good files: whatever comes out, the reader answers with a message or an error
// that names the file.
TEST(ParseTextTest, SurvivesMutatedFiles) {
  const std::string seeds[] = {
      "name: \"tiny\" family: LLAMA\nlayers: 2 hidden_size: 64 recipe { precision: BF16 }\n",
      "nodes: 4\nnode {\n  gpus: 8\n  pcie { h2d_bytes_per_s: 55.1e9 }\n}\n# end\n",
      "tensor_parallel: 2\nstored_tensors: ['a', 'b']\nzero_stage: 1\noffload_ratio: 0.5\n",
      "name: 'p'\noperators { op: 'gemm' dims: [1, 2, 3] median_s: 1e-3 }\ncopies < bytes: 1 >\n"};
  std::mt19937_64 random(1);
  const auto below = [&random](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::string letters = "{}<>[]:;,.#'\"\\-+eE019xX_ \n\t\x01\xff";
  int errors = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = seeds[below(4)];
    for (std::size_t edits = 1 + below(4); edits > 0; --edits) {
      const std::size_t at = below(text.size());
      switch (below(4)) {
        case 0:
          text[at] = letters[below(letters.size())];
          break;
        case 1:
          text.insert(at, 1, letters[below(letters.size())]);
          break;
        case 2:
          text.erase(at, 1 + below(8));
          break;
        case 3:
          text.insert(at, text.substr(below(text.size()), below(40)));
          break;
      }
      if (text.empty()) text = " ";
    }
    const auto check = [&](const auto& parsed) {
      if (parsed.ok()) return;
      ++errors;
      ASSERT_THAT(parsed.error().message, StartsWith("f:")) << text;
    };
    check(ParseText<Model>(text, "f"));
    check(ParseText<Cluster>(text, "f"));
    check(ParseText<Plan>(text, "f"));
    check(ParseText<Profile>(text, "f"));
  }
  EXPECT_GT(errors, 40000);
  EXPECT_LT(errors, 80000);
}

}  // namespace
}  // namespace twinstep
