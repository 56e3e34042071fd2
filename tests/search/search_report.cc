// What the search shows, measured:
//   bazel run //tests/search:search_report
//
// The closed form and the bound of every plan of Llama-175B on 256 H800; the search with gap 0 and
// with the default gap; the same of the chunk space of GPT-2 40B on 4 A100; and the plans that the
// paper published in figure 9 against the best of the paper's own space. CPU seconds, of all
// threads.
#include <sys/resource.h>

#include <cstdio>
#include <string>
#include <utility>

#include "hw_specs/find_cluster.h"
#include "model_zoo/find_model.h"
#include "sim/search/chunk_space.h"
#include "sim/search/plan_search.h"
#include "tests/estimate/paper_plans.h"

namespace twinstep {
namespace {

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  double seconds = 0;
  for (const timeval& time : {usage.ru_utime, usage.ru_stime}) {
    seconds += static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  }
  return seconds;
}

SimulateInput PaperInput(const Model& model, std::int64_t sequence_length, std::int64_t batch) {
  SimulateInput input;
  input.model = model;
  input.cluster = FindCluster("h800").value();
  input.rules.kuaishou = true;
  input.solve_offload = true;
  input.gpu_memory_budget_bytes = static_cast<std::int64_t>(kBudget65000MiB);
  input.gpu_memory_capacity_bytes =
      input.cluster.gpu().memory_bytes() - input.cluster.gpu().runtime_overhead_bytes();
  input.host_memory_budget_bytes = input.cluster.node().host().memory_bytes();
  input.plan.set_sequence_length(sequence_length);
  input.plan.set_global_batch(batch);
  return input;
}

PlanAxes PaperAxes() {
  PlanAxes axes;
  axes.recompute = {RECOMPUTE_NONE, RECOMPUTE_BALANCED, RECOMPUTE_FULL};
  return axes;
}

void Speed() {
  constexpr int kThreads = 2;
  const SimulateInput input = PaperInput(FindModel("llama-175b").value(), 8192, 256);
  const PlanSpace space = EnumeratePlans(input, PaperAxes(), 256).value();
  PlanEstimator estimator(input, kThreads);
  std::vector<ResolvedPlan> plans = space.plans;
  double begin = CpuSeconds();
  (void)estimator.Estimate(&plans);
  std::printf("%zu plans: parts priced in %.3f s; ", space.plans.size(), CpuSeconds() - begin);
  constexpr int kRepeats = 100;
  begin = CpuSeconds();
  for (int i = 0; i < kRepeats; ++i) (void)estimator.Estimate(&plans);
  std::printf("closed form and bound of all %.2f ms\n", 1e3 * (CpuSeconds() - begin) / kRepeats);
  for (const double gap : {0.0, 0.001}) {
    begin = CpuSeconds();
    PlanSearch search(input, {.gap = gap, .keep = 5, .threads = kThreads});
    const SearchResult result = search.Run(space, nullptr).value();
    std::printf("gap %.3f: %ld replays, %.2f s of CPU, best %.3f s\n", gap,
                static_cast<long>(result.replays), CpuSeconds() - begin,
                1e-12 * static_cast<double>(*result.plans[result.ranking[0]].iteration_ps));
  }
}

// ProTrain's search: chunks of GPT-2 40B.
void ChunkSpeed() {
  SimulateInput input = PaperInput(FindModel("gpt2-40b").value(), 1024, 32);
  input.cluster = FindCluster("4xa100").value();
  input.rules.kuaishou = input.solve_offload = false;
  input.gpu_memory_budget_bytes.reset();
  input.gpu_memory_capacity_bytes =
      input.cluster.gpu().memory_bytes() - input.cluster.gpu().runtime_overhead_bytes();
  input.host_memory_budget_bytes = input.cluster.node().host().memory_bytes();
  constexpr int kRepeats = 10;
  constexpr std::int64_t kGpus = 4;
  double begin = CpuSeconds();
  for (int i = 1; i < kRepeats; ++i) (void)FindChunkSpace(input, {}, kGpus);
  ChunkSpace chunks = FindChunkSpace(input, {}, kGpus).value();
  std::printf("\nGPT-2 40B on 4 A100, %zu plans in chunks: closed form and bound %.3f s; ",
              chunks.space.plans.size(), (CpuSeconds() - begin) / kRepeats);
  begin = CpuSeconds();
  PlanSearch search(input, {.gap = 0.001, .keep = 5, .threads = 2});
  const SearchResult result =
      search.Run(std::move(chunks.space.plans), std::move(chunks.estimates), nullptr).value();
  std::printf("gap 0.001: %ld replays, %.2f s of CPU, best %.3f s\n",
              static_cast<long>(result.replays), CpuSeconds() - begin,
              1e-12 * static_cast<double>(*result.plans[result.ranking[0]].iteration_ps));
}

void Figure9Rows() {
  std::printf("\nFigure 9: the published plan against the best\n");
  int within = 0;
  for (const PaperRow& row : Figure9()) {
    const SimulateInput input =
        PaperInput(PaperModel(row.model), row.sequence_length, row.global_batch);
    PlanSearch search(input, {.gap = 0, .keep = 1, .threads = 2});
    const PlanSpace space = EnumeratePlans(input, PaperAxes(), row.gpus).value();
    const SearchResult result = search.Run(space, nullptr).value();
    const RankedPlan& best = result.plans[result.ranking[0]];
    for (const RankedPlan& plan : result.plans) {
      if (plan.plan.t != row.t || plan.plan.c != row.c || plan.plan.p != row.p ||
          plan.plan.l != row.l || plan.plan.recompute != row.recompute) {
        continue;
      }
      const double published = static_cast<double>(TimePlan(input, plan.plan).value().iteration_ps);
      const double more = published / static_cast<double>(*best.iteration_ps) - 1;
      within += more <= 0.03 ? 1 : 0;
      std::printf("%-10s %4ld GPUs  +%.2f %%  best: %s\n", row.model.c_str(),
                  static_cast<long>(row.gpus), 100 * more, ShortName(best.plan).c_str());
    }
  }
  std::printf("%d of %zu within 3 %%\n", within, Figure9().size());
}

}  // namespace
}  // namespace twinstep

int main() {
  twinstep::Speed();
  twinstep::ChunkSpeed();
  twinstep::Figure9Rows();
}
