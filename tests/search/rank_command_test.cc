#include "sim/search/rank_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "sim/search/rank_options.h"

namespace twinstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

struct Answer {
  ExitCode code;
  std::string out, err;
};

std::vector<std::string> Words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

Answer Rank(const std::string& arguments) {
  std::ostringstream out, err;
  const ExitCode code = RunRankCommand(Words(arguments), out, err);
  return {code, out.str(), err.str()};
}

Answer MergeParts(const std::string& arguments) {
  std::ostringstream out, err;
  const ExitCode code = RunMergeCommand(Words(arguments), out, err);
  return {code, out.str(), err.str()};
}

std::string TemporaryFile(const std::string& name) {
  return std::string(std::getenv("TEST_TMPDIR")) + "/" + name;
}

std::string Content(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

constexpr const char* kProblem =
    "--model tiny-llama --cluster dgx-a100 --seq 64 --global-batch 16 --gap 0 ";

TEST(RankCommandTest, SameBytesWithAnyNumberOfThreads) {
  const std::string csv = TemporaryFile("all.csv");
  std::vector<std::string> texts, tables;
  for (const char* threads : {"1", "2", "7"}) {
    const Answer run =
        Rank(std::string(kProblem) + "--gpus 8 --explain --threads " + threads + " --csv " + csv);
    EXPECT_EQ(run.code, ExitCode::kDone) << run.err;
    // The number of threads is no part of the echo.
    texts.push_back(run.out);
    tables.push_back(Content(csv));
  }
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_EQ(texts[0], texts[2]);
  EXPECT_EQ(tables[0], tables[1]);
  EXPECT_EQ(tables[0], tables[2]);
  EXPECT_THAT(texts[0], HasSubstr("proven the best"));
  EXPECT_THAT(texts[0], HasSubstr("heads-divide"));
}

TEST(RankCommandTest, SameBytesInEverySpace) {
  for (const char* more : {
           "--space chunks --model gpt2-1b --cluster 4x3090 --gpus 4 --seq 256 --global-batch 8 "
           "--set layers=6 --gpu-memory-capacity 3GiB",
           "--space all --model tiny-llama --cluster dgx-a100 --gpus 1..4 --seq 64 "
           "--global-batch 12..16",
           "--maximize layers --space all --model tiny-llama --cluster dgx-a100 --gpus 2 --seq 64 "
           "--gpu-memory-capacity 20MiB --host-memory-budget 20MiB",
       }) {
    std::vector<std::string> texts;
    for (const char* threads : {"1", "2", "7"}) {
      const Answer run = Rank(std::string(more) + " --explain --threads " + threads);
      EXPECT_EQ(run.code, ExitCode::kDone) << run.err;
      texts.push_back(run.out);
    }
    EXPECT_EQ(texts[0], texts[1]) << more;
    EXPECT_EQ(texts[0], texts[2]) << more;
  }
}

TEST(RankCommandTest, SweepShowsScaling) {
  const std::string plot = TemporaryFile("scaling.svg");
  const Answer run = Rank(std::string(kProblem) + "--gpus 2..8:2 --global-batch 16 --plot " + plot);
  EXPECT_EQ(run.code, ExitCode::kBadInput);  // Given twice.
  const Answer good = Rank(
      "--model tiny-llama --cluster dgx-a100 --seq 64 --global-batch 12..16 --gpus 2..8:2 --plot " +
      plot);
  EXPECT_EQ(good.code, ExitCode::kDone) << good.err;
  EXPECT_THAT(good.out, HasSubstr("data-parallel scaling"));
  EXPECT_THAT(Content(plot), HasSubstr("</svg>"));
}

TEST(RankCommandTest, PartsMergeToTheWhole) {
  const std::string whole = TemporaryFile("whole.json");
  ASSERT_EQ(Rank(std::string(kProblem) + "--gpus 8 --json " + whole).code, ExitCode::kDone);
  std::string parts;
  for (const char* part : {"1", "2", "3"}) {
    const std::string path = TemporaryFile(std::string("part") + part + ".json");
    ASSERT_EQ(Rank(std::string(kProblem) + "--gpus 8 --shard " + part + "/3 --json " + path).code,
              ExitCode::kDone);
    parts += " --part " + path;
  }
  const Answer merged = MergeParts(parts + " --json -");
  ASSERT_EQ(merged.code, ExitCode::kDone) << merged.err;
  const auto all = nlohmann::json::parse(Content(whole))["points"][0];
  const auto sum = nlohmann::json::parse(merged.out)["points"][0];
  EXPECT_EQ(sum["plans"], all["plans"]);
  EXPECT_EQ(sum["ranking"][0], all["ranking"][0]);
  EXPECT_EQ(sum["certified_gap"], 0);
  EXPECT_EQ(sum["infeasible"], all["infeasible"]);
  EXPECT_EQ(sum["invalid"], all["invalid"]);

  EXPECT_THAT(
      MergeParts("--part " + TemporaryFile("part1.json") + " --part " + TemporaryFile("part3.json"))
          .err,
      HasSubstr("part 2/3 is missing"));
  EXPECT_THAT(MergeParts(parts + " --part " + TemporaryFile("part1.json")).err,
              HasSubstr("given twice"));
  EXPECT_THAT(MergeParts("--part " + whole + parts).err, HasSubstr("another search"));
  EXPECT_THAT(MergeParts("--part /dev/null").err, HasSubstr("no report"));
}

TEST(RankCommandTest, BothSpacesInParts) {
  const std::string both = std::string(kProblem) + "--gpus 4 --space all ";
  const std::string whole = TemporaryFile("both.json");
  const Answer run = Rank(both + "--threads 1");
  ASSERT_EQ(run.code, ExitCode::kDone) << run.err;
  EXPECT_EQ(run.out, Rank(both + "--threads 7").out);
  ASSERT_EQ(Rank(both + "--json " + whole).code, ExitCode::kDone);
  std::string parts;
  for (const char* part : {"1", "2"}) {
    const std::string path = TemporaryFile(std::string("both") + part + ".json");
    ASSERT_EQ(Rank(both + "--shard " + part + "/2 --json " + path).code, ExitCode::kDone);
    parts += " --part " + path;
  }
  const auto all = nlohmann::json::parse(Content(whole))["points"][0];
  const auto sum = nlohmann::json::parse(MergeParts(parts + " --json -").out)["points"][0];
  EXPECT_EQ(sum["ranking"][0], all["ranking"][0]);
}

TEST(RankCommandTest, MergedPartsOfASweepShowScaling) {
  const std::string sweep =
      "--model tiny-llama --cluster dgx-a100 --seq 64 --global-batch 12..16 --gpus 2..8:2 --gap 0 ";
  const std::string whole = TemporaryFile("sweep.json");
  ASSERT_EQ(Rank(sweep + "--json " + whole).code, ExitCode::kDone);
  std::string parts;
  for (const char* part : {"1", "2"}) {
    const std::string path = TemporaryFile(std::string("sweep") + part + ".json");
    ASSERT_EQ(Rank(sweep + "--shard " + part + "/2 --json " + path).code, ExitCode::kDone);
    parts += " --part " + path;
  }
  const Answer merged = MergeParts(parts + " --json -");
  EXPECT_EQ(merged.err, "");
  const auto all = nlohmann::json::parse(Content(whole))["points"];
  const auto sum = nlohmann::json::parse(merged.out)["points"];
  ASSERT_EQ(sum.size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_TRUE(all[i].contains("data_parallel_scaling"));
    EXPECT_EQ(sum[i]["data_parallel_scaling"], all[i]["data_parallel_scaling"]);
  }
}

TEST(RankCommandTest, PartsOfAFileThatChangedMergeWithoutScaling) {
  const std::string model = TemporaryFile("model.textproto");
  const auto write = [&](int layers) {
    std::ofstream(model) << "name: 'small' family: LLAMA hidden_size: 64 ffn_hidden_size: 128\n"
                            "attention_heads: 4 vocab_size: 256 max_sequence_length: 64\n"
                            "recipe { precision: BF16 } layers: "
                         << layers << "\n";
  };
  write(4);
  const std::string part = TemporaryFile("one.json");
  ASSERT_EQ(
      Rank("--model " + model + " --cluster dgx-a100 --global-batch 8 --gpus 2,4 --json " + part)
          .code,
      ExitCode::kDone);
  write(8);
  const Answer merged = MergeParts("--part " + part);
  EXPECT_EQ(merged.code, ExitCode::kDone);
  EXPECT_THAT(merged.err, HasSubstr("without data-parallel scaling"));
}

// As `simulate` does, of the plans that are shown; parts keep it.
TEST(RankCommandTest, GuessedTimesAreTold) {
  const std::string profile = TemporaryFile("h200.textproto");
  std::ofstream(profile) << R"(
      name: "p" operators { op: "add" dtype: "bf16" dims: 64 dims: 64 median_s: 1e-5 }
      measured_on {
        name: "measured" nodes: 1
        gpu { name: "NVIDIA H200" memory_bytes: 150000000000 bf16_flops_per_s: 700e12
              memory_bytes_per_s: 4e12 }
        node { gpus: 1 pcie { h2d_bytes_per_s: 50e9 d2h_bytes_per_s: 50e9 }
               host { memory_bytes: 100000000000 dram_bytes_per_s: 90e9 cores: 16 } }
      })";
  const std::string problem = std::string(kProblem) + "--gpus 8 --profile " + profile;
  const Answer whole = Rank(problem);
  ASSERT_EQ(whole.code, ExitCode::kDone) << whole.err;
  EXPECT_THAT(whole.out,
              HasSubstr("Warning     the profile was measured on NVIDIA H200, not on A100"));
  EXPECT_THAT(whole.out,
              HasSubstr("Warning     extrapolated beyond what the profile has measured"));
  EXPECT_THAT(whole.out, HasSubstr("(plans 1, 2)"));
  const std::string a = TemporaryFile("a.json"), b = TemporaryFile("b.json");
  EXPECT_EQ(Rank(problem + " --shard 1/2 --json " + a).code, ExitCode::kDone);
  EXPECT_EQ(Rank(problem + " --shard 2/2 --json " + b).code, ExitCode::kDone);
  const Answer merged = MergeParts("--part " + a + " --part " + b);
  EXPECT_EQ(merged.code, ExitCode::kDone) << merged.err;
  EXPECT_THAT(merged.out,
              HasSubstr("Warning     the profile was measured on NVIDIA H200, not on A100"));
  // Without a profile there is nothing to tell.
  EXPECT_THAT(Rank(std::string(kProblem) + "--gpus 8").out, Not(HasSubstr("Warning")));
}

