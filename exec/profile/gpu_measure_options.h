// What is measured on a GPU (measure_gpu.h), for how long and in what sizes.
//
//   const GpuMeasureOptions options{.make_backend = ..., .seconds = 10};
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exec/profile/measure_clocks.h"
#include "exec/profile/phase_times.h"
#include "exec/runtime/backend.h"
#include "hw_specs/cluster.pb.h"
#include "sim/graph/fused_pairs.h"
#include "sim/plan/resolved_plan.h"
#include "sim/result.h"

namespace twinstep {

// A plan of the model on its cluster.
struct GpuPlan {
  const Cluster* cluster = nullptr;
  const ResolvedPlan* plan = nullptr;
};

// What machine constants are measured on, and how long the machine warms up.
struct ProbeSizes {
  double warm_up_s = 2;   // Of steady load, so that clocks are those of a training.
  double layers_s = 0.5;  // Of an iteration of the layers, at most; else as long as the model's.
  // Between two iterations that are looked at (RepeatedRunOptions).
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
  // Updated by the host's Adam, about: far beyond its caches.
  std::int64_t adam_elements = std::int64_t{1} << 28;
  double least_adam_params_per_s = 2e9;  // Of the host; slower ones are seen less often.
  ClockOptions clocks = {};
};

struct GpuMeasureOptions {
  // One that records times and fuses these pairs, on the GPUs from `first_gpu` on.
  std::function<Result<std::unique_ptr<Backend>>(PairRule, int first_gpu)> make_backend;
  // That the training's backend fuses: what runs so and alone is told apart.
  PairRule pairs = PairRule::kNoPairs;
  // To spend on all plans, besides allocation, the choice of algorithms and warming up.
  double seconds = 10;
  // Of steady load before anything is measured; before other runs less.
  double warm_up_s = 2;
  ProbeSizes sizes = {};
  std::string data = {};               // As LoweredPlan::data.
  std::int64_t host_memory_bytes = 0;  // 0 = unknown.
  // Called at the begin of each of kGpuPhases phases with what is measured.
  std::function<void(const std::string&)> begin_phase = {};
  PhaseTimes* phase_times = nullptr;  // Adds how long each took.
};
inline constexpr std::size_t kGpuPhases = 9;

}  // namespace twinstep
