// What the phases of a measurement on a GPU (measure_gpu.h) share: the plans' graphs, the layers
// that are run for them, what was measured so far, and the time there is.
//
//   Status MeasureSomething(GpuMeasurement* of) {
//     of->BeginPhase("something");
//     ProbeGraph probes;
//     ...
//     return of->MeasureAlone(std::move(probes), kSomethingShare);
//   }
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "exec/profile/gpu_measure_options.h"
#include "exec/profile/gpu_samples.h"
#include "exec/profile/layer_plan.h"
#include "exec/profile/measure_plan.h"
#include "exec/profile/plan_run.h"
#include "exec/profile/primitive.h"
#include "exec/profile/probe_graph.h"
#include "exec/profile/probe_runs.h"
#include "exec/profile/repeated_run.h"
#include "model_zoo/model.pb.h"
#include "sim/graph/fused_pairs.h"
#include "sim/graph/task_graph.h"
#include "sim/result.h"

namespace twinstep {

// Shares of the time (GpuMeasureOptions::seconds), each of all runs of its kind together.
inline constexpr double kAloneShare = 0.35, kOthersShare = 0.08, kGroupsShare = 0.08,
                        kCopiesShare = 0.08, kBesideCopiesShare = 0.18,
                        kBesideCollectivesShare = 0.07, kHostShare = 0.1, kRatesShare = 0.06;

// How often an operation that is measured by itself runs in an iteration.
inline constexpr int kProbeRepeats = 5;
// Copies and collectives run for so many times what they run beside takes.
inline constexpr double kBesideMargin = 1.05;

using TimesMember = std::vector<double> PrimitiveTimes::*;

class GpuMeasurement {
 public:
  // All three must outlive this.
  GpuMeasurement(const Model& model, const std::vector<GpuPlan>& plans,
                 const GpuMeasureOptions& options)
      : model_(model), plans_(plans), options_(options) {}
  GpuMeasurement(const GpuMeasurement&) = delete;
  GpuMeasurement& operator=(const GpuMeasurement&) = delete;

  // Layers that have operators which no layers before have.
  struct Layers {
    const GpuPlan* of = nullptr;
    LoweredPlan once, plan;  // The latter as long as the model's.
    double iteration_s = 0;  // Of the latter.
    std::uint32_t ranks() const { return static_cast<std::uint32_t>(once.graph.ranks.size()); }
  };

  // Before all phases: fills wholes(), whole_pairs() and layers(), these without `plan`.
  Status LowerAll();
  // With GpuMeasureOptions::data.
  Result<LoweredPlan> LowerLayers(const Model& model, const GpuPlan& plan,
                                  const FewLayersOptions& options) const;

  const Model& model() const { return model_; }
  const std::vector<GpuPlan>& plans() const { return plans_; }
  const GpuMeasureOptions& options() const { return options_; }
  const ProbeSizes& sizes() const { return options_.sizes; }
  const std::vector<TaskGraph>& wholes() const { return wholes_; }  // By plan, unfolded.
  // By plan: what the backend fuses of its graph.
  const std::vector<FusedPairs>& whole_pairs() const { return whole_pairs_; }
  std::vector<Layers>& layers() { return layers_; }
  const std::vector<Layers>& layers() const { return layers_; }
  GpuSamples& samples() { return samples_; }
  const GpuSamples& samples() const { return samples_; }
  std::int64_t gpus() const;  // Of the largest plan.
  bool IsMeasured(const Primitive& primitive) const;
  PrimitiveTimes& TimesOf(const Primitive& primitive) {
    return samples_.primitives.times[primitive];
  }
  // What it took on the first so many GPUs, as the mean over all.
  std::vector<double> OnAllGpus(const Primitive& primitive, std::size_t of_gpus,
                                std::vector<double> seconds) const;
  // Beside collectives, over time alone; those that have such a time keep it.
  void AddSlowdowns(const std::map<Primitive, double>& slowdowns);
  // After how long they let kernels in that wait for them; those that have such a time keep it.
  void AddLetsIn(const std::map<Primitive, double>& lets_in_s);
  // Whether enough of the layers' operators were not measured so, by their time: others stand for
  // few.
  bool Lack(const Layers& layers, TimesMember member) const {
    return Lack(layers, member, [](const Primitive&) { return true; });
  }
  // Of those that are `wanted`.
  bool Lack(const Layers& layers, TimesMember member,
            const std::function<bool(const Primitive&)>& wanted) const;

  // Products of a rank over all that its layers do; 0 until layers were measured.
  double layers_flops_per_s() const { return layers_flops_per_s_; }
  void set_layers_flops_per_s(double flops_per_s) { layers_flops_per_s_ = flops_per_s; }

  void BeginPhase(const char* what) const;
  // Seconds of one of so many runs that have a share of the time.
  double Share(double share, std::size_t runs) const {
    return share * options_.seconds / static_cast<double>(runs);
  }
  // Before what follows other runs that kept the device busy.
  double WarmUpSeconds() const;
  // Of a GPU's memory, what probes may take at once; 0 = unknown.
  std::int64_t MostProbeBytes() const;
  // What copies of a lane go through (ProbeGraph::AddCopies): less than kFootprintBytes where GPUs
  // have no room for two of it beside layers, or the host for those of all GPUs.
  std::int64_t CopyFootprintBytes() const;
  RepeatedRunOptions RunOptions() const { return RunOptions(options_.pairs); }
  RepeatedRunOptions RunOptions(PairRule pairs, int first_gpu = 0) const;
  ProbeRuns Runs() const;  // Where the first plan's tasks stand.
  // That the backend fuses.
  FusedPairs PairsOf(const LoweredPlan& lowered) const {
    return FindFusedPairs(lowered.graph, options_.pairs, &lowered.arena);
  }
  // Appends to what primitives take alone; with `wanted` of these only, as far as they have no
  // times yet.
  Status MeasureAlone(ProbeGraph probes, double share) {
    return MeasureAlone(Runs(), std::move(probes), share);
  }
  Status MeasureAlone(const ProbeRuns& runs, ProbeGraph probes, double share,
                      const std::set<Primitive>* wanted = nullptr);

 private:
  const Model& model_;
  const std::vector<GpuPlan>& plans_;
  const GpuMeasureOptions& options_;
  GpuSamples samples_;
  std::vector<TaskGraph> wholes_;
  std::vector<FusedPairs> whole_pairs_;
  std::vector<Layers> layers_;
  double layers_flops_per_s_ = 0;
};

bool IsHostAdam(const Primitive& primitive);

void AppendTo(std::vector<double>* times, const std::vector<double>& more);

}  // namespace twinstep