TEST(RankCommandTest, PartsThatCannotBeAreRefused) {
  const std::string part = TemporaryFile("impossible.json");
  EXPECT_EQ(Rank(std::string(kProblem) + "--gpus 8 --json " + part).code, ExitCode::kDone);
  const nlohmann::ordered_json whole = nlohmann::ordered_json::parse(Content(part));
  const auto error_of = [&](auto&& change) {
    nlohmann::ordered_json changed = whole;
    change(changed["points"][0]);
    std::ofstream(part) << changed;
    return MergeParts("--part " + part).err;
  };
  EXPECT_THAT(
      error_of([](auto& point) { point["gpus"] = 0; }),
      HasSubstr(part + ": this is no report of `twinstep rank --json`: gpus is not above 0"));
  for (const double seconds : {0.0, -1.0}) {
    EXPECT_THAT(error_of([&](auto& point) { point["ranking"][0]["iteration_time_s"] = seconds; }),
                HasSubstr("iteration_time_s is not above 0"));
  }
}

TEST(RankCommandTest, WordsWithBlanksAreKeptWhole) {
  const std::string model = TemporaryFile("a \"model\".textproto");
  std::ofstream(model) << R"(name: "own" family: LLAMA layers: 4 hidden_size: 64
      ffn_hidden_size: 176 attention_heads: 4 vocab_size: 256 max_sequence_length: 128)";
  const std::string json = TemporaryFile("blanks.json");
  const auto rank = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"--model", model, "--cluster",      "dgx-a100",
                                          "--seq",   "64",  "--global-batch", "16",
                                          "--gpus",  "2,4"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    std::ostringstream out, err;
    EXPECT_EQ(RunRankCommand(arguments, out, err), ExitCode::kDone) << err.str();
    return out.str();
  };
  rank({"--json", json, "--shard", "1/1"});
  const Answer merged = MergeParts("--part " + json);
  EXPECT_EQ(merged.code, ExitCode::kDone) << merged.err;
  EXPECT_EQ(merged.err, "");
  EXPECT_EQ(merged.out, rank({}));
}

