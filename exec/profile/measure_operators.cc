#include "exec/profile/measure_operators.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "exec/profile/primitive.h"
#include "exec/profile/probe_graph.h"
#include "exec/profile/probe_runs.h"
#include "sim/graph/fused_pairs.h"
#include "sim/graph/task_graph.h"
#include "sim/plan/resolved_plan.h"

namespace twinstep {
namespace {

std::int64_t OperandBytes(const TaskGraph& graph, TaskId id) {
  std::int64_t bytes = 0;
  for (const auto& operands : {graph.Reads(id), graph.Writes(id)}) {
    for (const Operand& x : operands) bytes += graph.OperandBytes(x);
  }
  return bytes;
}

}  // namespace

Status MeasureOtherOperators(GpuMeasurement* gpu) {
  gpu->BeginPhase("other operators");
  // Together those of plans whose tasks stand at equal places (TaskPlace).
  using Place = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool>;
  std::map<Place, std::vector<std::size_t>> plans_at;
  for (std::size_t i = 0; i < gpu->plans().size(); ++i) {
    const ResolvedPlan& plan = *gpu->plans()[i].plan;
    plans_at[{plan.t, plan.c, plan.b, plan.sequence_length, plan.sequence_parallel}].push_back(i);
  }
  for (const auto& [place, plans] : plans_at) {
    const ProbeRuns runs(gpu->model(), *gpu->plans()[plans.front()].plan, gpu->options().data,
                         gpu->RunOptions(), gpu->WarmUpSeconds());
    const double share = kOthersShare / static_cast<double>(plans_at.size());
    ProbeGraph probes;
    std::set<Primitive> added;
    int tasks = 0;
    std::int64_t bytes = 0;
    for (const std::size_t i : plans) {
      const TaskGraph& whole = gpu->wholes()[i];
      const FusedPairs& pairs = gpu->whole_pairs()[i];
      for (TaskId id = 0; id < whole.TaskCount(); ++id) {
        const auto primitive = PrimitiveOf(whole, id, pairs);
        if (!primitive || primitive->group_size > 0 || IsCopy(primitive->shape.op) ||
            IsHostAdam(*primitive) || gpu->IsMeasured(*primitive) ||
            !added.insert(*primitive).second) {
          continue;
        }
        const TaskId partner = primitive->fusion == Fusion::kAlone ? kNone : pairs.partner[id];
        std::int64_t more = OperandBytes(whole, id);
        if (partner != kNone) more += OperandBytes(whole, partner);
        if (tasks > 0 && gpu->MostProbeBytes() > 0 && bytes + more > gpu->MostProbeBytes()) {
          const Status done =
              gpu->MeasureAlone(runs, std::exchange(probes, ProbeGraph()), share, &added);
          if (!done.ok()) return done;
          tasks = 0;
          bytes = 0;
        }
        ++tasks;
        bytes += more;
        if (partner == kNone) {
          probes.AddTask(whole, id, {.times = kProbeRepeats, .on_host = primitive->on_host});
          continue;
        }
        // The probe measures both.
        if (const auto other = PrimitiveOf(whole, partner, pairs)) added.insert(*other);
        const TaskId first = std::min(id, partner), second = std::max(id, partner);
        probes.AddPair(whole, first, second, kProbeRepeats,
                       pairs.Of(second) == Fusion::kSwiGluWithSilu);
      }
    }
    if (tasks == 0) continue;
    const Status done = gpu->MeasureAlone(runs, std::move(probes), share, &added);
    if (!done.ok()) return done;
  }
  return Unit{};
}

}  // namespace twinstep
