// `twinstep validate` as a person runs it: what it says and how it exits. How right the simulation
// is depends on the machine, and is for tests/validate/validate_report to say.
#include "validate/validate_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/exec/runtime/test_folder.h"
#include "traces/compare.h"
#include "traces/trace_io.h"

namespace twinstep {
namespace {

using testing::HasSubstr;

struct Outcome {
  ExitCode code = ExitCode::kDone;
  std::string out, err;
};
// Whether other work runs here is not the test's to say: that warning is left out.
Outcome RunValidate(const std::vector<std::string>& arguments) {
  std::ostringstream out, err;
  const ExitCode code = RunValidateCommand(arguments, out, err);
  std::istringstream lines(err.str());
  std::string said;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("the machine was busy") == std::string::npos) said += line + "\n";
  }
  return {code, out.str(), said};
}

class ValidateCommand : public testing::Test {
 protected:
  ValidateCommand() : data_(folder_.File("text")) { WriteBytes(data_, std::string(4000, 'x')); }

  // Four ranks on two threads, some milliseconds a step.
  std::vector<std::string> Small(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {
        "--model", "tiny-llama", "--data",         data_, "--seq",     "16", "--tp", "2",
        "--pp",    "2",          "--global-batch", "4",   "--threads", "2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  std::string ErrorOf(const std::vector<std::string>& more) const {
    const Outcome outcome = RunValidate(Small(more));
    EXPECT_EQ(outcome.code, ExitCode::kBadInput);
    EXPECT_EQ(outcome.out, "");
    return outcome.err;
  }

  TestFolder folder_;
  std::string data_;
};

TEST_F(ValidateCommand, ComparesTheMedianStep) {
  const Outcome done = RunValidate(
      Small({"--cluster", "cpu-x2", "--steps", "6", "--drop", "1", "--tolerance", "1000"}));
  EXPECT_EQ(done.code, ExitCode::kDone) << done.err;
  EXPECT_THAT(done.out, HasSubstr("cpu-x2, 2 threads for all ranks"));
  EXPECT_THAT(done.out, HasSubstr("6 run, the first 1 dropped; compared is step"));
  EXPECT_THAT(done.out, HasSubstr("the median of 5"));
  EXPECT_THAT(done.out, HasSubstr("tasks of 4 ranks"));
  EXPECT_THAT(done.out, HasSubstr("All 5 steps, mean of all ranks: each row's own median"));
  EXPECT_THAT(done.out, HasSubstr("within tolerance: iteration"));
  // Without a profile every time is a formula's.
  EXPECT_THAT(done.out, HasSubstr("modelled"));
}

TEST_F(ValidateCommand, MeasuresTheMachineFirstIfAsked) {
  const Outcome done = RunValidate(
      Small({"--profile", "auto", "--profile-seconds", "0.2", "--steps", "3", "--json", "-"}));
  ASSERT_EQ(done.code, ExitCode::kDone) << done.err;
  const auto json = nlohmann::json::parse(done.out);
  EXPECT_THAT(json["profile"].get<std::string>(), HasSubstr("tiny-llama on "));
  // All of this plan's tasks were measured.
  for (const auto& kind : json["kinds"]) {
    EXPECT_EQ(kind["evidence"]["modelled"], 0) << kind;
    EXPECT_EQ(kind["evidence"]["extrapolated"], 0) << kind;
  }
}

TEST_F(ValidateCommand, OutOfToleranceIsAnAnswer) {
  const Outcome no = RunValidate(Small(
      {"--cluster", "cpu-x2", "--steps", "3", "--tolerance", "0", "--tolerance-memory", "0.01"}));
  EXPECT_EQ(no.code, ExitCode::kNo);
  EXPECT_EQ(no.err, "");
  EXPECT_THAT(no.out, HasSubstr("OUT OF tolerance: iteration"));
  // One graph in the same arenas. Which buffers live at once depends on how lanes overlap, and that
  // on times: sanitizers have made a rank's peak 0.2 % larger.
  EXPECT_THAT(no.out, HasSubstr("within tolerance: gpu memory"));
}

TEST_F(ValidateCommand, SavedTracesCompareAlike) {
  const std::string folder = folder_.File("traces");
  const Outcome done = RunValidate(
      Small({"--cluster", "cpu-x2", "--steps", "4", "--json", "-", "--save-traces", folder}));
  ASSERT_EQ(done.code, ExitCode::kDone) << done.err;
  const auto json = nlohmann::json::parse(done.out);
  const Result<Trace> simulated = ReadTrace(folder + "/simulated.pb");
  const Result<Trace> executed = ReadTrace(folder + "/executed.pb");
  ASSERT_TRUE(simulated.ok() && executed.ok());
  EXPECT_EQ(simulated.value().origin(), Trace::SIMULATED);
  EXPECT_EQ(executed.value().origin(), Trace::EXECUTED);
  const Result<TraceComparison> comparison = CompareTraces(simulated.value(), executed.value(), {});
  ASSERT_TRUE(comparison.ok()) << comparison.error().message;
  EXPECT_EQ(json["iteration"]["a_s"].get<double>(), comparison.value().iteration.a_s);
  EXPECT_EQ(json["iteration"]["b_s"].get<double>(), comparison.value().iteration.b_s);
  EXPECT_EQ(json["tasks"].get<std::int64_t>(), comparison.value().tasks);
  EXPECT_EQ(json["step_s"].size(), 2u);
  EXPECT_EQ(json["ranks"].size(), 4u);
  for (const auto& rank : json["ranks"]) {
    for (const char* side : {"a", "b"}) {
      double sum = 0;
      for (const auto& [name, seconds] : rank[side].items()) sum += seconds.get<double>();
      EXPECT_NEAR(sum, json["iteration"][std::string(side) + "_s"].get<double>(), 1e-9);
    }
  }
}

TEST_F(ValidateCommand, JudgesTheMediansOfAllSteps) {
  const Outcome done =
      RunValidate(Small({"--cluster", "cpu-x2", "--steps", "6", "--drop", "1", "--json", "-",
                         "--tolerance-kind", "1000", "--tolerance-exposed", "1000"}));
  ASSERT_LE(done.code, ExitCode::kNo) << done.err;
  const auto json = nlohmann::json::parse(done.out);
  const std::size_t compared = json["compared_step"].get<std::size_t>() - 2;
  const auto& all = json["all_steps"];
  const auto expect_spread = [&](const nlohmann::json& times, const nlohmann::json& of_one) {
    auto step_s = times["step_s"].get<std::vector<double>>();
    ASSERT_EQ(step_s.size(), 5u);
    EXPECT_EQ(times["a_s"], of_one["a_s"]);
    EXPECT_EQ(step_s[compared], of_one["b_s"].get<double>());
    std::sort(step_s.begin(), step_s.end());
    EXPECT_EQ(times["least_s"], step_s[0]);
    EXPECT_EQ(times["median_s"], step_s[2]);
    EXPECT_EQ(times["most_s"], step_s[4]);
  };
  ASSERT_EQ(all["kinds"].size(), json["kinds"].size());
  std::map<std::string, nlohmann::json> error;
  for (std::size_t i = 0; i < json["kinds"].size(); ++i) {
    const auto& kind = all["kinds"][i];
    EXPECT_EQ(kind["name"], json["kinds"][i]["name"]);
    expect_spread(kind, json["kinds"][i]);
    error["busy time of " + kind["name"].get<std::string>()] = kind["error"];
  }
  for (const auto& [name, times] : all["exposed"].items()) {
    expect_spread(times, json["breakdown"][name]);
  }
  error["TP exposed"] = all["exposed"]["tp_exposed_s"]["error"];
  error["PP exposed"] = all["exposed"]["pp_exposed_s"]["error"];
  EXPECT_FALSE(json["verdicts"].empty());
  for (const auto& verdict : json["verdicts"]) {
    EXPECT_EQ(verdict["error"], error.at(verdict["what"])) << verdict;
  }
}

TEST_F(ValidateCommand, WhatIsMissingOrWrongIsNamed) {
  EXPECT_THAT(ErrorOf({}), HasSubstr("--cluster is missing, or a --profile"));
  EXPECT_THAT(ErrorOf({"--cluster", "h800"}), HasSubstr("h800 has GPUs, and the cpu backend"));
  EXPECT_THAT(ErrorOf({"--cluster", "cpu-x2", "--steps", "2"}), HasSubstr("2 of 2 steps leave"));
  EXPECT_THAT(ErrorOf({"--cluster", "cpu-x2", "--tolerance", "-1"}), HasSubstr("--tolerance"));
  EXPECT_THAT(ErrorOf({"--cluster", "cpu-x2", "--profile-seconds", "1"}),
              HasSubstr("needs --profile auto"));
  EXPECT_THAT(ErrorOf({"--cluster", "cpu-x2", "--poison"}), HasSubstr("unknown option --poison"));
  EXPECT_THAT(ErrorOf({"--cluster", "cpu-x2", "--save-traces", data_}), HasSubstr("cannot create"));
  const std::string nowhere = data_ + "/report.json";
  EXPECT_THAT(ErrorOf({"--cluster", "cpu-x2", "--json", nowhere}), HasSubstr(nowhere));
}

TEST_F(ValidateCommand, AFolderOfTracesIsNoReport) {
  const std::string name = folder_.File("both");
  for (const std::string& folder : {name, name + "/", name + "/traces"}) {
    EXPECT_THAT(ErrorOf({"--cluster", "cpu-x2", "--json", name, "--save-traces", folder}),
                HasSubstr("--json: " + name + " is a folder of --save-traces, and no file"));
  }
  EXPECT_FALSE(std::filesystem::exists(name));
}

// Whoever gave no --cluster has nothing to change there.
TEST_F(ValidateCommand, TheOptionThatSaysGpusIsNamed) {
  const std::string profile = folder_.File("profile.textproto");
  WriteBytes(profile, R"(measured_on { name: "measured" nodes: 1
      gpu { name: "NVIDIA H200" memory_bytes: 150000000000 bf16_flops_per_s: 700e12
            memory_bytes_per_s: 4e12 }
      node { gpus: 2 pcie { h2d_bytes_per_s: 50e9 d2h_bytes_per_s: 50e9 }
             host { memory_bytes: 100000000000 dram_bytes_per_s: 90e9 cores: 16 } } })");
  EXPECT_THAT(ErrorOf({"--profile", profile}), HasSubstr("--profile: measured has GPUs, and the "));
  EXPECT_THAT(ErrorOf({"--profile", profile, "--cluster", "h800"}),
              HasSubstr("--cluster: h800 has GPUs, and the "));
}

