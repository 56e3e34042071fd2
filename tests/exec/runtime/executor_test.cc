// The dispatcher and the CPU backend's scheduling, without the mathematics of operators.

#include "exec/runtime/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <set>
#include <string>
#include <vector>

#include "exec/runtime/execution_trace.h"
#include "tests/exec/runtime/allocation_count.h"
#include "tests/exec/runtime/small_models.h"
#include "tests/exec/runtime/training_run.h"
#include "tests/exec/runtime/varied_plans.h"
#include "tests/graph/graph_builder.h"

namespace twinstep {
namespace {

using testing::HasSubstr;

TEST(ExecutorTest, BitsDoNotDependOnThreads) {
  for (const NamedPlan& plan : VariedPlans()) {
    const std::uint64_t expected = HashAfter(plan, {.backend = {.threads = 1}}, 2);
    for (const int threads : {2, 5}) {
      EXPECT_EQ(HashAfter(plan, {.backend = {.threads = threads}}, 2), expected) << plan.name;
    }
  }
}

TEST(ExecutorTest, BitsDoNotDependOnDispatchOrder) {
  for (const NamedPlan& plan : VariedPlans()) {
    const std::uint64_t expected = HashAfter(plan, {}, 1);
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      RunOptions options{.executor = {.shuffle_seed = seed, .verify = false}};
      options.backend.threads = seed % 2 == 0 ? 1 : 3;
      ASSERT_EQ(HashAfter(plan, options, 1), expected) << plan.name << ", seed " << seed;
    }
  }
}

// Different seeds do run tasks in different orders.
TEST(ExecutorTest, SeedsChangeTheOrder) {
  const NamedPlan plan = VariedPlans()[1];
  std::set<std::vector<TaskId>> orders;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    RunOptions options{.executor = {.shuffle_seed = seed}, .mixing = true};
    options.backend.threads = 1;
    TrainingRun run(SmallModel(plan.model, FP32), plan.plan, options);
    ASSERT_TRUE(run.Train(1).ok());
    const Execution execution = run.executor().LastExecution();
    std::vector<TaskId> order(run.graph().tasks.size());
    for (TaskId id = 0; id < order.size(); ++id) order[id] = id;
    std::stable_sort(order.begin(), order.end(), [&execution](TaskId a, TaskId b) {
      return execution.start_ps[a] < execution.start_ps[b];
    });
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 5u);
}

TEST(ExecutorTest, TouchesExactlyTheArena) {
  for (const NamedPlan& plan : VariedPlans()) {
    RunOptions options{.mixing = true};
    options.backend.poison = true;
    TrainingRun run(SmallModel(plan.model, FP32), plan.plan, options);
    const Status done = run.Train(2);
    ASSERT_TRUE(done.ok()) << plan.name << ": " << done.error().message;
    const auto touched = run.backend().touched_bytes();
    for (RankId rank = 0; rank < run.graph().ranks.size(); ++rank) {
      for (std::size_t pool = 0; pool < kPoolCount; ++pool) {
        const std::int64_t rounded =
            (touched[rank][pool] + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
        EXPECT_EQ(rounded, run.arena().arena_bytes[rank][pool])
            << plan.name << " rank " << rank << " pool " << Name(static_cast<Pool>(pool));
      }
    }
  }
}

TEST(ExecutorTest, AllocatesNothingDuringAnIteration) {
  for (const NamedPlan& plan : VariedPlans()) {
    for (const bool shuffle : {false, true}) {
      RunOptions options{.mixing = true};
      if (shuffle) options.executor.shuffle_seed = 3;
      TrainingRun run(SmallModel(plan.model, FP32), plan.plan, options);
      run.LoadStep();
      const std::int64_t before = AllocationCount();
      const bool first = run.RunOnly().ok();
      const bool second = run.RunOnly().ok();
      EXPECT_EQ(AllocationCount(), before) << plan.name;
      EXPECT_TRUE(first && second) << plan.name;
    }
  }
}

// --- What goes wrong is named.

TEST(ExecutorTest, WatchdogNamesTaskAndWhatWaitsForIt) {
  const Model model = SmallModel("llama", FP32);
  const Plan plan = SmallPlan(2, 1, 1, 1);
  const TaskGraph graph = LowerOrDie(model, ResolveOrDie(model, plan));
  // Rank 1 hangs in its third computation; rank 0 then waits in a collective.
  TaskId hanging = kNone;
  int computations = 0;
  for (TaskId id = graph.rank_begin[1]; id < graph.rank_begin[2] && computations < 3; ++id) {
    if (graph.tasks[id].kind != TaskKind::kCompute) continue;
    hanging = id;
    ++computations;
  }
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  RunOptions options{.executor = {.stall_limit_s = 0.3}};
  options.backend.kernel = [&](TaskId id, const KernelCall&) {
    if (id == hanging) released.wait();
  };
  TrainingRun run(model, plan, options);
  const Status done = run.Train(1);
  const Status again = run.Train(1);
  release.set_value();
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().rule, "stall");
  EXPECT_EQ(done.error().code, ExitCode::kInternal);
  EXPECT_THAT(done.error().message,
              HasSubstr("rank 1, lane compute: task " + std::to_string(hanging) + " (" +
                        graph.TaskName(hanging) + ") does not end"));
  EXPECT_THAT(done.error().message, HasSubstr("rank 0, lane tp: task "));
  EXPECT_THAT(done.error().message, HasSubstr(" waits in rendezvous "));
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().message, done.error().message);
}

