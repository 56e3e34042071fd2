// Comparisons of hand-made traces, whose errors are known.
#include "traces/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/traces/tiny_graph.h"
#include "traces/compare_json.h"
#include "traces/compare_text.h"
#include "traces/same_graph.h"
#include "traces/trace_builder.h"

namespace twinstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TwoRankRun;

constexpr double kTiny = 1e-15;  // Seconds; the traces' are of nanoseconds.

// The traces of one graph, before and after `change` to the times of the second.
struct TwoTraces {
  testing::TinyRun run = TwoRankRun();
  Trace a, b;

  template <typename Change>
  explicit TwoTraces(Change change) {
    a = BuildTrace(run.graph, run.replay, "model");
    testing::TinyRun changed = run;
    change(&changed.replay);
    b = BuildTrace(changed.graph, changed.replay, "model");
    b.set_origin(Trace::EXECUTED);
  }
  TwoTraces() : TwoTraces([](Replay*) {}) {}

  TraceComparison Compare(const CompareOptions& options = {}) const {
    Result<TraceComparison> comparison = CompareTraces(a, b, options);
    if (!comparison.ok()) {
      ADD_FAILURE() << comparison.error().message;
      return {};
    }
    return std::move(comparison).value();
  }
};

const GroupComparison* Find(const std::vector<GroupComparison>& groups, const std::string& name) {
  for (const GroupComparison& group : groups) {
    if (group.name == name) return &group;
  }
  ADD_FAILURE() << "no group " << name;
  return nullptr;
}

void ExpectPair(const TimePair& pair, double a_ps, double b_ps) {
  EXPECT_NEAR(pair.a_s, a_ps * 1e-12, kTiny);
  EXPECT_NEAR(pair.b_s, b_ps * 1e-12, kTiny);
}

TEST(CompareTest, ATraceEqualsItself) {
  const TraceComparison same = TwoTraces().Compare({.tolerances = {0, 0, 0, 0}});
  EXPECT_EQ(same.tasks, 10);
  EXPECT_EQ(same.iteration.Error(), 0);
  EXPECT_TRUE(same.largest.empty());
  EXPECT_TRUE(same.ok());
  EXPECT_FALSE(same.verdicts.empty());
  for (const auto* groups : {&same.kinds, &same.lanes, &same.phases, &same.operators}) {
    for (const GroupComparison& group : *groups) EXPECT_EQ(group.busy.Error(), 0) << group.name;
  }
}

// Rank 0: compute 10 ns, send 5, reduce-scatter 10.5, optimizer 4.5. Rank 1: recv 5, compute 16,
// copy 30, recompute 4, reduce-scatter 10.5, optimizer 4.5.
TEST(CompareTest, ErrorsOfKindsLanesAndOperators) {
  const TwoTraces traces([](Replay* replay) {
    replay->end_ps[0] = 8'000;     // The first computation: 10 against 8.
    replay->end_ps[5] = 35'000;    // The second: 16 against 20.
    replay->start_ps[7] = 35'000;  // The recomputation: 4 against 2.
    replay->end_ps[7] = 37'000;
    replay->end_ps[6] = 35'000;  // The copy: 30 against 20.
  });
  const TraceComparison comparison = traces.Compare();
  EXPECT_EQ(comparison.a_title, "simulated");
  EXPECT_EQ(comparison.b_title, "executed");

  const GroupComparison* compute = Find(comparison.kinds, "compute");
  ASSERT_NE(compute, nullptr);
  EXPECT_EQ(compute->tasks, 5);
  ExpectPair(compute->busy, 10'000 + 16'000 + 4'000 + 2 * 4'500,
             8'000 + 20'000 + 2'000 + 2 * 4'500);
  EXPECT_NEAR(*compute->busy.Error(), 0.0, 1e-12);
  // +25 %, -20 %, +100 %, 0, 0.
  EXPECT_NEAR(*compute->median_task_error, 0.0, 1e-12);
  ExpectPair(Find(comparison.kinds, "d2h")->busy, 30'000, 20'000);
  EXPECT_NEAR(*Find(comparison.kinds, "d2h")->busy.Error(), 0.5, 1e-12);
  EXPECT_NEAR(*Find(comparison.lanes, "d2h")->median_task_error, 0.5, 1e-12);
  ExpectPair(Find(comparison.lanes, "send_fwd")->busy, 5'000, 5'000);
  ExpectPair(Find(comparison.phases, "recompute")->busy, 4'000, 2'000);
  EXPECT_NEAR(*Find(comparison.phases, "recompute")->busy.Error(), 1.0, 1e-12);
  // Both members of the collective.
  ExpectPair(Find(comparison.operators, "reduce_scatter")->busy, 21'000, 21'000);
  // Largest difference first: the copy's 10 ns.
  EXPECT_EQ(comparison.operators.front().name, "copy_d2h");
}

