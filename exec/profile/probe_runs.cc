#include "exec/profile/probe_runs.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "exec/profile/merge_graphs.h"
#include "sim/graph/arena.h"

namespace twinstep {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// Which tasks of a graph that came of Beside() ran all the time beside the other part.
class BesideTimes {
 public:
  BesideTimes(const RepeatedRun& run, const TaskGraph& first) : run_(run) {
    const TaskGraph& graph = run.graph();
    for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
      const TaskId begin = graph.rank_begin[rank];
      Parts parts{.middle = begin + first.rank_begin[rank + 1] - first.rank_begin[rank],
                  .last = graph.rank_begin[rank + 1] - 1};
      parts.lanes.fill({kNone, kNone});
      for (TaskId id = begin; id < parts.middle; ++id) {
        auto& [lane_begin, lane_end] = parts.lanes[static_cast<std::size_t>(graph.tasks[id].lane)];
        if (lane_begin == kNone) lane_begin = id;
        lane_end = id;
      }
      parts_.push_back(parts);
    }
  }

  bool IsBeside(TaskId id) const {
    const Task& task = run_.graph().tasks[id];
    const Parts& parts = parts_[task.rank];
    const TaskTime time = run_.Time(id);
    const auto within = [&](TaskId from, TaskId to) {
      return time.start_ns >= run_.Time(from).start_ns && time.end_ns <= run_.Time(to).end_ns;
    };
    // The layers compute for longer than all host tasks take, however small these are.
    const bool is_on_host = task.kind == TaskKind::kHost;
    if (id < parts.middle && !is_on_host && !within(parts.middle, parts.last)) return false;
    // As long as the layers are being issued, the thread that does so takes a core.
    if (is_on_host && id == parts.lanes[static_cast<std::size_t>(task.lane)].first) return false;
    // While each other lane of the first graph ran.
    for (std::size_t lane = 0; lane < parts.lanes.size(); ++lane) {
      const auto [begin, end] = parts.lanes[lane];
      if (begin == kNone || lane == static_cast<std::size_t>(task.lane)) continue;
      if (!within(begin, end)) return false;
    }
    return true;
  }

 private:
  // Of a rank: where the layers begin and end, first and last task of the first graph's lanes.
  struct Parts {
    TaskId middle = 0, last = 0;
    std::array<std::pair<TaskId, TaskId>, kLaneCount> lanes = {};
  };

  const RepeatedRun& run_;
  std::vector<Parts> parts_;
};

// From when the last lane begins until the first one is done.
TaskTime AllLanesRun(const RepeatedRun& run) {
  const TaskGraph& graph = run.graph();
  std::vector<TaskTime> lanes(graph.ranks.size() * kLaneCount, {kNever, -kNever});
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    const Task& task = graph.tasks[id];
    const TaskTime time = run.Time(id);
    TaskTime& lane = lanes[task.rank * kLaneCount + static_cast<std::size_t>(task.lane)];
    lane.start_ns = std::min(lane.start_ns, time.start_ns);
    lane.end_ns = std::max(lane.end_ns, time.end_ns);
  }
  TaskTime all{-kNever, kNever};
  for (const TaskTime& lane : lanes) {
    if (lane.start_ns == kNever) continue;
    all.start_ns = std::max(all.start_ns, lane.start_ns);
    all.end_ns = std::min(all.end_ns, lane.end_ns);
  }
  return all;
}

}  // namespace

LoweredPlan ProbeRuns::Lowered(TaskGraph graph, const Model& model,
                               const ResolvedPlan& plan) const {
  LoweredPlan lowered{
      .model = model, .plan = plan, .graph = std::move(graph), .arena = {}, .data = data_};
  lowered.arena = PlanArena(lowered.graph);
  return lowered;
}

Status ProbeRuns::MeasureAlone(ProbeGraph probes, double seconds, Means* means) const {
  RepeatedRun run(Lowered(std::move(probes).Finish(), model_, plan_), options_);
  if (const Status started = run.Start(/*fill_buffers=*/true); !started.ok()) return started;
  if (const Status warm = run.WarmUp(warm_up_s_); !warm.ok()) return warm;
  return run.Measure(seconds, means);
}

Status ProbeRuns::MeasureTogether(ProbeGraph probes, double seconds, Means* means) const {
  RepeatedRun run(Lowered(std::move(probes).Finish(), model_, plan_), options_);
  if (const Status started = run.Start(/*fill_buffers=*/true); !started.ok()) return started;
  if (const Status warm = run.WarmUp(warm_up_s_); !warm.ok()) return warm;
  return run.Measure(seconds, [&] {
    const TaskTime together = AllLanesRun(run);
    run.Collect(means, [&](TaskId id) {
      const TaskTime time = run.Time(id);
      return time.start_ns >= together.start_ns && time.end_ns <= together.end_ns;
    });
  });
}

Status ProbeRuns::MeasureBeside(const Beside& beside, Means* means,
                                std::int64_t* overhead_bytes) const {
  const LoweredPlan& layers = *beside.layers;
  RepeatedRun run(Lowered(twinstep::Beside(beside.first, layers.graph), layers.model, layers.plan),
                  options_);
  if (const Status started = run.Start(/*fill_buffers=*/false); !started.ok()) return started;
  if (const Status warm = run.WarmUp(beside.warm_up_s); !warm.ok()) return warm;
  const BesideTimes times(run, beside.first);
  const Status done = run.Measure(
      beside.seconds, [&] { run.Collect(means, [&](TaskId id) { return times.IsBeside(id); }); });
  *overhead_bytes = std::max(*overhead_bytes, run.OverheadBytes());
  return done;
}

Status ProbeRuns::MeasureBesideRested(const Beside& beside, double boost_s,
                                      const ClockOptions& clocks, Means* means) const {
  const LoweredPlan& layers = *beside.layers;
  RepeatedRun run(Lowered(twinstep::Beside(beside.first, layers.graph), layers.model, layers.plan),
                  options_);
  if (const Status started = run.Start(/*fill_buffers=*/false); !started.ok()) return started;
  const BesideTimes times(run, beside.first);
  return MeasureRested(
      &run, boost_s, clocks, options_.phase_times,
      [&times](TaskId id) { return times.IsBeside(id); }, means);
}

Status ProbeRuns::MeasureOverlap(const Overlap& overlap, CollectiveOverlap::Times* times,
                                 std::int64_t* overhead_bytes) const {
  const LoweredPlan& layers = *overlap.layers;
  RepeatedRun run(Lowered(Interleaved(overlap.operations, layers.graph, overlap.placements),
                          layers.model, layers.plan),
                  options_);
  if (const Status started = run.Start(/*fill_buffers=*/false); !started.ok()) return started;
  if (const Status warm = run.WarmUp(overlap.warm_up_s); !warm.ok()) return warm;
  CollectiveOverlap seen(run.graph(), [&run](TaskId id) { return run.PrimitiveOfTask(id); });
  const Status done = run.Measure(
      overlap.seconds, [&] { seen.AddIteration([&run](TaskId id) { return run.Time(id); }); });
  if (!done.ok()) return done;
  *times = seen.Finish(overlap.alone_s);
  *overhead_bytes = std::max(*overhead_bytes, run.OverheadBytes());
  return done;
}

}  // namespace twinstep
