#include "traces/breakdown.h"

#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace twinstep {
namespace {

std::size_t Index(TimeClass x) { return static_cast<std::size_t>(x); }

// The enumerator that a trace's own name stands for.
template <typename Enum>
std::optional<Enum> FromName(std::string_view name, int count) {
  for (int i = 0; i < count; ++i) {
    const Enum value = static_cast<Enum>(i);
    if (name == Name(value)) return value;
  }
  return std::nullopt;
}

Error BadEvent(int event, const std::string& what) {
  return Error{.message = "trace event " + std::to_string(event) + ": " + what};
}

// Enumerators behind a trace's name table; nullopt where this version does not know the name.
template <typename Enum>
std::vector<std::optional<Enum>> Enumerators(
    const google::protobuf::RepeatedPtrField<std::string>& names, int count) {
  std::vector<std::optional<Enum>> result;
  for (const std::string& name : names) result.push_back(FromName<Enum>(name, count));
  return result;
}

}  // namespace

const char* JsonName(TimeClass time_class) {
  switch (time_class) {
    case TimeClass::kCompute:
      return "compute_s";
    case TimeClass::kRecompute:
      return "recompute_s";
    case TimeClass::kOptimizer:
      return "optimizer_s";
    case TimeClass::kTensorParallel:
      return "tp_exposed_s";
    case TimeClass::kContextParallel:
      return "cp_exposed_s";
    case TimeClass::kPipelineParallel:
      return "pp_exposed_s";
    case TimeClass::kDataParallel:
      return "dp_exposed_s";
    case TimeClass::kCopies:
      return "copies_exposed_s";
    case TimeClass::kBubble:
      return "bubble_s";
  }
  return "";
}

const char* Label(TimeClass time_class) {
  switch (time_class) {
    case TimeClass::kCompute:
      return "compute";
    case TimeClass::kRecompute:
      return "recompute";
    case TimeClass::kOptimizer:
      return "optimizer";
    case TimeClass::kTensorParallel:
      return "TP exposed";
    case TimeClass::kContextParallel:
      return "CP exposed";
    case TimeClass::kPipelineParallel:
      return "PP exposed";
    case TimeClass::kDataParallel:
      return "DP exposed";
    case TimeClass::kCopies:
      return "copies exposed";
    case TimeClass::kBubble:
      return "bubble";
  }
  return "";
}

TimeClass ClassOf(TaskKind kind, Lane lane, Phase phase) {
  switch (kind) {
    case TaskKind::kCompute:
    case TaskKind::kHost:
      if (phase == Phase::kOptimizer) return TimeClass::kOptimizer;
      if (phase == Phase::kRecompute) return TimeClass::kRecompute;
      return TimeClass::kCompute;
    case TaskKind::kH2D:
    case TaskKind::kD2H:
      return TimeClass::kCopies;
    case TaskKind::kSend:
    case TaskKind::kRecv:
      return TimeClass::kPipelineParallel;
    case TaskKind::kCollective:
      if (lane == Lane::kTp) return TimeClass::kTensorParallel;
      if (lane == Lane::kCp) return TimeClass::kContextParallel;
      if (lane == Lane::kDp) return TimeClass::kDataParallel;
      // What remains joins pipeline stages: tied embeddings, the loss.
      return TimeClass::kPipelineParallel;
  }
  return TimeClass::kCompute;
}

Picoseconds Breakdown::Total() const {
  return std::accumulate(time_ps.begin(), time_ps.end(), Picoseconds{0});
}

Breakdown BreakDownRank(ClassIntervals intervals, Picoseconds iteration_ps) {
  Breakdown result;
  IntervalSet covered;
  for (std::size_t i = 0; i < Index(TimeClass::kBubble); ++i) {
    const IntervalSet own(std::move(intervals[i]));
    result.time_ps[i] = own.Length() - own.Overlap(covered);
    covered = covered.Union(own);
  }
  result.time_ps[Index(TimeClass::kBubble)] = iteration_ps - covered.Length();
  return result;
}

