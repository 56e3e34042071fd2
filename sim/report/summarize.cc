#include "sim/report/summarize.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <tuple>

#include "sim/engine/critical_path.h"
#include "sim/estimate/mfu.h"
#include "sim/plan/placement.h"
#include "sim/report/chunk_summary.h"

namespace twinstep {
namespace {

std::int64_t HostBytesOf(const std::array<std::int64_t, kPoolCount>& pools) {
  return pools[static_cast<std::size_t>(Pool::kPinnedHost)] +
         pools[static_cast<std::size_t>(Pool::kHost)];
}

std::vector<RankReport> SummarizeRanks(const SimulationRun& run) {
  const std::vector<Breakdown> breakdowns = BreakDown(run.graph, run.replay);
  const std::vector<RankLanes> lanes = UseOfLanes(run.graph, run.replay);
  std::vector<RankReport> result;
  for (std::size_t rank = 0; rank < run.graph.ranks.size(); ++rank) {
    RankReport report;
    report.info = run.graph.ranks[rank];
    report.breakdown = breakdowns[rank];
    report.lanes = lanes[rank];
    for (std::size_t pool = 0; pool < kPoolCount; ++pool) {
      const PoolMemory& memory = run.memory[rank][pool];
      report.pools[pool] = {run.arena.arena_bytes[rank][pool], memory.peak_bytes,
                            memory.peak_time_ps, memory.at_peak};
    }
    result.push_back(report);
  }
  return result;
}

std::vector<LinkReport> SummarizeLinks(const SimulationRun& run) {
  std::vector<double> bytes(run.costs.links.size(), 0.0);
  for (TaskId id = 0; id < run.graph.TaskCount(); ++id) {
    const TaskCost& cost = run.costs.Of(id);
    for (std::uint32_t f = cost.flow_begin; f < cost.flow_begin + cost.flow_count; ++f) {
      const Flow& flow = run.costs.flows[f];
      for (std::uint32_t h = flow.hop_begin; h < flow.hop_begin + flow.hop_count; ++h) {
        const RouteHop& hop = run.costs.hops[h];
        bytes[hop.link] += static_cast<double>(flow.bytes) * hop.multiplicity;
      }
    }
  }
  const double iteration_s = static_cast<double>(run.replay.makespan_ps) / kPicosecondsPerSecond;
  std::map<LinkKind, LinkReport> busiest;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const Link& link = run.costs.links[i];
    if (bytes[i] == 0) continue;
    const double busy = iteration_s == 0 ? 0 : bytes[i] / link.bytes_per_s / iteration_s;
    const auto found = busiest.find(link.kind);
    if (found != busiest.end() && found->second.busy_fraction >= busy) continue;
    busiest[link.kind] = {link.kind, link.node, link.index, link.bytes_per_s, bytes[i], busy};
  }
  std::vector<LinkReport> result;
  for (const auto& [kind, link] : busiest) result.push_back(link);
  return result;
}

std::vector<OperatorReport> SummarizeOperators(const SimulationRun& run) {
  std::array<OperatorReport, 2 * kOpCodeCount> sums;  // On the device and on the host.
  double ranks = 0;
  for (const RankInfo& rank : run.graph.ranks) ranks += rank.class_size;
  for (TaskId id = 0; id < run.graph.TaskCount(); ++id) {
    const Task& task = run.graph.tasks[id];
    const OpShape& shape = run.graph.shapes[task.shape];
    const double weight = run.graph.ranks[task.rank].class_size / ranks;
    const bool on_host = task.kind == TaskKind::kHost;
    OperatorReport& sum = sums[2 * static_cast<std::size_t>(shape.op) + (on_host ? 1 : 0)];
    sum.op = shape.op;
    sum.on_host = on_host;
    sum.tasks += weight;
    sum.seconds += weight * static_cast<double>(run.replay.end_ps[id] - run.replay.start_ps[id]) /
                   kPicosecondsPerSecond;
    sum.flops += weight * Flops(shape);
    if (task.kind == TaskKind::kCompute || on_host) sum.memory_bytes += weight * MemoryBytes(shape);
    sum.extrapolated |= run.costs.Of(id).extrapolated;
  }
  std::vector<OperatorReport> result;
  for (const OperatorReport& sum : sums) {
    if (sum.tasks > 0) result.push_back(sum);
  }
  std::stable_sort(
      result.begin(), result.end(),
      [](const OperatorReport& a, const OperatorReport& b) { return a.seconds > b.seconds; });
  return result;
}

std::string ResourceOf(const GraphCosts& costs, const CriticalShare& share) {
  if (share.link != kNone) return Name(costs.links[share.link].kind);
  if (share.kind == TaskKind::kCompute) return costs.workers.threads > 0 ? "threads" : "gpu";
  return share.kind == TaskKind::kHost ? "host" : "own rate";
}

// Links of one kind together.
std::vector<CriticalReport> SummarizeCriticalPath(const SimulationRun& run,
                                                  const CriticalPath& path) {
  std::map<std::tuple<Lane, Phase, std::string>, CriticalReport> sums;
  for (const CriticalShare& share : path.shares) {
    const std::string resource = ResourceOf(run.costs, share);
    CriticalReport& sum = sums[{share.lane, share.phase, resource}];
    sum.lane = share.lane;
    sum.phase = share.phase;
    sum.resource = resource;
    sum.seconds += static_cast<double>(share.time_ps) / kPicosecondsPerSecond;
    sum.slowed_s += static_cast<double>(share.slowed_ps) / kPicosecondsPerSecond;
    sum.tasks += share.tasks;
  }
  std::vector<CriticalReport> result;
  for (const auto& [key, sum] : sums) result.push_back(sum);
  std::stable_sort(
      result.begin(), result.end(),
      [](const CriticalReport& a, const CriticalReport& b) { return a.seconds > b.seconds; });
  return result;
}

}  // namespace

