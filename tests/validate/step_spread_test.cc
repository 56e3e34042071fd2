// Steps by hand, whose medians are known.
#include "validate/step_spread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "exec/runtime/execution_trace.h"
#include "tests/traces/tiny_graph.h"
#include "traces/trace_builder.h"
#include "validate/step_spread_report.h"

namespace twinstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MakeTinyRun;
using testing::TinyRun;
using testing::TinyTask;

constexpr Picoseconds kMs = 1'000'000'000;
constexpr std::size_t kTp = 0, kCopies = 4;  // Of kExposedClasses.

// Milliseconds of what a step's ranks do, one after the other.
struct Step {
  int compute, collective, copy;
};

// Two ranks alike, but that the second one's copy takes `more_copy` more.
TinyRun RunOf(const Step& step, int more_copy = 0) {
  std::vector<std::vector<TinyTask>> ranks(2);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    Picoseconds now = 0;
    const auto append = [&](TinyTask task, int ms) {
      task.ready_ps = task.start_ps = now;
      task.end_ps = now += ms * kMs;
      ranks[rank].push_back(task);
    };
    append({}, step.compute);
    append({.op = OpCode::kAllReduce,
            .kind = TaskKind::kCollective,
            .lane = Lane::kTp,
            .rendezvous = 0},
           step.collective);
    append({.op = OpCode::kCopyD2H, .kind = TaskKind::kD2H, .lane = Lane::kD2H},
           step.copy + (rank == 1 ? more_copy : 0));
  }
  return MakeTinyRun(ranks);
}

Execution ExecutionOf(const TinyRun& run) {
  return {.ready_ps = run.replay.ready_ps,
          .start_ps = run.replay.start_ps,
          .end_ps = run.replay.end_ps,
          .iteration_ps = run.replay.makespan_ps};
}

struct Steps {
  TinyRun simulated;
  Trace trace;
  std::vector<Execution> executed;

  Steps(const Step& simulation, const std::vector<Step>& steps)
      : simulated(RunOf(simulation)),
        trace(BuildTrace(simulated.graph, simulated.replay, "model")) {
    for (const Step& step : steps) executed.push_back(ExecutionOf(RunOf(step)));
  }

  TraceComparison Compare(std::size_t step, const Tolerances& tolerances = {}) const {
    const Trace of_step = BuildExecutionTrace(simulated.graph, executed[step], "step");
    Result<TraceComparison> comparison = CompareTraces(trace, of_step, {.tolerances = tolerances});
    EXPECT_TRUE(comparison.ok());
    return std::move(comparison).value();
  }
  StepSpread Spread() const {
    return SpreadOfSteps(simulated.graph, executed, Compare(MedianStep(executed)));
  }
  std::vector<Verdict> Judged(const Tolerances& tolerances) const {
    return JudgeMedians(Spread(), Compare(MedianStep(executed)), tolerances);
  }
  std::string Text() const { return SpreadText(Spread(), Compare(MedianStep(executed))); }
};

const Tolerances kAll = {.iteration = 0.01, .kind_busy = 0.01, .exposed = 0.01};

std::vector<std::string> Said(const std::vector<Verdict>& verdicts) {
  std::vector<std::string> said;
  for (const Verdict& verdict : verdicts) {
    said.push_back((verdict.ok ? "" : "not ") + verdict.what);
  }
  return said;
}

// The iteration's median is the first step's, computation's the last one's, collectives' the second
// one's.
const std::vector<Step> kThree = {{100, 30, 12}, {120, 20, 8}, {110, 10, 16}};

