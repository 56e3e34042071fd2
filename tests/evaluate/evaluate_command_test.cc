#include "sim/evaluate/evaluate_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace twinstep {
namespace {

using ::testing::HasSubstr;

struct Called {
  ExitCode code;
  std::string out, err;
};

Called Call(const std::vector<std::string>& arguments) {
  std::ostringstream out, err;
  const ExitCode code = RunEvaluateCommand(arguments, out, err);
  return {code, out.str(), err.str()};
}

std::string WriteSuite(const std::string& text) {
  const char* folder = std::getenv("TEST_TMPDIR");
  const std::string path = std::string(folder != nullptr ? folder : "/tmp") + "/suite.textproto";
  std::ofstream(path) << text;
  return path;
}

// The 8-GPU row of llama3-h100 and a kernel.
constexpr const char* kRows = R"(
  name: "mine" cluster: "dgx-h100"
  rows { name: "step" model: "llama-7b" gpus: 8 iteration_s: 1
         plan { global_batch: 8 sequence_length: 2048 } }
  rows { name: "kernel" operation { op: "gemm_forward" dims: 4096 dims: 4096 dims: 4096 }
         flops_per_s: 700e12 }
)";

TEST(EvaluateCommandTest, JsonNamesRowsAndErrors) {
  const Called ran = Call({WriteSuite(kRows), "--json", "-"});
  EXPECT_EQ(ran.code, ExitCode::kDone) << ran.err;
  const auto suite = nlohmann::json::parse(ran.out).at("suites").at(0);
  EXPECT_EQ(suite.at("name"), "mine");
  const auto row = suite.at("rows").at(0);
  EXPECT_EQ(row.at("measured_time_s"), 1.0);
  EXPECT_DOUBLE_EQ(row.at("time_error").get<double>(),
                   row.at("predicted_time_s").get<double>() - 1);
  EXPECT_EQ(suite.at("quantities").at(0).at("rows"), 2);
  EXPECT_TRUE(suite.at("quantities").at(0).contains("null_model"));
}

TEST(EvaluateCommandTest, ThreadsDoNotChangeTheResult) {
  const Called one = Call({"gemm", "--jobs", "1"});
  const Called three = Call({"gemm", "--jobs", "3"});
  EXPECT_EQ(one.out, three.out);
  EXPECT_THAT(one.out, HasSubstr("median"));
}

TEST(EvaluateCommandTest, WorseThanRecordedExitsWithOne) {
  const Called ran =
      Call({WriteSuite(std::string(kRows) + "recorded { quantity: TIME mean: 1e-6 }")});
  EXPECT_EQ(ran.code, ExitCode::kNo);
  EXPECT_THAT(ran.err, HasSubstr("suite mine is worse than recorded: mean time error"));
}

TEST(EvaluateCommandTest, SetChangesClusters) {
  const std::string suite = WriteSuite(kRows);
  const auto kernel_s = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {suite, "--json", "-"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto json = nlohmann::json::parse(Call(arguments).out);
    return json["suites"][0]["rows"][1]["predicted_time_s"].get<double>();
  };
  EXPECT_GT(kernel_s({"--set", "gpu.gemm_max_efficiency=0.4"}), 1.5 * kernel_s({}));
}

TEST(EvaluateCommandTest, SvgHoldsAPointARow) {
  const std::string path = WriteSuite("") + ".svg";
  EXPECT_EQ(Call({WriteSuite(kRows), "--svg", path}).code, ExitCode::kDone);
  std::stringstream svg;
  svg << std::ifstream(path).rdbuf();
  EXPECT_THAT(svg.str(), HasSubstr("mine: kernel, measured"));
}

TEST(EvaluateCommandTest, CrossValidationFitsAConstant) {
  std::string rows = R"(
    name: "fit" cluster: "dgx-h100"
    fitted { field: "gpu.gemm_max_efficiency" least: 0.3 most: 1 })";
  for (const int n : {2048, 3072, 4096, 6144, 8192, 12288}) {
    const std::string dim = " dims: " + std::to_string(n);
    rows += "rows { name: '" + dim + "' operation { op: 'gemm_forward'" + dim + dim + dim +
            " } flops_per_s: 500e12 }\n";
  }
  const Called ran = Call({WriteSuite(rows), "--cross-validate", "--json", "-"});
  ASSERT_EQ(ran.code, ExitCode::kDone) << ran.err;
  const auto json = nlohmann::json::parse(ran.out).at("cross_validation").at(0);
  EXPECT_NEAR(json.at("constants").at("gpu.gemm_max_efficiency").get<double>(), 0.55, 0.06);
  EXPECT_LT(json.at("held_out_mean_error"), 0.1);
}

TEST(EvaluateCommandTest, BadInputNamesFileLineAndField) {
  const Called bad = Call({WriteSuite("name: \"x\"\nrows { name: \"a\" iteration_s: 1 }")});
  EXPECT_EQ(bad.code, ExitCode::kBadInput);
  EXPECT_THAT(bad.err, HasSubstr("suite.textproto:2:"));
  EXPECT_THAT(bad.err, HasSubstr("rows[0]"));
  for (const auto& [row, problem] : std::vector<std::pair<std::string, std::string>>{
           {"collective { op: \"all_reduce\" bytes: 8 }", "needs gpus_a_node"},
           {"collective { op: \"all_reduce\" bytes: 8 gpus_a_node: 1 }", "needs two GPUs"},
           {"collective { op: \"all_reduce\" gpus_a_node: 8 }", "needs bytes"},
           {"collective { op: \"add\" bytes: 8 gpus_a_node: 8 }", "no collective 'add'"},
           {"copy { to_gpu: true }", "needs bytes"}}) {
    const Called kernel = Call({WriteSuite(
        "name: \"x\" cluster: \"dgx-a100\" rows { name: \"a\" seconds: 1 " + row + " }")});
    EXPECT_EQ(kernel.code, ExitCode::kBadInput) << row;
    EXPECT_THAT(kernel.err, HasSubstr(problem)) << row;
  }
  EXPECT_THAT(Call({"llama3-h10"}).err, HasSubstr("llama3-h100"));
  EXPECT_EQ(Call({"gemm", "--jobs", "0"}).code, ExitCode::kBadInput);
  EXPECT_EQ(Call({"--no-such"}).code, ExitCode::kBadInput);
  EXPECT_THAT(Call({"--help"}).out, HasSubstr("--cross-validate"));
}

}  // namespace
}  // namespace twinstep
