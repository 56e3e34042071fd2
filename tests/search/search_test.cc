// The search against brute force: every plan of a small space simulated in full, and the best of
// them is what the search proves.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "hw_specs/find_cluster.h"
#include "hw_specs/frameworks/find_framework.h"
#include "model_zoo/find_model.h"
#include "sim/search/chunk_space.h"
#include "sim/search/plan_search.h"
#include "sim/search/plan_space.h"
#include "sim/simulate/simulation.h"

namespace twinstep {
namespace {

struct Problem {
  std::string name, model, cluster;
  std::int64_t gpus, sequence_length;
  std::vector<std::int64_t> batches;
  bool kuaishou = false;
  std::int64_t budget_mib = 0;  // 0: none given.
  PlanAxes axes = {};
  std::int64_t capacity_mib = 0;  // 0: the cluster's.
};

SimulateInput InputOf(const Problem& problem) {
  SimulateInput input;
  input.model = FindModel(problem.model).value();
  input.cluster = FindCluster(problem.cluster).value();
  input.plan.set_sequence_length(problem.sequence_length);
  input.rules.kuaishou = problem.kuaishou;
  input.solve_offload = true;
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  if (problem.budget_mib > 0) input.gpu_memory_budget_bytes = problem.budget_mib * kMiB;
  input.gpu_memory_capacity_bytes =
      problem.capacity_mib > 0
          ? problem.capacity_mib * kMiB
          : input.cluster.gpu().memory_bytes() - input.cluster.gpu().runtime_overhead_bytes();
  input.host_memory_budget_bytes = input.cluster.node().host().memory_bytes();
  return input;
}

PlanAxes AxesOf(const Problem& problem) {
  PlanAxes axes = problem.axes;
  axes.global_batch = problem.batches;
  if (axes.recompute.empty()) {
    axes.recompute = {RECOMPUTE_NONE, RECOMPUTE_BALANCED, RECOMPUTE_FULL};
  }
  return axes;
}

struct BruteForce {
  double best_s = std::numeric_limits<double>::infinity();  // A sequence.
  std::size_t plans = 0, feasible = 0;
};

// Simulates what the user would: the plan's file, with the offload ratio of the search.
BruteForce SimulateAll(const SimulateInput& input, std::vector<ResolvedPlan> plans,
                       const std::vector<PlanEstimate>& estimates) {
  BruteForce all;
  all.plans = plans.size();
  for (std::size_t i = 0; i < plans.size(); ++i) {
    SimulateInput one = input;
    one.plan = ToPlan(plans[i]);
    one.gpus = plans[i].gpus;
    one.solve_offload = input.gpu_memory_budget_bytes.has_value();
    const Simulation simulation = Simulate(one, nullptr).value();
    // Without a budget of the user's the search has one of its own: a plan that no ratio fits into.
    const bool no_ratio_fits = !input.gpu_memory_budget_bytes && estimates[i].infeasible;
    if (simulation.report.infeasible || no_ratio_fits) continue;
    if (estimates[i].infeasible && estimates[i].infeasible->rule == "kuaishou-pipeline") continue;
    EXPECT_FALSE(estimates[i].infeasible) << ShortName(plans[i]);
    ++all.feasible;
    const double time_s = simulation.report.results->iteration_s;
    EXPECT_LE(1e-12 * static_cast<double>(estimates[i].bound_ps), time_s) << ShortName(plans[i]);
    all.best_s = std::min(all.best_s, time_s / static_cast<double>(plans[i].global_batch));
  }
  return all;
}

class SearchTest : public testing::TestWithParam<Problem> {};

TEST_P(SearchTest, FindsWhatBruteForceFinds) {
  const Problem& problem = GetParam();
  const SimulateInput input = InputOf(problem);
  const PlanSpace space = EnumeratePlans(input, AxesOf(problem), problem.gpus).value();
  std::vector<ResolvedPlan> plans = space.plans;
  PlanEstimator estimator(input, 1);
  const std::vector<PlanEstimate> estimates = estimator.Estimate(&plans).value();
  const BruteForce all = SimulateAll(input, plans, estimates);
  ASSERT_GT(all.plans, 5u);

  PlanSearch search(input, {.gap = 0, .keep = 3});
  const SearchResult found = search.Run(space, nullptr).value();
  ASSERT_EQ(found.ranking.empty(), all.feasible == 0);
  if (found.ranking.empty()) return;
  const RankedPlan& best = found.plans[found.ranking.front()];
  EXPECT_DOUBLE_EQ(1e-12 * best.Cost(), all.best_s) << ShortName(best.plan);
  EXPECT_EQ(found.certified_gap, 0);
  EXPECT_LE(found.replays, static_cast<std::int64_t>(all.plans));

  // A larger gap: within it, and it says so.
  PlanSearch rough(input, {.gap = 0.05, .keep = 1});
  const SearchResult near = rough.Run(space, nullptr).value();
  const double near_s = 1e-12 * near.plans[near.ranking.front()].Cost();
  EXPECT_GE(near_s, all.best_s * (1 - 1e-12));
  EXPECT_LE(near.certified_gap, 0.05 + 1e-12);
  EXPECT_LE(near_s * (1 - near.certified_gap), all.best_s * (1 + 1e-9));
}

struct ChunkProblem {
  std::string model, cluster;
  std::int64_t gpus = 1, sequence_length = 64, batch = 1;
  std::int64_t layers = 0;                      // 0: the model's.
  std::int64_t capacity_mib = 0, host_mib = 0;  // 0: the cluster's.
  bool unfused = false;
};

SimulateInput InputOf(const ChunkProblem& problem) {
  Problem any{.name = "chunks",
              .model = problem.model,
              .cluster = problem.cluster,
              .gpus = problem.gpus,
              .sequence_length = problem.sequence_length,
              .batches = {problem.batch}};
  any.capacity_mib = problem.capacity_mib;
  SimulateInput input = InputOf(any);
  input.solve_offload = false;
  if (problem.layers > 0) input.model.set_layers(static_cast<std::int32_t>(problem.layers));
  if (problem.host_mib > 0) input.host_memory_budget_bytes = problem.host_mib << 20;
  if (problem.unfused) {
    input.plan.set_attention(ATTENTION_UNFUSED);
    input.framework = FindFramework("transformers-2023").value();
  }
  return input;
}

// Every plan of a chunk space replayed and placed: the search finds the best, no bound lies, and
// what is said not to fit does not.
TEST(ChunkSearchTest, FindsWhatBruteForceFinds) {
  for (const ChunkProblem& problem : {
           ChunkProblem{"tiny-llama", "4x3090", 4, 64, 8},
           ChunkProblem{"tiny-gpt", "4x3090", 1, 64, 2},
           ChunkProblem{"gpt2-1b", "4x3090", 4, 1024, 64, 6, 8192},
           ChunkProblem{"gpt2-1b", "4x3090", 4, 1024, 64, 6, 8192, 4500},
           ChunkProblem{"gpt2-1b", "4x3090", 1, 1024, 4, 5, 3000, 0, true},
           ChunkProblem{"gpt2-1b", "4xa100", 4, 512, 32, 6, 6000, 4000, true},
           ChunkProblem{"llama-1.3b", "4xa100", 2, 512, 8, 5, 4000},
           ChunkProblem{"llama-1.3b", "4x3090", 2, 512, 8, 5, 6000, 5000},
       }) {
    const std::string& model = problem.model;
    const std::int64_t gpus = problem.gpus;
    const SimulateInput input = InputOf(problem);
    ChunkAxes axes;
    axes.global_batch = {problem.batch};
    const ChunkSpace chunks = FindChunkSpace(input, axes, gpus).value();
    double best_s = std::numeric_limits<double>::infinity();
    std::size_t feasible = 0;
    for (std::size_t i = 0; i < chunks.space.plans.size(); ++i) {
      const ResolvedPlan& plan = chunks.space.plans[i];
      if (chunks.estimates[i].infeasible) {
        EXPECT_TRUE(PlacePlan(input, plan).value().infeasible)
            << ShortName(plan) << ": " << chunks.estimates[i].infeasible->message;
        continue;
      }
      const PlanTime time = TimePlan(input, plan).value();
      if (time.infeasible) continue;
      EXPECT_LE(chunks.estimates[i].bound_ps, time.iteration_ps) << ShortName(plan);
      if (PlacePlan(input, plan).value().infeasible) continue;
      ++feasible;
      best_s = std::min(best_s, 1e-12 * static_cast<double>(time.iteration_ps));
    }
    PlanSearch search(input, {.gap = 0, .keep = 2});
    const SearchResult found = search.Run(chunks.space.plans, chunks.estimates, nullptr).value();
    ASSERT_EQ(found.ranking.empty(), feasible == 0) << model;
    ASSERT_GT(feasible, 3u) << model;
    const RankedPlan& best = found.plans[found.ranking.front()];
    EXPECT_DOUBLE_EQ(1e-12 * static_cast<double>(*best.iteration_ps), best_s)
        << model << " " << ShortName(best.plan);
    EXPECT_EQ(found.certified_gap, 0);

    // The plan's file says the same.
    SimulateInput one = input;
    one.plan = ToPlan(best.plan);
    one.gpus = gpus;
    EXPECT_DOUBLE_EQ(Simulate(one, nullptr).value().report.results->iteration_s, best_s);
  }
}

PlanAxes With(const std::function<void(PlanAxes*)>& change) {
  PlanAxes axes;
  change(&axes);
  return axes;
}

INSTANTIATE_TEST_SUITE_P(
    Problems, SearchTest,
    testing::Values(
        Problem{"tiny", "tiny-llama", "dgx-a100", 4, 64, {8}},
        Problem{"tiny_two_nodes", "tiny-llama", "dgx-a100", 16, 64, {16}},
        Problem{"tiny_six_gpus", "tiny-gpt", "dgx-a100", 6, 32, {12}},
        Problem{"tied", "tiny-llama-tied", "4x3090", 4, 32, {8}},
        Problem{"grouped_queries", "tiny-llama-gqa", "h800", 8, 64, {16}, true},
        Problem{"several_batches", "tiny-llama", "h800", 8, 64, {6, 8, 12, 16}},
        Problem{"zero_stages",
                "tiny-gpt-untied",
                "dgx-h100",
                4,
                32,
                {8},
                false,
                0,
                With([](PlanAxes* x) {
                  x->zero_stage = {0, 1, 2, 3};
                })},
        Problem{"overlaps", "tiny-llama", "dgx-a100", 8, 64, {8}, false, 0, With([](PlanAxes* x) {
                  x->data_overlap = {false, true};
                  x->tensor_overlap = {TP_OVERLAP_NONE, TP_OVERLAP_CHUNKED};
                })},
        Problem{
            "micro_batches", "tiny-llama", "4x3090", 4, 64, {16}, false, 0, With([](PlanAxes* x) {
              x->micro_batch = {1, 2, 4};
            })},
        Problem{
            "rank_orders", "tiny-llama", "dgx-a100", 16, 64, {16}, false, 0, With([](PlanAxes* x) {
              x->rank_order = {"tp-cp-dp-pp", "pp-dp-cp-tp"};
              x->tensor = {1, 2};
            })},
        Problem{"offload", "llama-7b", "h800", 4, 12288, {8}, true, 65000, With([](PlanAxes* x) {
                  x->context = {1};
                })},
        Problem{"offload_without_budget",
                "llama-7b",
                "dgx-a100",
                8,
                8192,
                {8},
                true,
                0,
                With([](PlanAxes* x) { x->context = {1}; })},
        Problem{"too_small",
                "llama-7b",
                "4x3090",
                4,
                2048,
                {8},
                false,
                0,
                With([](PlanAxes* x) { x->context = {1}; }),
                9000}),
    [](const testing::TestParamInfo<Problem>& x) { return x.param.name; });

}  // namespace
}  // namespace twinstep
