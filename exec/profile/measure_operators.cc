#include "exec/profile/measure_operators.h"

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
#include "sim/graph/task_graph.h"
#include "sim/plan/resolved_plan.h"

namespace twinstep {

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
      for (TaskId id = 0; id < whole.TaskCount(); ++id) {
        const auto primitive = PrimitiveOf(whole, id);
        if (!primitive || primitive->group_size > 0 || IsCopy(primitive->shape.op) ||
            IsHostAdam(*primitive) || gpu->IsMeasured(*primitive) ||
            !added.insert(*primitive).second) {
          continue;
        }
        std::int64_t more = 0;
        for (const auto& operands : {whole.Reads(id), whole.Writes(id)}) {
          for (const Operand& x : operands) more += whole.OperandBytes(x);
        }
        if (tasks > 0 && gpu->MostProbeBytes() > 0 && bytes + more > gpu->MostProbeBytes()) {
          const Status done = gpu->MeasureAlone(runs, std::exchange(probes, ProbeGraph()), share);
          if (!done.ok()) return done;
          tasks = 0;
          bytes = 0;
        }
        ++tasks;
        bytes += more;
        probes.AddTask(whole, id, {.times = kProbeRepeats, .on_host = primitive->on_host});
      }
    }
    if (tasks == 0) continue;
    const Status done = gpu->MeasureAlone(runs, std::move(probes), share);
    if (!done.ok()) return done;
  }
  return Unit{};
}

}  // namespace twinstep