// Before a GPU is looked for, and before anything is measured.
TEST_F(ValidateCommand, SeveralProcessesAreRefused) {
  for (const char* backend : {"cpu", "cuda"}) {
    for (const char* size : {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"}) {
      setenv(size, "2", 1);
      const std::string error = ErrorOf({"--profile", "auto", "--backend", backend});
      unsetenv(size);
      EXPECT_THAT(error, HasSubstr(std::string(size) + " is 2"));
      EXPECT_THAT(error, HasSubstr("validate needs all ranks in one"));
    }
  }
}

TEST_F(ValidateCommand, AProfileOfAnotherMachineIsReported) {
  const std::string profile = folder_.File("profile.textproto");
  WriteBytes(profile, "machine: 'Analytical Engine, 1 core'");
  const Outcome done =
      RunValidate(Small({"--cluster", "cpu-x2", "--profile", profile, "--steps", "3"}));
  EXPECT_EQ(done.code, ExitCode::kDone) << done.err;
  EXPECT_THAT(done.err, HasSubstr("measured on 'Analytical Engine, 1 core', and this is '"));
}

TEST_F(ValidateCommand, AToleranceThatJudgesNothingIsReported) {
  std::vector<std::string> arguments =
      Small({"--cluster", "cpu-x2", "--steps", "3", "--tolerance-exposed", "0"});
  arguments[7] = arguments[9] = "1";  // One rank has nobody to talk to.
  const Outcome done = RunValidate(arguments);
  EXPECT_EQ(done.code, ExitCode::kDone) << done.err;
  EXPECT_THAT(done.err, HasSubstr("--tolerance-exposed judged nothing"));
}

TEST_F(ValidateCommand, AnInfeasiblePlanIsAnAnswer) {
  std::vector<std::string> arguments = Small({"--cluster", "cpu-x2"});
  arguments[9] = "3";
  const Outcome infeasible = RunValidate(arguments);
  EXPECT_EQ(infeasible.code, ExitCode::kNo) << infeasible.err;
}

TEST_F(ValidateCommand, HelpNamesEveryOption) {
  const Outcome help = RunValidate({"--help"});
  EXPECT_EQ(help.code, ExitCode::kDone);
  for (const char* option : {"--model", "--tp", "--profile", "--tolerance-kind", "--save-traces"}) {
    EXPECT_THAT(help.out, HasSubstr(option));
  }
  EXPECT_THAT(help.out, testing::Not(HasSubstr("--poison")));
}

}  // namespace
}  // namespace twinstep
