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

// Model states in chunks (ProTrain).
struct ChunkPlan {
  bool enabled = false;
  std::int64_t persistent = 0;   // n_persist
  std::int64_t buffers = 3;      // n_buffer, where that many chunks stream
  std::int64_t chunk_bytes = 0;  // 0 = by search
  bool host_optimizer_overlap = true;
  bool operator==(const ChunkPlan&) const = default;
};

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
  ChunkPlan chunks;
  std::vector<BlockActivations> blocks;  // By layer; empty where every block is kept.

  // What the plan asks for and does not get, because it changes nothing: one sentence each.
  std::vector<std::string> warnings;
};

struct PlanRules {
  // `--rules kuaishou`: the limits of the paper's own search (Yuan et al., ATC 2024).
  bool kuaishou = false;
};

// Writes out defaults and checks every validity rule. `gpus` is t c p d. Defaults: sizes 1, d from
// the GPUs, sequence length the model's longest, the others as plan.proto says; only the global
// batch has none.
//
//   Result<ResolvedPlan> plan = ResolvePlan(model, cluster, plan_file, 256, {.kuaishou = true});
//   if (!plan.ok()) return plan.error();  // .rule == "batch-divides", ...
//
// An impossible plan is an Error with ExitCode::kNo, a sentence with the numbers and a stable
// `rule`, checked in this order:
//   gpus-available                more GPUs than the cluster has
//   gpus-divide                   t c p does not divide the GPUs, or t c p d is another number
//   layers-divide                 p v does not divide L, or p v l is another number
//   virtual-stages-need-pipeline  v > 1 with p = 1
//   schedule-stages               v > 1 without interleaving, or interleaving with v = 1
//   batch-divides                 b d does not divide B
//   microbatches-interleaved      v > 1 and m is no multiple of p
//   heads-divide, kv-heads-divide, ffn-divide    t does not divide them
//   sequence-divides              c > 1 and 2 c does not divide s; or sequence parallelism (or
//                                 tensor-parallel overlap) and t does not divide s / c
//   sequence-positions            s is more than the learned positions of the GPT family
//   blocks-stages                 p v does not divide the swapped or the checkpointed blocks
//   blocks-count                  a stage would swap and checkpoint more blocks than it has
//   swap-interval                 a stage has too few blocks to swap one every interval
//   swap-offload                  swapped blocks beside an offload ratio
//   blocks-offload                an offload ratio with blocks that differ from stage to stage
// and with rules.kuaishou:
//   kuaishou-pipeline             interleaved or offloading with p < 3
//   kuaishou-tensor-in-node       a tensor-parallel group spans nodes
//   kuaishou-context-in-node      so does a context-parallel group, without grouped queries
//   kuaishou-recompute            recompute is not none, balanced or full
// A value outside its range is an Error with ExitCode::kBadInput and rule "plan-value" (or
// "model-value", "cluster-value" for sizes that ValidateModel and ValidateCluster reject).
Result<ResolvedPlan> ResolvePlan(const Model& model, const Cluster& cluster, const Plan& plan,
                                 std::int64_t gpus, const PlanRules& rules = {});

}  // namespace twinstep
