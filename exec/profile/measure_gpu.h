// Times of plans' primitives on a GPU, in warm steady state: a few layers of the model train again
// and again, alone and beside copies, so that clocks, caches and the order of operations are those
// of a training; what they do not have (other copies, optimizer tasks of other sizes) runs by
// itself behind them. What plans share is measured once: layers only where they have operators that
// no layers before have.
//
//   Result<GpuSamples> samples =
//       MeasureGpuPlans(model, {{&cluster, &plan}}, {.make_backend = ..., .seconds = 10});
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "exec/profile/measure_clocks.h"
#include "exec/profile/measure_plan.h"
#include "exec/profile/phase_times.h"
#include "exec/runtime/backend.h"
#include "hw_specs/cluster.pb.h"
#include "model_zoo/model.pb.h"
#include "sim/graph/task_graph.h"
#include "sim/plan/resolved_plan.h"
#include "sim/result.h"

namespace twinstep {

// What machine constants are measured on, and how long the machine warms up.
struct ProbeSizes {
  double warm_up_s = 2;  // Of steady load, so that clocks are those of a training.
  double layers_s = 1;   // Of an iteration of the layers, at most; else as long as the model's.
  // Between two iterations that are looked at, so that the device has no time to cool.
  double pause_s = 0.1;
  // Copies that run beside operators; large ones, as chunks and activations are.
  std::int64_t beside_bytes = std::int64_t{64} << 20;
  // Copies besides the plan's own, and the largest of them.
  std::vector<std::int64_t> copy_bytes = {4 << 10, 1 << 20, 16 << 20, 64 << 20, 256 << 20};
  std::int64_t product = 8192;  // Rows, columns and depth of the matrix product.
  std::int64_t device_copy_bytes = std::int64_t{1} << 30;
  int launches = 2000;  // Of a tiny kernel.
  // Collectives and messages besides the plan's own.
  std::vector<std::int64_t> collective_bytes = {64 << 10, 1 << 20, 16 << 20, 128 << 20, 512 << 20};
  double least_adam_params_per_s = 2e9;  // Of the host; slower ones are seen less often.
  ClockOptions clocks = {};
};

struct GpuMeasureOptions {
  // One that records times.
  std::function<Result<std::unique_ptr<Backend>>()> make_backend;
  // To spend on all plans, besides allocation, the choice of algorithms and warming up.
  double seconds = 10;
  // Of steady load before anything is measured; before other runs less.
  double warm_up_s = 2;
  ProbeSizes sizes = {};
  std::string data = {};  // As LoweredPlan::data.
  // Called at the begin of each of kGpuPhases phases with what is measured.
  std::function<void(const std::string&)> begin_phase = {};
  PhaseTimes* phase_times = nullptr;  // Adds how long each took.
};
inline constexpr std::size_t kGpuPhases = 9;

// What a machine's single numbers come from, as medians.
struct GpuSamples {
  PrimitiveSamples primitives;
  double bf16_flops_per_s = 0;    // A large matrix product.
  double memory_bytes_per_s = 0;  // A large copy on the device, read and written.
  double h2d_bytes_per_s = 0, d2h_bytes_per_s = 0, duplex_bytes_per_s = 0;
  std::int64_t gpus = 0;                   // Of the largest plan.
  double all_gpus_copies_bytes_per_s = 0;  // Both ways; 0 where the plans have one GPU.
  double copy_latency_s = 0;               // Of the smallest copy.
  double dispatch_s = 0;                   // Of one task, where the host cannot keep up.
  // Of ProbeSizes::beside_bytes: alone, beside the layers, and beside those and CPU Adam; 0 = not
  // measured.
  struct CopyTimes {
    double alone_s = 0, beside_compute_s = 0, beside_host_s = 0;
  };
  CopyTimes h2d, d2h;                   // The other direction idle,
  CopyTimes h2d_both, d2h_both;         // and not.
  std::set<std::uint32_t> group_sizes;  // Whose collectives are measured.
  ClockTimes clocks;
  // Of CPU Adam, all ranks, beside the GPUs' work: alone, beside copies up, down, and both ways.
  std::array<double, 4> host_adam_params_per_s{};
  std::int64_t overhead_bytes = 0;  // On the GPU besides the arena, with scratch of kernels.
  // The few layers that were measured last, and the scratch of their tasks' kernels.
  TaskGraph layers;
  std::vector<std::int64_t> scratch_bytes;
};

// A plan of the model on its cluster.
struct GpuPlan {
  const Cluster* cluster = nullptr;
  const ResolvedPlan* plan = nullptr;
};

// At least one plan. Of all ranks, each on a GPU of its own; of pipelines one stage. An Error (kNo)
// where a layer does not fit the GPU, or GPUs are missing.
Result<GpuSamples> MeasureGpuPlans(const Model& model, const std::vector<GpuPlan>& plans,
                                   const GpuMeasureOptions& options);

}  // namespace twinstep