TEST(CompareTest, PartsOfEachRankAddUpOnBothSides) {
  const TwoTraces traces([](Replay* replay) {
    replay->end_ps[9] = replay->makespan_ps = 72'000;
    replay->end_ps[0] = 7'000;
  });
  const TraceComparison comparison = traces.Compare();
  ASSERT_EQ(comparison.ranks.size(), 2u);
  for (const RankComparison& rank : comparison.ranks) {
    EXPECT_EQ(rank.a.Total(), 60'000);
    EXPECT_EQ(rank.b.Total(), 72'000);
  }
  double a_s = 0, b_s = 0;
  for (const TimePair& pair : comparison.mean_breakdown) {
    a_s += pair.a_s;
    b_s += pair.b_s;
  }
  ExpectPair({a_s, b_s}, 60'000, 72'000);
  ExpectPair(comparison.iteration, 60'000, 72'000);
  EXPECT_NEAR(*comparison.iteration.Error(), 60.0 / 72 - 1, 1e-12);
}

TEST(CompareTest, WhicheverTaskIsChangedIsNamedFirst) {
  for (const TaskId task : {0u, 3u, 5u, 6u, 7u}) {
    const TwoTraces traces([task](Replay* replay) { replay->end_ps[task] -= 1'000; });
    const TraceComparison comparison = traces.Compare({.largest = 3});
    ASSERT_EQ(comparison.largest.size(), 1u);
    EXPECT_EQ(comparison.largest[0].task, task);
    EXPECT_NEAR(comparison.largest[0].time.Difference(), 1e-9, kTiny);
    EXPECT_EQ(comparison.largest[0].name, traces.run.graph.TaskName(task));
  }
}

TEST(CompareTest, VerdictsHoldOnlyWhatWasAskedFor) {
  const TwoTraces traces([](Replay* replay) {
    replay->makespan_ps = 64'000;
    replay->end_ps[6] = 41'000;  // The copy: 26 against 30.
  });
  EXPECT_TRUE(traces.Compare().verdicts.empty());
  TraceComparison comparison = traces.Compare({.tolerances = {.iteration = 0.07}});
  ASSERT_EQ(comparison.verdicts.size(), 1u);
  EXPECT_TRUE(comparison.ok());
  EXPECT_NEAR(*comparison.verdicts[0].error, 60.0 / 64 - 1, 1e-12);
  EXPECT_FALSE(traces.Compare({.tolerances = {.iteration = 0.06}}).ok());
  comparison = traces.Compare({.tolerances = {.kind_busy = 0.1}});
  EXPECT_FALSE(comparison.ok());
  for (const Verdict& verdict : comparison.verdicts) {
    EXPECT_EQ(verdict.ok, verdict.what != "busy time of d2h") << verdict.what;
  }
}

TEST(CompareTest, MemoryIsComparedByPool) {
  TwoTraces traces;
  const auto add = [](Trace* trace, std::uint32_t rank, Pool pool, std::int64_t peak) {
    Trace::MemoryCurve* curve = trace->add_memory();
    curve->set_rank(rank);
    curve->set_pool(static_cast<std::uint32_t>(pool));
    for (const std::int64_t bytes : {std::int64_t{0}, peak, std::int64_t{1}}) {
      curve->add_time_ps(curve->time_ps_size());
      curve->add_live_bytes(bytes);
    }
  };
  add(&traces.a, 0, Pool::kGpu, 100);
  add(&traces.b, 0, Pool::kGpu, 100);
  add(&traces.a, 1, Pool::kGpu, 90);
  add(&traces.b, 1, Pool::kGpu, 100);
  add(&traces.a, 0, Pool::kHost, 7);  // Only in A.
  const TraceComparison comparison = traces.Compare({.tolerances = {.memory = 0.05}});
  ASSERT_EQ(comparison.memory.size(), 1u);
  EXPECT_EQ(comparison.memory[0].global_rank, 1u);
  EXPECT_EQ(comparison.memory[0].a_bytes, 90);
  EXPECT_FALSE(comparison.ok());
}

TEST(CompareTest, EvidenceIsCountedInEachGroup) {
  const TwoTraces traces;
  std::vector<Evidence> evidence(10, Evidence::kMeasured);
  evidence[0] = evidence[5] = Evidence::kExtrapolated;
  evidence[3] = Evidence::kModelled;
  const TraceComparison comparison = traces.Compare({.evidence = evidence});
  EXPECT_THAT(Find(comparison.kinds, "compute")->evidence, ElementsAre(2, 2, 1));
  EXPECT_THAT(Find(comparison.kinds, "d2h")->evidence, ElementsAre(1, 0, 0));
  const std::vector<Evidence> short_one(9);
  EXPECT_FALSE(CompareTraces(traces.a, traces.b, {.evidence = short_one}).ok());
}

std::string ErrorOf(const Trace& a, const Trace& b) {
  const Result<TraceComparison> comparison = CompareTraces(a, b, {});
  return comparison.ok() ? "no error" : comparison.error().message;
}

TEST(CompareTest, OtherGraphsAreRefusedWithTheFirstTaskThatDiffers) {
  TwoTraces traces;
  testing::TinyRun other = traces.run;
  other.graph.shapes[other.graph.tasks[5].shape].op = OpCode::kGemmForward;
  other.graph.tasks[7].micro_batch = 3;
  EXPECT_EQ(ErrorOf(traces.a, BuildTrace(other.graph, other.replay, "model")),
            "the traces are not of the same graph: task 5 (r1 compute add mb0 stage0) is of "
            "operator add in A, operator gemm_forward in B");
  other = traces.run;
  other.graph.tasks[7].micro_batch = 3;
  EXPECT_THAT(ErrorOf(traces.a, BuildTrace(other.graph, other.replay, "model")),
              HasSubstr("task 7 (r1 compute add mb0 stage0) is of micro-batch 0 in A, 3 in B"));
  const testing::TinyRun smaller = testing::MakeTinyRun({{{.end_ps = 1}}});
  EXPECT_EQ(ErrorOf(traces.a, BuildTrace(smaller.graph, smaller.replay, "one")),
            "the traces are not of the same graph: trace A (simulated, model) has 10 tasks, trace "
            "B (simulated, one) has 1; task 0 (r0 compute add mb0 stage0) is of micro-batch 0 in "
            "A, 65535 in B");
}

TEST(CompareTest, RanksThatStandForOthersAreNamed) {
  const TwoTraces traces;
  Trace folded = traces.a;
  folded.mutable_ranks()->RemoveLast();
  folded.mutable_ranks(0)->set_class_size(2);
  for (int i = 0; i < folded.task_size(); ++i) folded.set_rank(i, 0);
  const std::string error = "the traces are not of the same graph: ";
  const std::string a = "trace A (simulated, model)", b = "trace B (simulated, model)";
  EXPECT_EQ(ErrorOf(traces.a, folded), error + a + " has 2 ranks, of which 1 stand for all in " +
                                           b + ": simulate it with --all-ranks");
  EXPECT_EQ(ErrorOf(folded, traces.a), error + b + " has 2 ranks, of which 1 stand for all in " +
                                           a + ": simulate it with --all-ranks");
  // Two plans, of which neither has all ranks.
  Trace two_of_four = traces.a;
  for (auto& rank : *two_of_four.mutable_ranks()) rank.set_class_size(2);
  folded.mutable_ranks(0)->set_class_size(4);
  EXPECT_THAT(ErrorOf(two_of_four, folded), HasSubstr(a + " has 2 ranks, " + b + " has 1; task "));
}

TEST(CompareTest, TracesThatCannotBeAreRefused) {
  const TwoTraces traces;
  Trace bad = traces.b;
  bad.set_task(1, bad.task(0));
  EXPECT_THAT(ErrorOf(traces.a, bad), HasSubstr("trace B (executed, model): task 0 stands in it"));
  bad = traces.b;
  bad.set_end_ps(0, 70'000);
  EXPECT_THAT(ErrorOf(traces.a, bad), HasSubstr("outside of the iteration's 60000 ps"));
  bad = traces.b;
  bad.mutable_lane()->RemoveLast();
  EXPECT_THAT(ErrorOf(traces.a, bad), HasSubstr("column lane has 9 entries"));
}

TEST(CompareTest, NamesCountAndNotTheirPlaceInATable) {
  TwoTraces traces;
  traces.b.mutable_operators()->Add("new_operator");
  traces.b.mutable_operators()->SwapElements(0, traces.b.operators_size() - 1);
  const std::uint32_t last = static_cast<std::uint32_t>(traces.b.operators_size()) - 1;
  for (std::uint32_t& op : *traces.b.mutable_op()) {
    if (op == 0) op = last;
  }
  EXPECT_EQ(ErrorOf(traces.a, traces.b), "no error");
}

TEST(CompareTest, TextAndJsonSayTheSame) {
  const TwoTraces traces([](Replay* replay) {
    replay->end_ps[6] = 35'000;
    replay->makespan_ps = 64'000;
  });
  const TraceComparison comparison = traces.Compare({.tolerances = {.iteration = 0.01}});
  const std::string text = ComparisonText(comparison);
  EXPECT_THAT(text, HasSubstr("simulated (model) against executed (model): 10 tasks of 2 ranks"));
  EXPECT_THAT(text, HasSubstr("-6.3 %"));
  EXPECT_THAT(text, HasSubstr("OUT OF tolerance: iteration -6.3 % (1.0 %)"));
  EXPECT_THAT(text, HasSubstr("r1 d2h copy_d2h mb0 stage1"));
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    EXPECT_LE(end - at, 100u) << text.substr(at, end - at);
    at = end + 1;
  }
  const auto json = ToJson(comparison);
  EXPECT_FALSE(json["ok"].get<bool>());
  EXPECT_NEAR(json["iteration"]["error"].get<double>(), 60.0 / 64 - 1, 1e-12);
  EXPECT_EQ(json["largest_tasks"][0]["task"], 6);
  EXPECT_EQ(json["operators"][0]["name"], "copy_d2h");
  for (const auto& rank : json["ranks"]) {
    double sum = 0;
    for (const auto& [name, seconds] : rank["b"].items()) sum += seconds.get<double>();
    EXPECT_NEAR(sum, 64e-9, kTiny);
  }
}

}  // namespace
}  // namespace twinstep