TEST(RankCommandTest, WhatNobodyAskedForIsKept) {
  EXPECT_THAT(Rank(std::string(kProblem) + "--gpus 8").out,
              HasSubstr("kept        micro-batch 1, ZeRO 1, TP overlap none, DP overlap off; "));
  EXPECT_THAT(
      Rank(std::string(kProblem) + "--gpus 8 --micro-batch 1,2 --zero 0 --dp-overlap on").out,
      HasSubstr("kept        TP overlap none; lists search others (--help)"));
  EXPECT_THAT(Rank("--model tiny-llama --cluster dgx-a100 --gpus 2 --seq 64 --global-batch 4 "
                   "--space chunks")
                  .out,
              Not(HasSubstr("kept")));
  EXPECT_THAT(Rank("--model tiny-llama --cluster dgx-a100 --gpus 2 --seq 64 --global-batch 4 "
                   "--space all")
                  .out,
              HasSubstr("kept        of pipelines: micro-batch 1, "));
}

TEST(RankCommandTest, PlansAreFilesThatSimulateTakes) {
  const std::string directory = TemporaryFile("plans");
  ASSERT_EQ(Rank(std::string(kProblem) + "--gpus 4 --top 2 --plans " + directory).code,
            ExitCode::kDone);
  EXPECT_THAT(Content(directory + "/plan-4-1.textproto"), HasSubstr("global_batch: 16"));
  EXPECT_THAT(Content(directory + "/plan-4-2.textproto"), HasSubstr("global_batch: 16"));
  // A name of a plan that is not there yet is taken, too.
  const std::string report = directory + "/plan-8-1.textproto";
  EXPECT_THAT(Rank(kProblem + ("--gpus 8 --json " + report + " --plans " + directory)).err,
              HasSubstr("--plans: " + report + " is the file of --json, too"));
}