TEST(StepSpreadTest, EachTimeHasItsOwnMedian) {
  const Steps steps({110, 20, 12}, kThree);
  EXPECT_EQ(MedianStep(steps.executed), 0u);
  const StepSpread spread = steps.Spread();
  EXPECT_THAT(spread.iteration.step_s, ElementsAre(0.142, 0.148, 0.136));
  EXPECT_EQ(spread.iteration.Median(), 0.142);
  ASSERT_EQ(spread.kinds.size(), 3u);
  const StepTimes& compute = spread.kinds[0].busy;
  EXPECT_EQ(spread.kinds[0].name, "compute");
  EXPECT_THAT(compute.step_s, ElementsAre(0.200, 0.240, 0.220));  // Of both ranks.
  EXPECT_EQ(compute.simulated_s, 0.220);
  EXPECT_EQ(compute.Least(), 0.200);
  EXPECT_EQ(compute.Median(), 0.220);
  EXPECT_EQ(compute.Most(), 0.240);
  EXPECT_EQ(spread.kinds[1].name, "d2h");
  EXPECT_EQ(spread.kinds[1].busy.Median(), 0.024);
  EXPECT_EQ(spread.kinds[2].name, "collective");
  EXPECT_EQ(spread.kinds[2].busy.Median(), 0.040);
  EXPECT_THAT(spread.exposed[kTp].step_s, ElementsAre(0.030, 0.020, 0.010));  // Mean of the ranks.
  EXPECT_EQ(spread.exposed[kTp].Median(), 0.020);
  EXPECT_EQ(spread.exposed[kCopies].Median(), 0.012);
}

TEST(StepSpreadTest, MediansAreJudged) {
  // None of the steps alone would pass.
  const Steps right({110, 20, 12}, kThree);
  for (std::size_t step = 0; step < kThree.size(); ++step) {
    EXPECT_FALSE(right.Compare(step, kAll).ok()) << step;
  }
  EXPECT_THAT(Said(right.Judged(kAll)),
              ElementsAre("iteration", "busy time of compute", "busy time of d2h",
                          "busy time of collective", "TP exposed", "copies exposed"));
  // The collectives of the first step, which is the median one.
  EXPECT_THAT(Said(Steps({100, 30, 12}, kThree).Judged(kAll)),
              ElementsAre("iteration", "not busy time of compute", "busy time of d2h",
                          "not busy time of collective", "not TP exposed", "copies exposed"));
  EXPECT_TRUE(right.Judged({}).empty());
}

TEST(StepSpreadTest, OfAnEvenNumberItIsTheLower) {
  const Steps steps({110, 20, 12}, {{100, 30, 8}, {120, 20, 8}, {110, 10, 16}, {130, 40, 16}});
  const StepSpread spread = steps.Spread();
  EXPECT_EQ(MedianStep(steps.executed), 0u);  // 138 ms of 136 to 186.
  EXPECT_EQ(spread.kinds[0].busy.Median(), 0.220);
  EXPECT_EQ(spread.kinds[1].busy.Median(), 0.016);
  EXPECT_EQ(spread.kinds[2].busy.Median(), 0.040);
  // Of equal ones the first.
  EXPECT_EQ(MedianStep(Steps({1, 1, 1}, {{5, 1, 1}, {3, 1, 1}, {3, 1, 1}, {1, 1, 1}}).executed),
            1u);
}

TEST(StepSpreadTest, RanksCountAlike) {
  Steps steps({110, 20, 12}, {});
  steps.executed.push_back(ExecutionOf(RunOf({110, 20, 12}, 8)));
  EXPECT_THAT(steps.Spread().exposed[kCopies].step_s, ElementsAre(0.016));
  EXPECT_THAT(steps.Spread().kinds[1].busy.step_s, ElementsAre(0.032));
}

TEST(StepSpreadTest, WhatTakesNoTimeOnOneSideIsJudgedAll) {
  const Steps not_simulated({110, 20, 0}, kThree);
  EXPECT_THAT(Said(not_simulated.Judged({.kind_busy = 0.5, .exposed = 0.5})),
              ElementsAre("busy time of compute", "not busy time of d2h", "busy time of collective",
                          "TP exposed", "not copies exposed"));
  EXPECT_EQ(not_simulated.Spread().kinds[1].busy.Judged().Error(), -1);
  // In one step of three, and in two.
  const Steps mostly({110, 20, 12}, {{110, 20, 12}, {110, 20, 0}, {110, 20, 12}});
  EXPECT_EQ(mostly.Spread().kinds[1].busy.Least(), 0);
  EXPECT_EQ(mostly.Spread().kinds[1].busy.Judged().Error(), 0);
  const Steps hardly({110, 20, 12}, {{110, 20, 12}, {110, 20, 0}, {110, 20, 0}});
  EXPECT_EQ(hardly.Spread().kinds[1].busy.Judged().Error(), std::nullopt);
  EXPECT_THAT(
      Said(hardly.Judged({.kind_busy = 0.5})),
      ElementsAre("busy time of compute", "not busy time of d2h", "busy time of collective"));
  EXPECT_EQ(ToJson(hardly.Spread())["kinds"][1]["error"], nullptr);
}

