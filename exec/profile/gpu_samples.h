// What a measurement of plans on a GPU (measure_gpu.h) brings: times of their primitives, and what
// a machine's single numbers come from.
//
//   const GpuSamples samples = MeasureGpuPlans(model, plans, options).value();
//   gpu->set_bf16_flops_per_s(samples.bf16_flops_per_s);
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <vector>

#include "exec/profile/measure_clocks.h"
#include "exec/profile/measure_plan.h"
#include "sim/graph/task_graph.h"

namespace twinstep {

// Of each GPU's copies while `up` GPUs copy H2D and `down` D2H (HostCopySample).
struct HostCopyTimes {
  std::int64_t up = 0, down = 0, bytes = 0;
  double h2d_s = 0, d2h_s = 0;  // 0 = none copy so.
};

// What a machine's single numbers come from, as medians.
struct GpuSamples {
  PrimitiveSamples primitives;
  double bf16_flops_per_s = 0;    // A large matrix product.
  double memory_bytes_per_s = 0;  // A large copy on the device, read and written.
  double h2d_bytes_per_s = 0, d2h_bytes_per_s = 0, duplex_bytes_per_s = 0;
  std::int64_t gpus = 0;                   // Of the largest plan.
  std::vector<HostCopyTimes> host_copies;  // None where the plans have one GPU.
  double copy_latency_s = 0;               // Of the smallest copy.
  double dispatch_s = 0;                   // Of one task, where the host cannot keep up.
  // Of ProbeSizes::beside_bytes: alone, beside the layers, and beside those and CPU Adam; 0 = not
  // measured.
  struct CopyTimes {
    double alone_s = 0, beside_compute_s = 0, beside_host_s = 0;
    std::uint32_t gpus_beside_compute = 0;  // That copied so, each beside layers of its own.
  };
  CopyTimes h2d, d2h;                               // The other direction idle,
  CopyTimes h2d_both, d2h_both;                     // and not.
  std::set<std::uint32_t> group_sizes;              // Whose collectives are measured.
  std::vector<double> lane_handoffs_s, meetings_s;  // Of the layers' runs (lane_delays.h).
  ClockTimes clocks;
  // Of CPU Adam, all ranks, beside the GPUs' work: alone, beside copies up, down, and both ways.
  std::array<double, 4> host_adam_params_per_s{};
  std::int64_t overhead_bytes = 0;  // On the GPU besides the arena, with scratch of kernels.
  // The few layers that were measured last, and the scratch of their tasks' kernels.
  TaskGraph layers;
  std::vector<std::int64_t> scratch_bytes;
};

}  // namespace twinstep
