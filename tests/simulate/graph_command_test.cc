#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "sim/simulate/simulate_command.h"
#include "tests/traces/kineto/tiny_profile.h"

namespace twinstep {
namespace {

using ::testing::HasSubstr;

struct Outcome {
  ExitCode code = ExitCode::kInternal;
  std::string out, err;
};

Outcome Simulate(const std::vector<std::string>& arguments) {
  std::ostringstream out, err;
  const ExitCode code = RunSimulateCommand(arguments, out, err);
  return {code, out.str(), err.str()};
}

nlohmann::json JsonOf(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--json", "-"});
  const Outcome outcome = Simulate(arguments);
  EXPECT_EQ(outcome.code, ExitCode::kDone) << outcome.err;
  return nlohmann::json::parse(outcome.out);
}

std::string Profile() {
  const std::string path = ::testing::TempDir() + "/profile.json";
  std::ofstream(path) << testing::TinyProfile();
  return path;
}

TEST(GraphCommandTest, PhasesThatNothingTellsAreUnknown) {
  const std::string kernels = ::testing::TempDir() + "/kernels.json";
  std::ofstream(kernels)
      << R"([{"ph":"X","cat":"kernel","name":"ampere_bf16_gemm","ts":1,"dur":30,"args":{"stream":7}},)"
      << R"({"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum_bf16","ts":40,"dur":20,)"
      << R"("args":{"stream":8}}])";
  const auto json = JsonOf({"--graph", kernels});
  ASSERT_EQ(json.at("comparison").at("phases").size(), 1u);
  EXPECT_EQ(json.at("comparison").at("phases").at(0).at("name"), "unknown");
  EXPECT_THAT(Simulate({"--graph", kernels, "--scale", "forward=2"}).err,
              HasSubstr("--scale forward changed nothing"));
}

TEST(GraphCommandTest, ReplaysAsItWasAndWithChanges) {
  const std::string profile = Profile();
  const auto same = JsonOf({"--graph", profile});
  EXPECT_DOUBLE_EQ(same.at("traced_iteration_time_s").get<double>(), 250e-6);
  EXPECT_NEAR(same.at("unchanged_error").get<double>(), 0, 1e-9);
  EXPECT_EQ(same.at("iteration_time_s"), same.at("unchanged_iteration_time_s"));
  const auto scaled = JsonOf({"--graph", profile, "--scale", "gemm=2"});
  EXPECT_GT(scaled.at("iteration_time_s"), same.at("iteration_time_s"));
  EXPECT_EQ(scaled.at("scale").at("gemm"), 2);
  const auto twice = JsonOf({"--graph", profile, "--scale", "gemm=0.5", "--scale", "gemm=4"});
  EXPECT_EQ(twice.at("scale").at("gemm"), 2);
  EXPECT_EQ(twice.at("iteration_time_s"), scaled.at("iteration_time_s"));
  // The machine that it was traced on changes nothing, a lesser one does.
  const auto machine = JsonOf({"--graph", profile, "--cluster", "h800", "--traced-on", "h800"});
  EXPECT_EQ(machine.at("iteration_time_s"), same.at("iteration_time_s"));
  const auto slower = JsonOf({"--graph", profile, "--cluster", "4x3090", "--traced-on", "h800"});
  EXPECT_GT(slower.at("iteration_time_s"), same.at("iteration_time_s"));
}

TEST(GraphCommandTest, WhatWasTracedOnAnotherGpuIsTold) {
  const std::string traced = ::testing::TempDir() + "/device.json";
  std::ofstream(traced)
      << R"({"deviceProperties":[{"id":0,"name":"NVIDIA A100-SXM4-80GB"}],"traceEvents":[)"
      << R"({"ph":"X","cat":"kernel","name":"gemm","ts":1,"dur":30,"args":{"stream":7}}]})";
  const auto warnings = [&](const char* traced_on) {
    return JsonOf({"--graph", traced, "--cluster", "b200", "--traced-on", traced_on})
        .at("warnings");
  };
  EXPECT_THAT(warnings("dgx-h100").dump(),
              HasSubstr("the trace is of NVIDIA A100-SXM4-80GB, and --traced-on says dgx-h100"));
  EXPECT_TRUE(warnings("dgx-a100").empty()) << warnings("dgx-a100");
}

// Bases of both clusters are read.
TEST(GraphCommandTest, ABaseIsNotWrittenOver) {
  const std::string base = ::testing::TempDir() + "/base.textproto";
  const std::string own = ::testing::TempDir() + "/own.textproto";
  std::ofstream(base) << R"(base: "h800" name: "b")";
  std::ofstream(own) << R"(base: "base.textproto" name: "o")";
  for (const auto& [on, from] : {std::pair{own.c_str(), "h800"}, {"h800", own.c_str()}}) {
    EXPECT_THAT(
        Simulate({"--graph", Profile(), "--cluster", on, "--traced-on", from, "--json", base}).err,
        HasSubstr("--json: " + base + " is what is read"));
  }
}

TEST(GraphCommandTest, WritesTheTimeline) {
  const std::string trace = ::testing::TempDir() + "/what_if.pftrace";
  const Outcome outcome = Simulate(
      {"--graph", Profile(), "--graph-step", "1", "--scale", "backward=2", "--trace", trace});
  EXPECT_EQ(outcome.code, ExitCode::kDone) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("backward x 2"));
  EXPECT_GT(std::filesystem::file_size(trace), 100u);
}

TEST(GraphCommandTest, ChakraGraphsOfOursReplayExactly) {
  const std::string folder = ::testing::TempDir() + "/chakra";
  std::filesystem::create_directories(folder);
  const Outcome written = Simulate(
      {"--model", "tiny-llama", "--cluster", "h800", "--gpus", "8", "--tp", "2", "--pp", "2",
       "--global-batch", "8", "--micro-batch", "1", "--json", "-", "--trace", folder + "/step.et"});
  ASSERT_EQ(written.code, ExitCode::kDone) << written.err;
  const auto json = JsonOf({"--graph", folder});
  EXPECT_NEAR(json.at("unchanged_error").get<double>(), 0, 1e-9);
  EXPECT_DOUBLE_EQ(json.at("iteration_time_s").get<double>(),
                   nlohmann::json::parse(written.out).at("iteration_time_s").get<double>());
}

TEST(GraphCommandTest, OptionsThatDoNotFitAreNamed) {
  const std::string profile = Profile();
  const auto error = [](const std::vector<std::string>& arguments) {
    const Outcome outcome = Simulate(arguments);
    EXPECT_EQ(outcome.code, ExitCode::kBadInput);
    return outcome.err;
  };
  EXPECT_THAT(error({"--graph", profile, "--model", "llama-7b"}),
              HasSubstr("--model: has no meaning with --graph"));
  EXPECT_THAT(error({"--model", "llama-7b", "--scale", "gemm=2"}), HasSubstr("needs --graph"));
  EXPECT_THAT(error({"--graph", profile, "--scale", "gem=2"}), HasSubstr("did you mean gemm"));
  EXPECT_THAT(error({"--graph", profile, "--scale", "communication=2"}),
              HasSubstr("nor a phase: compute, h2d, d2h, send, recv, collective, host, gemm, "));
  EXPECT_THAT(error({"--graph", profile, "--scale", "gemm=-2"}), HasSubstr("no number from 0"));
  EXPECT_THAT(error({"--graph", profile, "--cluster", "h800"}), HasSubstr("needs --traced-on"));
  EXPECT_THAT(error({"--graph", "/nowhere.json"}), HasSubstr("/nowhere.json: cannot read"));
  EXPECT_THAT(error({"--graph", profile, "--graph-step", "9"}), HasSubstr("has no step 9"));
  EXPECT_THAT(error({"--graph", profile, "--scale", "gemm=1e6", "--scale", "forward=1e6"}),
              HasSubstr("a task lasts more than a month"));
  EXPECT_THAT(error({"--graph", profile, "--trace", ::testing::TempDir() + "/out.et"}),
              HasSubstr("--trace: Chakra's .et is written of simulated models only"));
  const Outcome idle = Simulate({"--graph", profile, "--scale", "d2h=2"});
  EXPECT_EQ(idle.code, ExitCode::kDone);
  EXPECT_THAT(idle.err, HasSubstr("--scale d2h changed nothing"));
}

}  // namespace
}  // namespace twinstep