HostReport SumHostMemory(const TaskGraph& graph,
                         std::span<const std::array<std::int64_t, kPoolCount>> arena_bytes,
                         const ResolvedPlan& plan, std::int64_t gpus_per_node) {
  const Placement placement(plan, gpus_per_node);
  std::map<std::int64_t, HostReport> nodes;
  for (std::size_t rank = 0; rank < graph.rank_class.size(); ++rank) {
    HostReport& node = nodes[placement.NodeOf(static_cast<std::int64_t>(rank))];
    node.node = placement.NodeOf(static_cast<std::int64_t>(rank));
    const auto& pools = arena_bytes[graph.rank_class[rank]];
    node.peak_bytes += HostBytesOf(pools);
    node.pinned_bytes += pools[static_cast<std::size_t>(Pool::kPinnedHost)];
    ++node.ranks;
  }
  HostReport fullest;
  for (const auto& [index, node] : nodes) {
    if (fullest.ranks == 0 || node.peak_bytes > fullest.peak_bytes) fullest = node;
  }
  return fullest;
}

SimulationResults Summarize(const Report& report, const SimulationRun& run) {
  SimulationResults results;
  const double gpus = static_cast<double>(report.plan.gpus);
  results.iteration_s = static_cast<double>(run.replay.makespan_ps) / kPicosecondsPerSecond;
  results.tokens_per_s =
      results.iteration_s == 0
          ? 0
          : static_cast<double>(report.TokensPerIteration()) / results.iteration_s;
  results.tokens_per_s_per_gpu = results.tokens_per_s / gpus;
  results.peak_flops_per_s = PeakFlopsPerSecond(report.model.recipe(), report.cluster.gpu());
  results.mfu = Mfu(report.model, report.plan.sequence_length, results.tokens_per_s_per_gpu,
                    results.peak_flops_per_s);
  results.tasks = run.graph.TaskCount();
  for (TaskId id = 0; id < run.graph.TaskCount(); ++id) {
    results.extrapolated_tasks += run.costs.Of(id).extrapolated ? 1 : 0;
  }
  results.ranks = SummarizeRanks(run);
  std::vector<Breakdown> breakdowns;
  std::vector<std::uint32_t> class_size;
  for (const RankReport& rank : results.ranks) {
    breakdowns.push_back(rank.breakdown);
    class_size.push_back(rank.info.class_size);
    results.peak_gpu_bytes = std::max(results.peak_gpu_bytes,
                                      rank.pools[static_cast<std::size_t>(Pool::kGpu)].arena_bytes);
    results.peak_host_bytes = std::max(results.peak_host_bytes, rank.HostBytes());
  }
  results.breakdown = MeanSeconds(breakdowns, class_size);
  results.host =
      SumHostMemory(run.graph, run.arena.arena_bytes, report.plan, report.cluster.node().gpus());
  results.chunked = SummarizeChunks(report.model, report.plan, run.graph, run.replay);
  results.links = SummarizeLinks(run);
  results.operators = SummarizeOperators(run);
  const CriticalPath path = FindCriticalPath(run.graph, run.costs, run.replay);
  results.critical_path = SummarizeCriticalPath(run, path);
  results.critical_tasks = static_cast<std::int64_t>(path.steps.size());
  return results;
}

}  // namespace twinstep