TEST(ExecutorTest, RefusesGraphsThatAreNoPrograms) {
  const Model model = SmallModel("llama", FP32);
  const ResolvedPlan plan = ResolveOrDie(model, SmallPlan(1, 1, 2, 1));
  TaskGraph graph = LowerOrDie(model, plan);
  const ArenaPlan arena = PlanArena(graph);
  const auto refusal = [&](const TaskGraph& bad, const ArenaPlan& planned) {
    CpuBackend backend({.threads = 1});
    const auto executor = Executor::Create(bad, planned, plan, &backend, {.verify = false});
    return executor.ok() ? std::string() : executor.error().message;
  };
  EXPECT_EQ(refusal(graph, arena), "");
  EXPECT_THAT(refusal(graph, ArenaPlan{}), HasSubstr("another graph's"));

  TaskGraph incomplete = graph;
  incomplete.rendezvous[0].participants = 3;
  EXPECT_THAT(refusal(incomplete, arena), HasSubstr("joins rendezvous 0 of 3 participants"));

  // Two meetings of the same ranks in opposite orders.
  GraphBuilder builder(2);
  const BufferId a = builder.AddBuffer(0, 256, {.persistent = true});
  const BufferId b = builder.AddBuffer(1, 256, {.persistent = true});
  const auto first = builder.AllReduce({a, b});
  const auto second = builder.AllReduce({a, b});
  TaskGraph crossed = builder.Build();
  std::swap(crossed.tasks[builder.Id(first[0])].rendezvous,
            crossed.tasks[builder.Id(second[0])].rendezvous);
  EXPECT_THAT(refusal(crossed, PlanArena(crossed)), HasSubstr("deadlock: rank 0, lane tp: task 0"));
}

TEST(ExecutorTest, RefusesFoldedGraphs) {
  const Model model = SmallModel("llama", FP32);
  const ResolvedPlan plan = ResolveOrDie(model, SmallPlan(1, 1, 1, 4));
  TaskGraph graph = LowerOrDie(model, plan);
  const ArenaPlan arena = PlanArena(graph);
  graph.rank_class.push_back(0);
  CpuBackend backend({.threads = 1});
  const auto executor = Executor::Create(graph, arena, plan, &backend, {.verify = false});
  ASSERT_FALSE(executor.ok());
}

// --- Times.

TEST(ExecutorTest, TraceHasEveryTaskInOrder) {
  const NamedPlan plan = VariedPlans()[3];
  TrainingRun run(SmallModel(plan.model, FP32), plan.plan, {.mixing = true});
  ASSERT_TRUE(run.Train(2).ok());
  const TaskGraph& graph = run.graph();
  const Execution execution = run.executor().LastExecution();
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    ASSERT_LE(execution.ready_ps[id], execution.start_ps[id]) << graph.TaskName(id);
    ASSERT_LE(execution.start_ps[id], execution.end_ps[id]);
    ASSERT_LE(execution.end_ps[id], execution.iteration_ps);
    for (const TaskId next : graph.Successors(id)) {
      ASSERT_LE(execution.end_ps[id], execution.ready_ps[next]) << graph.TaskName(next);
    }
  }
  const Trace trace = BuildExecutionTrace(graph, execution, "small");
  EXPECT_EQ(trace.origin(), Trace::EXECUTED);
  EXPECT_EQ(trace.iteration_ps(), execution.iteration_ps);
  ASSERT_EQ(trace.task_size(), static_cast<int>(graph.tasks.size()));
  std::set<TaskId> tasks(trace.task().begin(), trace.task().end());
  EXPECT_EQ(tasks.size(), graph.tasks.size());
  for (int i = 1; i < trace.task_size(); ++i) {
    ASSERT_LE(std::pair(trace.rank(i - 1), trace.start_ps(i - 1)),
              std::pair(trace.rank(i), trace.start_ps(i)));
  }
  EXPECT_EQ(trace.lanes(static_cast<int>(trace.lane(0))), Name(graph.tasks[trace.task(0)].lane));
  EXPECT_EQ(trace.memory_size(), 2 * static_cast<int>(graph.ranks.size()));  // GPU, pinned host.
}

}  // namespace
}  // namespace twinstep