std::vector<Breakdown> BreakDown(const TaskGraph& graph, const Replay& replay) {
  return BreakDown(graph, replay.start_ps, replay.end_ps, replay.makespan_ps);
}

std::vector<Breakdown> BreakDown(const TaskGraph& graph, std::span<const Picoseconds> start_ps,
                                 std::span<const Picoseconds> end_ps, Picoseconds iteration_ps) {
  std::vector<Breakdown> result;
  for (std::size_t rank = 0; rank + 1 < graph.rank_begin.size(); ++rank) {
    ClassIntervals intervals;
    for (TaskId id = graph.rank_begin[rank]; id < graph.rank_begin[rank + 1]; ++id) {
      const Task& task = graph.tasks[id];
      intervals[Index(ClassOf(task.kind, task.lane, task.phase))].push_back(
          {start_ps[id], end_ps[id]});
    }
    result.push_back(BreakDownRank(std::move(intervals), iteration_ps));
  }
  return result;
}

Result<std::vector<Breakdown>> BreakDown(const Trace& trace) {
  const int events = trace.start_ps_size();
  for (const auto& [name, size] :
       {std::pair{"rank", trace.rank_size()}, std::pair{"lane", trace.lane_size()},
        std::pair{"kind", trace.kind_size()}, std::pair{"phase", trace.phase_size()},
        std::pair{"end_ps", trace.end_ps_size()}}) {
    if (size != events) {
      return Error{.message = "trace column " + std::string(name) + " has " + std::to_string(size) +
                              " entries, start_ps has " + std::to_string(events)};
    }
  }
  const auto lanes = Enumerators<Lane>(trace.lanes(), kLaneCount);
  const auto kinds = Enumerators<TaskKind>(trace.kinds(), kTaskKindCount);
  const auto phases = Enumerators<Phase>(trace.phases(), kPhaseCount);
  const auto lookup = [](const auto& table, std::uint32_t index) {
    return index < table.size() ? table[index] : std::nullopt;
  };

  std::vector<ClassIntervals> intervals(static_cast<std::size_t>(trace.ranks_size()));
  for (int i = 0; i < events; ++i) {
    if (trace.rank(i) >= intervals.size()) {
      return BadEvent(
          i, "rank " + std::to_string(trace.rank(i)) + " of " + std::to_string(intervals.size()));
    }
    const auto lane = lookup(lanes, trace.lane(i));
    const auto kind = lookup(kinds, trace.kind(i));
    const auto phase = lookup(phases, trace.phase(i));
    if (!lane) return BadEvent(i, "unknown lane " + std::to_string(trace.lane(i)));
    if (!kind) return BadEvent(i, "unknown kind " + std::to_string(trace.kind(i)));
    if (!phase) return BadEvent(i, "unknown phase " + std::to_string(trace.phase(i)));
    const Interval when{trace.start_ps(i), trace.end_ps(i)};
    if (when.begin < 0 || when.end < when.begin || when.end > trace.iteration_ps()) {
      return BadEvent(i, "runs from " + std::to_string(when.begin) + " to " +
                             std::to_string(when.end) + " ps, outside of the iteration's " +
                             std::to_string(trace.iteration_ps()) + " ps");
    }
    intervals[trace.rank(i)][Index(ClassOf(*kind, *lane, *phase))].push_back(when);
  }
  std::vector<Breakdown> result;
  for (ClassIntervals& rank : intervals) {
    result.push_back(BreakDownRank(std::move(rank), trace.iteration_ps()));
  }
  return result;
}

std::array<double, kTimeClassCount> MeanSeconds(std::span<const Breakdown> ranks,
                                                std::span<const std::uint32_t> class_size) {
  std::array<double, kTimeClassCount> sum{};
  double count = 0;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    count += class_size[rank];
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] += class_size[rank] * static_cast<double>(ranks[rank].time_ps[i]);
    }
  }
  for (double& x : sum) x = count == 0 ? 0 : x / count / kPicosecondsPerSecond;
  return sum;
}

}  // namespace twinstep
