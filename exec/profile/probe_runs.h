// Measures probe graphs, and layers with a probe graph beside them, on a device.
//
//   ProbeRuns runs(model, plan, /*data=*/"", {.make_backend = ...}, /*warm_up_s=*/0.25);
//   Means means;
//   Status done = runs.MeasureAlone(std::move(probes), /*seconds=*/1, &means);
//   std::int64_t overhead_bytes = 0;
//   done = runs.MeasureBeside({.layers = &layers, .first = copies, .seconds = 1}, &means,
//                             &overhead_bytes);
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "exec/profile/collective_overlap.h"
#include "exec/profile/measure_clocks.h"
#include "exec/profile/merge_graphs.h"
#include "exec/profile/plan_run.h"
#include "exec/profile/primitive.h"
#include "exec/profile/probe_graph.h"
#include "exec/profile/repeated_run.h"
#include "model_zoo/model.pb.h"
#include "sim/graph/task_graph.h"
#include "sim/plan/resolved_plan.h"
#include "sim/result.h"

namespace twinstep {

class ProbeRuns {
 public:
  // Model and plan say where tasks of probes stand (TaskPlace) and must outlive this; data as
  // LoweredPlan::data. `warm_up_s` of steady load before probes are measured.
  ProbeRuns(const Model& model, const ResolvedPlan& plan, std::string data,
            const RepeatedRunOptions& options, double warm_up_s)
      : model_(model),
        plan_(plan),
        data_(std::move(data)),
        options_(options),
        warm_up_s_(warm_up_s) {}

  Status MeasureAlone(ProbeGraph probes, double seconds, Means* means) const;

  // The same of those tasks that ran while all lanes of all ranks did: what is faster is done
  // before the others, which then have less company. Primitives of which no task did are left out.
  Status MeasureTogether(ProbeGraph probes, double seconds, Means* means) const;

  struct Beside {
    const LoweredPlan* layers = nullptr;
    TaskGraph first;  // Alone on its lanes.
    double warm_up_s = 0, seconds = 0;
  };
  // What both take together, each task that ran all the time beside the other graph's.
  // `overhead_bytes` grows to what the run has on the device besides its arena.
  Status MeasureBeside(const Beside& beside, Means* means, std::int64_t* overhead_bytes) const;

  // The same after a rest, of tasks that end within `boost_s` (measure_clocks.h). All begins at
  // once, and `beside` has no use for its times.
  Status MeasureBesideRested(const Beside& beside, double boost_s, const ClockOptions& clocks,
                             Means* means) const;

  struct Overlap {
    const LoweredPlan* layers = nullptr;
    TaskGraph operations;                 // As Interleaved()'s (merge_graphs.h).
    std::map<Primitive, double> alone_s;  // What these take alone.
    std::vector<Placement> placements;
    double warm_up_s = 0, seconds = 0;
  };
  // What the layers and collectives between their operators do to each other.
  Status MeasureOverlap(const Overlap& overlap, CollectiveOverlap::Times* times,
                        std::int64_t* overhead_bytes) const;

 private:
  LoweredPlan Lowered(TaskGraph graph, const Model& model, const ResolvedPlan& plan) const;

  const Model& model_;
  const ResolvedPlan& plan_;
  const std::string data_;
  const RepeatedRunOptions options_;
  const double warm_up_s_;
};

}  // namespace twinstep