RC_GTEST_PROP(StepSpreadTest, SaysOfEachStepWhatItsTraceSays, ()) {
  const auto ms = rc::gen::inRange(0, 50);
  std::vector<Step> steps(*rc::gen::inRange<std::size_t>(1, 6));
  for (Step& step : steps) step = {1 + *ms, *ms, *ms};
  const Steps made({*ms, *ms, *ms}, steps);
  const StepSpread spread = made.Spread();
  for (std::size_t step = 0; step < steps.size(); ++step) {
    const TraceComparison alone = made.Compare(step);
    RC_ASSERT(spread.iteration.step_s[step] == alone.iteration.b_s);
    RC_ASSERT(spread.kinds.size() == alone.kinds.size());
    for (std::size_t kind = 0; kind < alone.kinds.size(); ++kind) {
      RC_ASSERT(spread.kinds[kind].name == alone.kinds[kind].name);
      RC_ASSERT(spread.kinds[kind].busy.simulated_s == alone.kinds[kind].busy.a_s);
      RC_ASSERT(spread.kinds[kind].busy.step_s[step] == alone.kinds[kind].busy.b_s);
    }
    for (std::size_t i = 0; i < kExposedClasses.size(); ++i) {
      const TimePair& time = alone.mean_breakdown[static_cast<std::size_t>(kExposedClasses[i])];
      RC_ASSERT(spread.exposed[i].simulated_s == time.a_s);
      RC_ASSERT(spread.exposed[i].step_s[step] == time.b_s);
    }
  }
}

TEST(StepSpreadTest, TheOrderOfStepsChangesNoVerdict) {
  std::vector<Step> turned = kThree;
  std::rotate(turned.begin(), turned.begin() + 1, turned.end());
  const Steps before({108, 24, 12}, kThree), after({108, 24, 12}, turned);
  EXPECT_EQ(Said(before.Judged(kAll)), Said(after.Judged(kAll)));
  EXPECT_EQ(before.Text(), after.Text());
  EXPECT_EQ(ToJson(before.Spread()).dump(), ToJson(before.Spread()).dump());
}

TEST(StepSpreadTest, TextSaysHowMuchStepsDiffer) {
  const std::string text = Steps({110, 25, 0}, kThree).Text();
  EXPECT_EQ(text, R"(
All 3 steps, mean of all ranks: each row's own median is judged
  ms              simulated    least   median     most  error of median
  iteration         135.000  136.000  142.000  148.000           -4.9 %
  compute           110.000  100.000  110.000  120.000            0.0 %
  d2h                     -    8.000   12.000   16.000         -100.0 %
  collective         25.000   10.000   20.000   30.000          +25.0 %
  TP exposed         25.000   10.000   20.000   30.000          +25.0 %
  copies exposed          -    8.000   12.000   16.000         -100.0 %
)");
  // A single step's are in the comparison.
  EXPECT_EQ(Steps({110, 25, 0}, {{100, 30, 12}}).Text(), "");
}

TEST(StepSpreadTest, TextFitsTheReport) {
  const std::string text =
      Steps({999'999, 999'999, 999'999}, {{1'999'999, 1'999'999, 1'999'999}, {1, 0, 1}}).Text();
  EXPECT_THAT(text, HasSubstr("copies exposed"));
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    EXPECT_LE(end - at, 100u) << text.substr(at, end - at);
    at = end + 1;
  }
}

TEST(StepSpreadTest, JsonHasEveryStep) {
  const auto json = ToJson(Steps({110, 25, 12}, kThree).Spread());
  EXPECT_EQ(json["kinds"][2], nlohmann::ordered_json({{"name", "collective"},
                                                      {"a_s", 0.05},
                                                      {"step_s", {0.06, 0.04, 0.02}},
                                                      {"least_s", 0.02},
                                                      {"median_s", 0.04},
                                                      {"most_s", 0.06},
                                                      {"error", 0.05 / 0.04 - 1}}));
  EXPECT_EQ(json["exposed"].size(), kExposedClasses.size());
  EXPECT_EQ(json["exposed"]["tp_exposed_s"]["median_s"], 0.02);
  EXPECT_EQ(json["exposed"]["dp_exposed_s"]["error"], 0);  // Neither side has any.
}

}  // namespace
}  // namespace twinstep