TEST(RankCommandTest, PlansNameWhatTheyAreOf) {
  const std::string directory = TemporaryFile("named");
  const std::string plans = " --plans " + directory;
  ASSERT_EQ(Rank(std::string(kProblem) + "--gpus 4 --top 2" + plans).code, ExitCode::kDone);
  const std::string text = Content(directory + "/plan-4-2.textproto");
  EXPECT_THAT(text, HasSubstr("# plan       2 of 4 GPUs: t "));
  EXPECT_THAT(text, HasSubstr("# model      tiny-llama: llama, "));
  EXPECT_THAT(text, HasSubstr("# cluster    dgx-a100: "));
  EXPECT_THAT(text, HasSubstr("s an iteration, "));
  EXPECT_THAT(text, HasSubstr("# rank       --model tiny-llama --cluster dgx-a100 --seq 64 "));
  EXPECT_THAT(text, HasSubstr("# search     "));
}

TEST(RankCommandTest, PlansOfTwoSearchesShareNoFolder) {
  const std::string directory = TemporaryFile("shared");
  const std::string plans = " --plans " + directory;
  const std::string four = std::string(kProblem) + "--gpus 4 --top 2" + plans;
  ASSERT_EQ(Rank(four).code, ExitCode::kDone);
  // Again the same search: the same files.
  const std::string before = Content(directory + "/plan-4-1.textproto");
  EXPECT_EQ(Rank(four + " --threads 2").code, ExitCode::kDone);
  EXPECT_EQ(Content(directory + "/plan-4-1.textproto"), before);
  for (const char* other :
       {"--gpus 2", "--gpus 4 --top 2 --set layers=2", "--gpus 4 --top 2 --shard 1/2"}) {
    const Answer refused = Rank(kProblem + std::string(other) + plans);
    EXPECT_EQ(refused.code, ExitCode::kBadInput) << other;
    EXPECT_THAT(refused.err, HasSubstr("--plans: " + directory +
                                       "/plan-4-1.textproto and 1 more are not of this search"))
        << other;
  }
  // A plan of one's own, which has the name of a search's.
  const std::string own = TemporaryFile("own");
  std::filesystem::create_directory(own);
  std::ofstream(own + "/plan-mine.textproto") << "tensor_parallel: 2\n";
  EXPECT_THAT(Rank(std::string(kProblem) + "--gpus 4 --plans " + own).err,
              HasSubstr("plan-mine.textproto is not of this search"));
  std::filesystem::rename(own + "/plan-mine.textproto", own + "/mine.textproto");
  EXPECT_EQ(Rank(std::string(kProblem) + "--gpus 4 --plans " + own).code, ExitCode::kDone);
}

