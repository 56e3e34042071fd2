#include "tests/search/protrain_tables.h"

#include <cstdio>
#include <cstdlib>

#include "hw_specs/find_cluster.h"
#include "sim/search/chunk_space.h"
#include "sim/search/maximize.h"
#include "sim/search/plan_search.h"
#include "sim/search/rank_options.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

template <typename Value>
Value Get(Result<Value> result) {
  if (result.ok()) return std::move(result).value();
  std::fprintf(stderr, "%s\n", result.error().message.c_str());
  std::abort();
}

RankProblem ProblemOf(const std::vector<std::string>& arguments) {
  return Get(ReadRankProblem(Get(ParseRankOptions(arguments))));
}

constexpr std::int64_t kGpus = 4;

// Peak of the servers' DRAM: 6 channels of DDR4-2400 and 8 of DDR5-4800 a socket.
double DramPeak(const std::string& cluster) { return cluster == "4x3090" ? 230.4e9 : 614.4e9; }

}  // namespace

double ParamsPerSecond(const std::string& cluster, AdamRate rate) {
  const Host host = Get(FindCluster(cluster)).node().host();
  constexpr double kAdamBytes = 28;
  switch (rate) {
    case AdamRate::kOfCluster:
      return host.adam_params_per_s();
    case AdamRate::kOneProcess:
      return 10.07e9 / 2.57 * DramPeak(cluster) / 256e9;
    case AdamRate::kBoundRanks: {
      constexpr double kDeepSpeedBytes = 42;  // hw_specs/frameworks/deepspeed-2023.textproto
      return 11.2e9 / 3.73 * kDeepSpeedBytes / kAdamBytes * DramPeak(cluster) / 204.8e9;
    }
    case AdamRate::kDram:
      return 4.0 / 3 * host.dram_bytes_per_s() / kAdamBytes;
  }
  return 0;
}

const std::vector<TableFourRow>& TableFour() {
  static const std::vector<TableFourRow> kRows = {
      {"A", "gpt2-1b", "4x3090", 8, 0, 0, 12, 12, 0},
      {"A", "gpt2-1b", "4xa100", 8, 0, 0, 12, 12, 0},
      {"B", "gpt2-1b", "4x3090", 64, 24, 2, 12, 2, 3},
      {"C", "gpt2-1b", "4xa100", 64, 0, 0, 12, 12, 0},
      {"D", "gpt2-10b", "4x3090", 8, 48, 0, 49, 3, 46},
      {"E", "gpt2-10b", "4xa100", 8, 0, 0, 49, 15, 3},
  };
  return kRows;
}

RowResult Search(const TableFourRow& row, AdamRate rate) {
  RankProblem problem =
      ProblemOf({"--space", "chunks", "--model", row.model, "--cluster", row.cluster, "--seq",
                 "1024", "--global-batch", StrCat(row.batch), "--attention", "unfused",
                 "--framework", "transformers-2023"});
  problem.input.cluster.mutable_node()->mutable_host()->set_adam_params_per_s(
      ParamsPerSecond(row.cluster, rate));
  RowResult result;
  Plan published = problem.input.plan;
  published.set_global_batch(row.batch);
  published.set_micro_batch(row.batch / kGpus);
  published.set_persistent_chunks(row.persistent);
  published.set_chunk_buffers(row.buffers);
  published.set_checkpointed_blocks(row.checkpointed);
  published.set_swapped_blocks(row.swapped);
  const ResolvedPlan plan =
      Get(ResolvePlan(problem.input.model, problem.input.cluster, published, kGpus));
  const PlanTime time = Get(TimePlan(problem.input, plan));
  const PlanMemory memory = Get(PlacePlan(problem.input, plan));
  result.published_s = static_cast<double>(time.iteration_ps) / kPicosecondsPerSecond;
  result.published_bytes = memory.peak_gpu_bytes;
  result.lacks = time.infeasible ? time.infeasible : memory.infeasible;

  const ChunkSpace space = Get(FindChunkSpace(problem.input, problem.chunk_axes, kGpus));
  PlanSearch search(problem.input, {.gap = 0.0001, .keep = 1, .threads = 2});
  const SearchResult found = Get(search.Run(space.space.plans, space.estimates, nullptr));
  const RankedPlan& best = found.plans[found.ranking.at(0)];
  result.best_s = static_cast<double>(*best.iteration_ps) / kPicosecondsPerSecond;
  result.best = best.plan;
  result.best_bytes = best.memory->peak_gpu_bytes;
  return result;
}

double LargestModel(const std::string& cluster, std::int64_t gpus) {
  const RankProblem problem = ProblemOf({"--maximize", "layers", "--space", "chunks", "--model",
                                         "gpt2-40b", "--cluster", cluster, "--seq", "1024"});
  return 1e-9 * static_cast<double>(Get(FindMaximum(problem, gpus, nullptr)).parameters);
}

}  // namespace twinstep
