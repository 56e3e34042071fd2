// A plan with every default written out, checked against a model and a cluster.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hw_specs/cluster.pb.h"
#include "model_zoo/model.pb.h"
#include "sim/plan/plan.pb.h"
#include "sim/result.h"

namespace twinstep {

struct ResolvedPlan {
  std::int64_t gpus = 1;
  std::int64_t t = 1, c = 1, p = 1, d = 1;  // tensor, context, pipeline, data parallel sizes
  std::int64_t v = 1, l = 1;                // stages a device, layers a stage; L = p v l
  std::int64_t m = 1;                       // micro-batches a pipeline, B / (b d)
  std::int64_t b = 1;                       // sequences a micro-batch
  std::int64_t global_batch = 1;            // B
  std::int64_t sequence_length = 0;         // s
  std::string rank_order = "tp-cp-dp-pp";   // innermost first
  Schedule schedule = ONE_F_ONE_B;
  bool sequence_parallel = false;
  TensorParallelOverlap tp_overlap = TP_OVERLAP_NONE;
  bool dp_overlap = false;
  int zero_stage = 1;
  Recompute recompute = RECOMPUTE_NONE;
  std::vector<std::string> stored_tensors;  // RECOMPUTE_CUSTOM only.
  AttentionKernel attention = ATTENTION_FLASH;
  double offload_ratio = 0;
};

struct PlanRules {
  bool kuaishou = false;  // `--rules kuaishou`: p >= 3 and m mod p = 0 when interleaved.
};

// Writes out defaults and checks every validity rule. `gpus` is t c p d. An impossible plan is an
// Error with ExitCode::kNo and a stable `rule`: "gpus-divide" (t c p does not divide the GPUs),
// "batch-divides" (b d does not divide B), "layers-divide" (p v does not divide L),
// "microbatches-interleaved" (m mod p != 0 with v > 1), "heads-divide", "kv-heads-divide",
// "sequence-divides" (2 c and t do not divide s), "gpus-available", "virtual-stages-need-pipeline"
// ..., and a sentence with the numbers.
Result<ResolvedPlan> ResolvePlan(const Model& model, const Cluster& cluster, const Plan& plan,
                                 std::int64_t gpus, const PlanRules& rules = {});

}  // namespace twinstep