TEST(RankCommandTest, NothingFits) {
  const Answer run = Rank(
      "--model llama-175b --cluster 4x3090 --seq 1024 --global-batch 8 --rules kuaishou --json -");
  EXPECT_EQ(run.code, ExitCode::kNo);
  EXPECT_THAT(run.out, HasSubstr("gpu-memory-budget"));
}

TEST(RankCommandTest, NothingFitsInThisSpace) {
  const std::string problem =
      "--model llama-175b --cluster 4x3090 --seq 1024 --global-batch 8 --tp 4 --cp 1 ";
  const Answer pipelines = Rank(problem);
  EXPECT_EQ(pipelines.code, ExitCode::kNo);
  EXPECT_THAT(pipelines.out, HasSubstr("No plan fits. --space all also searches"));
}

TEST(RankCommandTest, ErrorsNameTheOption) {
  const auto error = [](const std::string& more) { return Rank(kProblem + more).err; };
  EXPECT_THAT(error("--gpus 8..4"), HasSubstr("--gpus: '8..4' is no range"));
  EXPECT_THAT(error("--gpus 1000000"), HasSubstr("--gpus: more than the"));
  EXPECT_THAT(error("--gpus 8 --nodes 1"), HasSubstr("give one"));
  EXPECT_THAT(error("--tp 0,2"), HasSubstr("--tp: 0 is less than 1"));
  EXPECT_THAT(error("--recompute none,ful"), HasSubstr("--recompute: 'ful' is none of"));
  EXPECT_THAT(error("--shard 4/3"), HasSubstr("--shard: '4/3'"));
  EXPECT_THAT(error("--plot x.svg --gpus 8"), HasSubstr("--plot draws scaling"));
  EXPECT_THAT(error("--zero 4"), HasSubstr("--zero: 4 is more than 3"));
  EXPECT_THAT(error("--space chunk"), HasSubstr("--space"));
  EXPECT_THAT(error("--persist 1"), HasSubstr("--persist: is for --space chunks"));
  EXPECT_THAT(error("--maximize layers --set layers=2"), HasSubstr("give no --set layers"));
  EXPECT_THAT(error("--maximize layers --set model.layers=2"), HasSubstr("give no --set layers"));
  EXPECT_THAT(error("--csv x.out --json x.out"), HasSubstr("x.out is the file of --csv, too"));
  EXPECT_THAT(error("--plans /dev/null/x"), HasSubstr("--plans: /dev/null/x: cannot make it"));
  EXPECT_THAT(error("--csv /no/such/folder/x.csv"), HasSubstr("--csv: /no/such/folder/x.csv"));
  for (const char* option : {"--tp 2", "--micro-batch 1,2", "--recompute full", "--zero 3"}) {
    EXPECT_THAT(error(std::string("--space chunks ") + option),
                HasSubstr("for --space pipeline and all"));
  }
  EXPECT_THAT(Rank("--model tiny-llama --cluster h800").err,
              HasSubstr("--global-batch is missing"));
}

TEST(RankOptionsTest, Lists) {
  EXPECT_THAT(ParseIntegers("8").value(), ElementsAre(8));
  EXPECT_THAT(ParseIntegers("8,2,8").value(), ElementsAre(2, 8));
  EXPECT_THAT(ParseIntegers("2..4,7").value(), ElementsAre(2, 3, 4, 7));
  EXPECT_THAT(ParseIntegers("8..33:8").value(), ElementsAre(8, 16, 24, 32));
  for (const char* bad : {"", "x", "1..", "..2", "3..1", "1..5:0", "1,,2", "1..9999999999"}) {
    EXPECT_FALSE(ParseIntegers(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace twinstep
