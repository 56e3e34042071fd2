// The real binary in a process of its own: exit codes, streams, and the main job.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/wait.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Answer {
  int code = -1;
  std::string out;  // Standard output, then the end of standard error if it was joined.
};

// Runs `./twinstep ARGUMENTS` through the shell.
Answer Call(const std::string& arguments) {
  Answer answer;
  FILE* const pipe = popen(("./twinstep " + arguments).c_str(), "r");
  if (pipe == nullptr) return answer;
  std::array<char, 4096> buffer;
  for (std::size_t n = 0; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    answer.out.append(buffer.data(), n);
  }
  const int status = pclose(pipe);
  answer.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return answer;
}

constexpr const char* kMainJob =
    "simulate --model llama-65b --cluster h800 --gpus 256 --seq 8192 --global-batch 256 "
    "--tp 2 --cp 2 --pp 8 --layers-per-stage 2 --offload-ratio auto "
    "--gpu-memory-budget 65000MiB ";

TEST(BinaryTest, HelpAndVersionExitWithZero) {
  const Answer version = Call("--version");
  EXPECT_EQ(version.code, 0);
  EXPECT_THAT(version.out, StartsWith("twinstep "));
  for (const char* help : {"--help", "simulate --help", "train --help", "list --help"}) {
    const Answer answer = Call(help);
    EXPECT_EQ(answer.code, 0) << help;
    EXPECT_THAT(answer.out, HasSubstr("twinstep")) << help;
  }
}

TEST(BinaryTest, EveryVerbsHelpFitsATerminal) {
  std::istringstream help(Call("--help").out);
  std::vector<std::string> verbs;
  bool is_verb = false;
  for (std::string line; std::getline(help, line);) {
    EXPECT_LE(line.size(), 100u) << line;
    if (is_verb && !line.empty()) verbs.push_back(line.substr(2, line.find(' ', 2) - 2));
    is_verb = line == "Verbs" || (is_verb && !line.empty());
  }
  EXPECT_GE(verbs.size(), 11u);
  for (const std::string& verb : verbs) {
    const Answer answer = Call(verb + " -h");
    EXPECT_EQ(answer.code, 0) << verb;
    EXPECT_EQ(answer.out, Call(verb + " --help").out) << verb;
    EXPECT_THAT(answer.out, HasSubstr("twinstep " + verb));
    std::istringstream lines(answer.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
  }
}

TEST(BinaryTest, BadInputExitsWithTwoAndSaysWhy) {
  EXPECT_EQ(Call("2>&1").code, 2);
  const Answer verb = Call("simulat 2>&1");
  EXPECT_EQ(verb.code, 2);
  EXPECT_THAT(verb.out, HasSubstr("did you mean simulate?"));
  const Answer model = Call("simulate --model llama-66b --cluster h800 --global-batch 8 2>&1");
  EXPECT_EQ(model.code, 2);
  EXPECT_THAT(model.out, HasSubstr("llama-65b"));
  EXPECT_EQ(Call("list nothing 2>&1").code, 2);
  EXPECT_EQ(Call("list models >/dev/full 2>/dev/null").code, 2);
}

TEST(BinaryTest, ErrorsAreOneSentence) {
  // Protobuf has lines of its own for names that are not UTF-8.
  const std::string path = ::testing::TempDir() + "/latin-1.pb";
  std::ofstream(path) << "\x12\x01\xe9";
  const Answer answer = Call("show " + path + " 2>&1");
  EXPECT_EQ(answer.code, 2);
  EXPECT_EQ(answer.out, "twinstep show: " + path + ": is not a Twinstep trace\n");
}

TEST(BinaryTest, InfeasiblePlansExitWithOneAndWriteJson) {
  const Answer answer = Call(
      "simulate --model llama-65b --cluster h800 --gpus 256 --seq 8192 --global-batch 256 "
      "--tp 2 --cp 2 --pp 8 --layers-per-stage 2 --json -");
  EXPECT_EQ(answer.code, 1);
  const json infeasible = json::parse(answer.out).at("infeasible");
  EXPECT_EQ(infeasible.at("rule"), "gpu-memory");
  EXPECT_EQ(infeasible.at("pool"), "gpu");
  EXPECT_EQ(infeasible.at("rank"), 0);
  EXPECT_GT(infeasible.at("bytes"), 0);
}

TEST(MainJobTest, Llama65bOn256H800IsPlausible) {
  const auto begin = std::chrono::steady_clock::now();
  const Answer answer = Call(std::string(kMainJob) + "--json -");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  ASSERT_EQ(answer.code, 0);
  const json report = json::parse(answer.out);
  EXPECT_GT(report.at("mfu"), 0.3);
  EXPECT_LT(report.at("mfu"), 0.5);
  EXPECT_GT(report.at("offload_ratio"), 0.3);
  EXPECT_LT(report.at("offload_ratio"), 0.4);
  EXPECT_EQ(report.at("iteration").at("tokens"), 256 * 8192);
  EXPECT_LT(took.count(), 60);
}

TEST(MainJobTest, TextReportNamesEveryPart) {
  const Answer answer = Call(kMainJob);
  ASSERT_EQ(answer.code, 0);
  std::istringstream lines(answer.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
  for (const char* part :
       {"llama-65b", "h800", "iteration time", "Where the time goes", "GPU memory of each rank",
        "Pinned host memory", "Busiest link", "Critical path", "Computation of a rank"}) {
    EXPECT_THAT(answer.out, HasSubstr(part));
  }
}

// Yuan et al., ATC 2024: ratios that the paper's repository publishes, threshold 65000 MiB, V =
// 32004.
TEST(MainJobTest, SolvesThePublishedOffloadRatios) {
  struct Row {
    const char* options;
    double ratio;
  };
  for (const Row& row :
       {Row{"--model llama-175b --gpus 256 --seq 8192 --global-batch 256 --tp 4 --pp 8 "
            "--layers-per-stage 2 --recompute balanced",
            0.620},
        Row{"--model llama-7b --gpus 4 --seq 12288 --global-batch 16 --pp 4 "
            "--layers-per-stage 1",
            0.503},
        Row{"--model llama-65b --gpus 64 --seq 32768 --global-batch 16 --tp 4 --cp 2 --pp 4 "
            "--layers-per-stage 1",
            0.737},
        Row{"--model llama2-70b --gpus 40 --seq 8192 --global-batch 260 --tp 2 --pp 10 "
            "--layers-per-stage 2 --recompute balanced",
            0.713}}) {
    const Answer answer =
        Call(std::string("simulate --cluster h800 --set vocab_size=32004 ") +
             "--offload-ratio auto --gpu-memory-budget 65000MiB --json - " + row.options);
    const json report = json::parse(answer.out);
    EXPECT_NEAR(report.at("offload_ratio").get<double>(), row.ratio, 0.0005) << row.options;
  }
}

TEST(BinaryTest, BazelRunKeepsTheUsersDirectory) {
  const std::string directory = ::testing::TempDir();
  setenv("BUILD_WORKING_DIRECTORY", directory.c_str(), 1);
  const Answer answer =
      Call("simulate --model tiny-gpt --cluster h200 --global-batch 1 --json here.json");
  unsetenv("BUILD_WORKING_DIRECTORY");
  EXPECT_EQ(answer.code, 0);
  EXPECT_EQ(std::system(("test -s '" + directory + "/here.json'").c_str()), 0);
}

}  // namespace
