#include "exec/train/train_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/exec/runtime/test_folder.h"

namespace twinstep {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

struct Outcome {
  ExitCode code = ExitCode::kDone;
  std::string out, err;
};
Outcome RunTrain(const std::vector<std::string>& arguments) {
  std::ostringstream out, err;
  const ExitCode code = RunTrainCommand(arguments, out, err);
  return {code, out.str(), err.str()};
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The losses of a log, as they are written: with every bit.
std::vector<double> LossesOfLog(const std::string& path) {
  std::vector<double> losses;
  for (const std::string& line : Lines(ReadBytes(path))) {
    losses.push_back(nlohmann::json::parse(line).at("loss").get<double>());
  }
  return losses;
}

// A text with something to learn in it.
std::string Text() {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "line " + std::to_string(i * i) + " of the text.\n";
  return text;
}

class TrainCommand : public testing::Test {
 protected:
  TrainCommand() : data_(folder_.File("text")) { WriteBytes(data_, Text()); }

  // A training of some milliseconds a step.
  std::vector<std::string> Small(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {
        "--model", "tiny-llama-gqa", "--data", data_,       "--seq", "16",        "--global-batch",
        "4",       "--steps",        "6",      "--threads", "2",     "--dropout", "0.1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  TestFolder folder_;
  std::string data_;
};

TEST_F(TrainCommand, PrintsALineAStepAndLogsJson) {
  const std::string log = folder_.File("log.jsonl");
  const Outcome run = RunTrain(Small({"--log", log}));
  ASSERT_EQ(run.code, ExitCode::kDone) << run.err;
  EXPECT_EQ(run.err, "");
  const std::vector<std::string> lines = Lines(run.out);
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_THAT(lines[0], MatchesRegex("step 1 loss 5\\.[0-9]{6} lr 1\\.000e-03 [0-9]+ tokens/s"));
  EXPECT_THAT(lines[5], MatchesRegex("step 6 loss [0-9.]+ lr 1\\.000e-04 [0-9]+ tokens/s"));
  const std::vector<std::string> logged = Lines(ReadBytes(log));
  ASSERT_EQ(logged.size(), 6u);
  const auto json = nlohmann::json::parse(logged[2]);
  EXPECT_EQ(json.at("step"), 3);
  EXPECT_EQ(json.at("tokens"), 64);
  EXPECT_GT(json.at("iteration_s"), 0);
  EXPECT_NEAR(LossesOfLog(log)[0], std::log(256), 0.2);
}

TEST_F(TrainCommand, PlansPrintTheSameNumbers) {
  const std::string plain = folder_.File("plain"), other = folder_.File("other");
  ASSERT_EQ(RunTrain(Small({"--log", plain})).code, ExitCode::kDone);
  const Outcome run = RunTrain(Small({"--log", other, "--pp", "2", "--virtual-stages", "2",
                                      "--recompute", "full", "--shuffle-seed", "5", "--poison"}));
  ASSERT_EQ(run.code, ExitCode::kDone) << run.err;
  EXPECT_EQ(LossesOfLog(plain), LossesOfLog(other));
}

TEST_F(TrainCommand, ResumingGivesTheSameBits) {
  for (const std::string precision : {"fp32", "bf16", "fp64"}) {
    const auto small = [&](std::vector<std::string> more) {
      more.insert(more.end(), {"--precision", precision});
      return RunTrain(Small(more));
    };
    const std::string whole = folder_.File(precision + "-whole");
    const std::string parts = folder_.File(precision + "-parts");
    const std::string whole_log = whole + ".log", parts_log = parts + ".log";
    Outcome run = small({"--save", whole, "--log", whole_log, "--seed", "7"});
    ASSERT_EQ(run.code, ExitCode::kDone) << run.err;
    run = small({"--save", parts, "--save-every", "2", "--save-keep", "0", "--seed", "7"});
    ASSERT_EQ(run.code, ExitCode::kDone) << run.err;
    // As if it had been killed after step 4; the rest runs by another plan.
    std::filesystem::remove(parts + "/step-00000006.safetensors");
    run = small({"--save", parts, "--resume", parts, "--log", parts_log, "--pp", "4", "--recompute",
                 "balanced"});
    ASSERT_EQ(run.code, ExitCode::kDone) << run.err;
    EXPECT_EQ(run.err, "");
    EXPECT_EQ(Lines(run.out).size(), 2u);
    EXPECT_THAT(run.out, StartsWith("step 5 "));
    const std::vector<double> losses = LossesOfLog(whole_log);
    EXPECT_EQ(LossesOfLog(parts_log), std::vector<double>(losses.begin() + 4, losses.end()));
    EXPECT_EQ(ReadBytes(whole + "/step-00000006.safetensors"),
              ReadBytes(parts + "/step-00000006.safetensors"))
        << precision;
  }
}

TEST_F(TrainCommand, ResumingLogsNoStepTwice) {
  const std::string run_folder = folder_.File("run"), log = folder_.File("log.jsonl");
  ASSERT_EQ(RunTrain(Small({"--save", run_folder, "--log", log})).code, ExitCode::kDone);
  const std::vector<double> losses = LossesOfLog(log);
  std::filesystem::remove_all(run_folder);
  ASSERT_EQ(
      RunTrain(Small({"--save", run_folder, "--save-every", "4", "--save-keep", "0", "--log", log}))
          .code,
      ExitCode::kDone);
  // As if it had been killed in the middle of the line of step 6.
  std::filesystem::remove(run_folder + "/step-00000006.safetensors");
  std::filesystem::resize_file(log, std::filesystem::file_size(log) - 30);
  const Outcome run = RunTrain(Small({"--resume", run_folder, "--log", log}));
  ASSERT_EQ(run.code, ExitCode::kDone) << run.err;
  EXPECT_THAT(run.out, StartsWith("step 5 "));
  EXPECT_EQ(LossesOfLog(log), losses);
}

TEST_F(TrainCommand, ResumingSaysWhatDiffers) {
  const std::string run_folder = folder_.File("run");
  ASSERT_EQ(RunTrain(Small({"--save", run_folder, "--save-every", "3"})).code, ExitCode::kDone);
  std::filesystem::resize_file(run_folder + "/step-00000006.safetensors", 1000);
  const Outcome run = RunTrain(Small({"--resume", run_folder, "--lr", "2e-3", "--seed", "2"}));
  ASSERT_EQ(run.code, ExitCode::kDone) << run.err;
  EXPECT_THAT(run.err, HasSubstr("warning: skipping a checkpoint: " + run_folder +
                                 "/step-00000006.safetensors: is truncated"));
  EXPECT_THAT(run.err, HasSubstr("--lr was 0.001"));
  EXPECT_THAT(run.err, HasSubstr("--seed was 1 "));
  EXPECT_THAT(run.out, StartsWith("step 4 "));

  const Outcome other = RunTrain(Small({"--resume", run_folder, "--set", "ffn_hidden_size=192"}));
  EXPECT_EQ(other.code, ExitCode::kBadInput);
  EXPECT_THAT(other.err, HasSubstr("is a checkpoint of another model"));
  EXPECT_THAT(other.err, HasSubstr("ffn_hidden_size: 176 -> 192"));
  const Outcome again = RunTrain(Small({"--save", run_folder}));
  EXPECT_EQ(again.code, ExitCode::kBadInput);
  EXPECT_THAT(again.err, HasSubstr("holds checkpoints of another training"));
}

TEST_F(TrainCommand, ExportedWeightsBeginAnotherTraining) {
  const std::string exported = folder_.File("model.safetensors");
  const std::string again = folder_.File("again.safetensors");
  ASSERT_EQ(RunTrain(Small({"--export", exported})).code, ExitCode::kDone);
  // A learning rate of zero leaves them as they are.
  const Outcome run =
      RunTrain(Small({"--init-from", exported, "--lr", "0", "--export", again, "--tp", "2"}));
  ASSERT_EQ(run.code, ExitCode::kDone) << run.err;
  EXPECT_EQ(ReadBytes(exported), ReadBytes(again));
}

TEST_F(TrainCommand, WritesATraceOfTheLastStep) {
  const std::string trace = folder_.File("trace.json");
  const Outcome run = RunTrain(Small({"--trace", trace}));
  ASSERT_EQ(run.code, ExitCode::kDone) << run.err;
  EXPECT_TRUE(nlohmann::json::parse(ReadBytes(trace)).contains("traceEvents"));
}

TEST_F(TrainCommand, BadInputIsNamed) {
  const auto error = [this](const std::vector<std::string>& more) {
    const Outcome run = RunTrain(Small(more));
    EXPECT_EQ(run.code, ExitCode::kBadInput) << run.err;
    return run.err;
  };
  EXPECT_THAT(RunTrain({"--model", "tiny-llama"}).err, HasSubstr("--data is missing"));
  EXPECT_THAT(error({"--backend", "cuda"}), HasSubstr("--backend: "));
  EXPECT_THAT(error({"--backend", "cpx"}), HasSubstr("'cpx' is none of cpu"));
  EXPECT_THAT(error({"--tokenizer", "bpe"}), HasSubstr("'bpe' is none of bytes"));
  EXPECT_THAT(error({"--min-lr", "1"}), HasSubstr("--min-lr: 1 is above --lr 0.001"));
  EXPECT_THAT(error({"--stepz", "1"}), HasSubstr("did you mean --steps"));
  EXPECT_THAT(error({"--save-every", "2"}), HasSubstr("needs --save FOLDER"));
  EXPECT_THAT(error({"--resume", folder_.File("none")}), HasSubstr(folder_.File("none")));
  EXPECT_THAT(error({"--init-from", data_}), HasSubstr(data_ + ": is no safetensors file"));
  EXPECT_THAT(error({"--log", "/nowhere/log"}), HasSubstr("/nowhere/log: cannot open"));
  EXPECT_THAT(error({"--trace", "trace.xyz"}), HasSubstr("trace.xyz"));
  EXPECT_THAT(error({"--set", "vocab_size=250"}), HasSubstr("a vocabulary of 256"));
  EXPECT_THAT(error({"--dp", "5000"}), HasSubstr("more than 4096 ranks"));
  WriteBytes(data_, "short");
  EXPECT_THAT(error({}), HasSubstr("5 bytes are too few for one sequence of 16 tokens"));
}

TEST_F(TrainCommand, SeveralProcessesNeedTheirPlacesAndGpus) {
  setenv("WORLD_SIZE", "2", 1);
  const Outcome without = RunTrain(Small({}));
  for (const char* name : {"RANK", "LOCAL_RANK", "MASTER_PORT"}) setenv(name, "1", 1);
  setenv("MASTER_ADDR", "localhost", 1);
  const Outcome on_cpu = RunTrain(Small({}));
  for (const char* name : {"WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_PORT", "MASTER_ADDR"}) {
    unsetenv(name);
  }
  EXPECT_EQ(without.code, ExitCode::kBadInput);
  EXPECT_THAT(without.err, HasSubstr("RANK"));
  EXPECT_EQ(on_cpu.code, ExitCode::kBadInput);
  EXPECT_THAT(on_cpu.err, HasSubstr("WORLD_SIZE is 2, and only cuda"));
}

// Nobody trains for hours and then learns that the result cannot be written.
TEST_F(TrainCommand, WhatCannotBeWrittenIsSaidBeforeTheFirstStep) {
  const std::string folder = folder_.File("folder");
  std::filesystem::create_directory(folder);
  const auto refused = [this](const std::string& option, const std::string& path) {
    const Outcome run = RunTrain(Small({option, path}));
    EXPECT_EQ(run.code, ExitCode::kBadInput) << option;
    EXPECT_EQ(run.out, "") << option;
    EXPECT_THAT(run.err, HasSubstr(path)) << option;
  };
  refused("--save", data_);
  refused("--save", data_ + "/below");
  refused("--export", folder);
  refused("--trace", folder_.File("none") + "/trace.json");
  EXPECT_EQ(ReadBytes(data_), Text());
}

TEST_F(TrainCommand, AnInfeasiblePlanIsTheAnswerNo) {
  const Outcome run = RunTrain(Small({"--tp", "3"}));
  EXPECT_EQ(run.code, ExitCode::kNo);
  EXPECT_THAT(run.err, HasSubstr("heads"));
}

TEST_F(TrainCommand, HelpNamesEveryOption) {
  const Outcome run = RunTrain({"--help"});
  EXPECT_EQ(run.code, ExitCode::kDone);
  for (const char* option : {"--data", "--tp", "--dp", "--resume", "--recompute", "--precision"}) {
    EXPECT_THAT(run.out, HasSubstr(option));
  }
}

}  // namespace
}  // namespace twinstep
