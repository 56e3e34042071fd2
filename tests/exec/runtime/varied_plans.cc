#include "tests/exec/runtime/varied_plans.h"

#include <gtest/gtest.h>

#include "tests/exec/runtime/small_models.h"

namespace twinstep {

std::vector<NamedPlan> VariedPlans() {
  std::vector<NamedPlan> plans;
  plans.push_back({"plain", "llama-gqa", SmallPlan(1, 1, 1, 1)});
  plans.push_back({"all", "gpt", SmallPlan(2, 2, 2, 2)});
  Plan offload = SmallPlan(1, 1, 4, 2);
  offload.set_offload_ratio(0.6);
  offload.set_zero_stage(3);
  plans.push_back({"offload zero3", "llama-tied", offload});
  Plan chunked = SmallPlan(2, 1, 2, 1);
  chunked.set_tensor_parallel_overlap(TP_OVERLAP_CHUNKED);
  chunked.set_virtual_stages(2);
  chunked.set_recompute(RECOMPUTE_BALANCED);
  chunked.set_offload_ratio(1.0);
  plans.push_back({"chunked interleaved offload", "llama", chunked});
  Plan zero2 = SmallPlan(1, 2, 1, 2);
  zero2.set_zero_stage(2);
  zero2.set_data_parallel_overlap(true);
  plans.push_back({"zero2 overlap", "gpt-untied", zero2});
  // Chunks of one block of fp32 parameters, gradients in their place; all on two ranks.
  constexpr std::int64_t kChunkBytes = 36 << 10;
  Plan chunks = SmallPlan(1, 1, 1, 2);
  chunks.set_micro_batch(4);
  chunks.set_persistent_chunks(1);
  chunks.set_chunk_bytes(kChunkBytes);
  for (const BlockActivations choice : {BLOCK_SWAP, BLOCK_CHECKPOINT, BLOCK_SWAP, BLOCK_KEEP}) {
    chunks.add_blocks(choice);
  }
  plans.push_back({"chunks", "llama-gqa", chunks});
  Plan staged = SmallPlan(2, 1, 2, 2);
  staged.set_persistent_chunks(0);
  staged.set_chunk_buffers(3);
  staged.set_chunk_bytes(kChunkBytes / 2);
  staged.set_swapped_blocks(2);
  plans.push_back({"chunks in stages", "gpt", staged});
  return plans;
}

std::uint64_t HashAfter(const NamedPlan& plan, RunOptions options, int steps) {
  options.mixing = true;
  TrainingRun run(SmallModel(plan.model, FP32), plan.plan, options);
  const Status done = run.Train(steps);
  EXPECT_TRUE(done.ok()) << plan.name << ": " << (done.ok() ? "" : done.error().message);
  return done.ok() ? run.HashOfStates() : 0;
}

}  // namespace twinstep
