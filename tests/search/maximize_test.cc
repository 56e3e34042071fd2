// The largest model and batch against a scan of every size and every plan.
#include "sim/search/maximize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "sim/search/candidates.h"
#include "sim/search/plan_replay.h"
#include "sim/search/rank_command.h"

namespace twinstep {
namespace {

using testing::HasSubstr;

std::vector<std::string> Words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

RankProblem ProblemOf(const std::string& arguments) {
  return ReadRankProblem(ParseRankOptions(Words(arguments)).value()).value();
}

// Whether any plan of the whole space fits, whatever a closed form says of chunks. A pipeline's
// closed form decides how much it offloads: without an answer there is no plan.
bool AnyFits(const RankProblem& problem, std::int64_t value, std::int64_t gpus) {
  const RankProblem at = AtMaximum(problem, value, gpus);
  PlanEstimator estimator(at.input, 1);
  const Candidates all = FindCandidates(at, gpus, &estimator).value();
  for (std::size_t i = 0; i < all.space.plans.size(); ++i) {
    const ResolvedPlan& plan = all.space.plans[i];
    if (all.estimates[i].infeasible && !plan.chunks.enabled) continue;
    if (!PlacePlan(at.input, plan).value().infeasible) return true;
  }
  return false;
}

std::int64_t Scan(const RankProblem& problem, std::int64_t gpus, std::int64_t end) {
  std::int64_t most = 0;
  for (std::int64_t value = 1; value <= end; ++value) {
    if (AnyFits(problem, value, gpus)) most = value;
  }
  return most;
}

struct Case {
  std::string arguments;
  std::int64_t gpus, least;  // The answer is at least so large, or the case shows nothing.
};

TEST(MaximizeTest, LayersAreThoseOfAScan) {
  const std::string small =
      "--maximize layers --seq 64 --model tiny-gpt --set hidden_size=768 --set "
      "ffn_hidden_size=3072 "
      "--set max_sequence_length=64 --cluster 4x3090 ";
  for (const Case& x : std::vector<Case>{
           {small + "--space chunks --gpu-memory-capacity 200MiB --host-memory-budget 500MiB", 1,
            3},
           {small + "--space chunks --gpu-memory-capacity 300MiB --host-memory-budget 200MiB", 2,
            3},
           {small + "--space chunks --gpu-memory-capacity 250MiB --host-memory-budget 700MiB "
                    "--global-batch 64 --checkpoint 0,1,2 --persist 1..20",
            4, 2},
           {small + "--space chunks --gpu-memory-capacity 400MiB --host-memory-budget 1MiB", 1, 1},
           {small + "--space pipeline --gpu-memory-capacity 400MiB", 2, 2},
           {small + "--space pipeline --gpu-memory-capacity 400MiB --pp 2 --tp 1", 4, 2},
           {small + "--space all --gpu-memory-capacity 200MiB --host-memory-budget 300MiB", 2, 2},
       }) {
    const RankProblem problem = ProblemOf(x.arguments);
    const Maximum found = FindMaximum(problem, x.gpus, nullptr).value();
    EXPECT_EQ(found.value, Scan(problem, x.gpus, found.bound + 1)) << x.arguments;
    EXPECT_GE(found.value, x.least) << x.arguments;
    EXPECT_LE(found.value, found.bound) << x.arguments;
    EXPECT_NE(found.limit.message, "") << x.arguments;
  }
}

TEST(MaximizeTest, BatchIsThatOfAScan) {
  const std::string small =
      "--maximize batch --space chunks --seq 64 --model tiny-gpt --set layers=4 "
      "--set hidden_size=768 --set ffn_hidden_size=3072 --cluster 4x3090 --gpu-memory-capacity ";
  for (const Case& x : std::vector<Case>{{small + "200MiB", 1, 3},
                                         {small + "250MiB --host-memory-budget 500MiB", 2, 3},
                                         {small + "200MiB --checkpoint 0 --swap 0", 4, 1}}) {
    const RankProblem problem = ProblemOf(x.arguments);
    const Maximum found = FindMaximum(problem, x.gpus, nullptr).value();
    EXPECT_EQ(found.value, Scan(problem, x.gpus, found.value + 8)) << x.arguments;
    EXPECT_GE(found.value, x.least) << x.arguments;
    EXPECT_EQ(found.limit.rule, "gpu-memory") << x.arguments;
    EXPECT_GT(found.limit.excess_bytes, 0) << x.arguments;
  }
}

struct Answer {
  ExitCode code;
  std::string out, err;
};

Answer Rank(const std::string& arguments) {
  std::ostringstream out, err;
  const ExitCode code = RunRankCommand(Words(arguments), out, err);
  return {code, out.str(), err.str()};
}

TEST(MaximizeTest, Reports) {
  const std::string problem =
      "--maximize layers --space chunks --model gpt2-40b --cluster 4x3090 --seq 1024 ";
  const Answer one = Rank(problem + "--gpus 1");
  EXPECT_EQ(one.code, ExitCode::kDone);
  EXPECT_THAT(one.out, HasSubstr("at most 36 layers, 29.40 B parameters"));
  EXPECT_THAT(one.out, HasSubstr("37 layers do not fit"));
  EXPECT_THAT(one.out, HasSubstr("of it pinned"));
  EXPECT_THAT(Rank(problem + "--gpus 1,4").out, HasSubstr("limit  short"));
  const auto json = nlohmann::json::parse(Rank(problem + "--gpus 1 --json -").out);
  const auto& maximum = json["points"][0]["maximum"];
  EXPECT_EQ(maximum["layers"], 36);
  EXPECT_EQ(maximum["limit"]["pool"], "gpu");
  EXPECT_GT(maximum["limit"]["excess_bytes"], 0);

  const Answer none = Rank(problem + "--gpus 1 --gpu-memory-capacity 1GiB");
  EXPECT_EQ(none.code, ExitCode::kNo);
  EXPECT_THAT(none.out, HasSubstr("not even 1 layer"));

  EXPECT_THAT(Rank("--maximize batch --model gpt2-10b --cluster 4x3090").err,
              HasSubstr("a pipeline takes any"));
  EXPECT_THAT(
      Rank("--maximize batch --space chunks --global-batch 4 --model gpt2-10b --cluster 4x3090")
          .err,
      HasSubstr("give no --global-batch"));
  EXPECT_THAT(Rank(problem + "--shard 1/2").err, HasSubstr("not searched in parts"));
  EXPECT_THAT(Rank(problem + "--global-batch 4,8").err, HasSubstr("one batch"));
}

}  // namespace
}  // namespace twinstep
