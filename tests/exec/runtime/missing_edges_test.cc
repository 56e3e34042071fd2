// Mutation test of the runtime's own checks: a graph that lacks one needed edge does not pass
// shuffled dispatch and poison mode.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/exec/runtime/small_models.h"
#include "tests/exec/runtime/training_run.h"
#include "tests/exec/runtime/varied_plans.h"
#include "tests/graph/closure_oracle.h"

namespace twinstep {
namespace {

using testing::HasSubstr;

using Edge = std::pair<TaskId, TaskId>;

TaskGraph WithoutEdge(const TaskGraph& graph, Edge left_out) {
  std::vector<Edge> edges;
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    for (const TaskId next : graph.Successors(id)) {
      if (Edge(id, next) != left_out) edges.emplace_back(id, next);
    }
  }
  TaskGraph mutant = graph;
  mutant.edges = FreezeEdges(graph.TaskCount(), edges);
  return mutant;
}

// Edges between lanes (a lane is a FIFO anyway) whose lack leaves a hazard unordered.
std::vector<Edge> NeededEdges(const TaskGraph& graph, std::size_t most) {
  const ClosureOracle oracle(graph);
  std::vector<Edge> all;
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    for (const TaskId next : graph.Successors(id)) {
      if (graph.tasks[id].lane != graph.tasks[next].lane) all.emplace_back(id, next);
    }
  }
  std::mt19937_64 random(5);
  std::shuffle(all.begin(), all.end(), random);
  std::vector<Edge> needed;
  for (const Edge& edge : all) {
    if (needed.size() == most) break;
    if (oracle.IsNeeded(edge.first, edge.second)) needed.push_back(edge);
  }
  return needed;
}

}  // namespace

TEST(MissingEdgesTest, PoisonAndShufflingFindEach) {
  constexpr std::uint64_t kSeeds = 200;
  int tried = 0;
  for (const NamedPlan& plan : VariedPlans()) {
    const Model model = SmallModel(plan.model, FP32);
    const ResolvedPlan resolved = ResolveOrDie(model, plan.plan);
    const TaskGraph graph = LowerOrDie(model, resolved);
    const ArenaPlan arena = PlanArena(graph);
    for (const Edge& edge : NeededEdges(graph, 6)) {
      ++tried;
      const TaskGraph mutant = WithoutEdge(graph, edge);
      std::string found;
      std::uint64_t seed = 0;
      while (found.empty() && ++seed <= kSeeds) {
        RunOptions options{.executor = {.shuffle_seed = seed, .verify = false}, .mixing = true};
        options.backend.poison = true;
        options.backend.threads = 1;  // Another thread would run lanes that are to fall behind.
        TrainingRun run(model, plan.plan, mutant, arena, options);
        const Status done = run.Train(1);
        if (!done.ok()) found = done.error().message;
      }
      EXPECT_THAT(found, HasSubstr("poison: rank"))
          << plan.name << ": without the edge from \"" << graph.TaskName(edge.first) << "\" to \""
          << graph.TaskName(edge.second) << "\" nothing was found in " << kSeeds << " runs";
    }
  }
  EXPECT_GT(tried, 20);
}

// Without poison mode the results tell.
TEST(MissingEdgesTest, BitsChange) {
  const NamedPlan plan = VariedPlans()[1];
  const Model model = SmallModel(plan.model, FP32);
  const TaskGraph graph = LowerOrDie(model, ResolveOrDie(model, plan.plan));
  const ArenaPlan arena = PlanArena(graph);
  const std::uint64_t expected = HashAfter(plan, {}, 1);
  int tried = 0, found = 0;
  for (const Edge& edge : NeededEdges(graph, 10)) {
    ++tried;
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
      RunOptions options{.executor = {.shuffle_seed = seed, .verify = false}, .mixing = true};
      options.backend.threads = 1;
      TrainingRun run(model, plan.plan, WithoutEdge(graph, edge), arena, options);
      if (run.Train(1).ok() && run.HashOfStates() == expected) continue;
      ++found;
      break;
    }
  }
  EXPECT_EQ(tried, 10);
  EXPECT_GE(found, 8);
}

}  // namespace twinstep
