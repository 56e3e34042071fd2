// From options to what a training needs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "exec/runtime/learning_rate.h"
#include "exec/runtime/process_place.h"
#include "hw_specs/cluster.pb.h"
#include "model_zoo/model.pb.h"
#include "sim/options/options.h"
#include "sim/plan/resolved_plan.h"
#include "sim/result.h"

namespace twinstep {

enum class BackendKind { kCpu, kCuda };

struct TrainInput {
  Model model;
  Cluster cluster;  // This machine: one node with a GPU for each rank.
  ResolvedPlan plan;
  std::string data;
  LearningRateSchedule schedule;
  double beta1 = 0.9, beta2 = 0.95, weight_decay = 0.1;
  std::optional<std::uint64_t> seed;  // As given; default: the checkpoint's, else 1.
  std::string init_from;              // Empty: drawn weights.
  BackendKind backend = BackendKind::kCpu;
  ProcessPlace processes;  // That train together: of --backend cuda.
  bool deterministic = false;
  bool record_times = false;                   // When each task runs, for a trace.
  bool quick_weights = false;                  // To be timed only (exec/runtime/quick_weights.h).
  std::int64_t gpu_memory_capacity_bytes = 0;  // 0: what the GPU has.
  int threads = 0;                             // 0: one a core.
  std::optional<std::uint64_t> shuffle_seed;
  bool poison = false;

  std::string checkpoint_folder;  // Empty: none.
  std::int64_t checkpoint_every = 0;
  int checkpoint_keep = 2;
  std::string resume;  // Empty: from the beginning.
};

// Reads model and plan, applies flags and --set, resolves the plan. An Error names the option or
// the file, line and field; an infeasible plan is one of kNo.
Result<TrainInput> ReadTrainInput(const Options& options);

// What besides model and seed decides the numbers of a training, by option: recorded in
// checkpoints, so that a resumed run can say what differs.
std::map<std::string, std::string> SettingsOf(const TrainInput& input,
                                              const std::string& data_checksum);

}  // namespace twinstep
