// Chunk plans of real sizes compute what the plain plan computes: 10 to 70 billion parameters on 1
// to 4 GPUs, and combined with every kind of parallelism on 64.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>

#include "hw_specs/find_cluster.h"
#include "model_zoo/find_model.h"
#include "sim/graph/symbolic.h"
#include "sim/graph/verifier.h"
#include "sim/lower/lower.h"
#include "sim/plan/resolved_plan.h"

namespace twinstep {
namespace {

std::string Prove(const std::string& model_name, const Plan& plan, std::int64_t gpus) {
  const Model model = FindModel(model_name).value();
  const Cluster cluster = FindCluster("h800").value();
  const Result<ResolvedPlan> resolved = ResolvePlan(model, cluster, plan, gpus);
  if (!resolved.ok()) return resolved.error().message;
  Plan plain;
  plain.set_sequence_length(plan.sequence_length());
  plain.set_global_batch(plan.global_batch());
  plain.set_micro_batch(plan.micro_batch());
  const Result<ResolvedPlan> plain_plan = ResolvePlan(model, cluster, plain, 1);
  if (!plain_plan.ok()) return plain_plan.error().message;
  const Result<TaskGraph> graph = Lower(model, cluster, resolved.value(), {.fold = false});
  if (!graph.ok()) return graph.error().message;
  const Result<TaskGraph> plain_graph = Lower(model, cluster, plain_plan.value(), {.fold = false});
  if (!plain_graph.ok()) return plain_graph.error().message;
  if (const auto violation = Verify(graph.value())) return violation->message;
  const Status proof = ProveEqual(graph.value(), plain_graph.value());
  return proof.ok() ? "equal" : proof.error().message;
}

Plan Sized(std::int64_t batch, std::int64_t micro_batch, std::int64_t persist,
           std::int64_t buffers) {
  Plan plan;
  plan.set_sequence_length(1024);
  plan.set_global_batch(batch);
  plan.set_micro_batch(micro_batch);
  plan.set_persistent_chunks(persist);
  plan.set_chunk_buffers(buffers);
  return plan;
}

TEST(ChunkProofTest, TenToSeventyBillionOnOneToFourGpus) {
  for (const char* model : {"gpt2-10b", "llama-13b", "llama-34b", "gpt2-40b", "llama2-70b"}) {
    for (const std::int64_t gpus : {1, 2, 4}) {
      Plan plan = Sized(2 * gpus, 2, gpus - 1, 4);
      plan.set_swapped_blocks(2);
      plan.set_checkpointed_blocks(10);
      EXPECT_EQ(Prove(model, plan, gpus), "equal") << model << " on " << gpus;
      EXPECT_EQ(Prove(model, Sized(2 * gpus, 1, 2, 3), gpus), "equal") << model << " on " << gpus;
    }
  }
}

TEST(ChunkProofTest, CombinedOnSixtyFourGpus) {
  const auto combined = [](const std::function<void(Plan&)>& edit) {
    Plan plan = Sized(16, 1, 2, 4);
    plan.set_tensor_parallel(4);
    plan.set_pipeline_parallel(4);
    plan.set_virtual_stages(2);
    edit(plan);
    return plan;
  };
  EXPECT_EQ(Prove("gpt2-10b", combined([](Plan& plan) { plan.set_virtual_stages(3); }), 64),
            "equal");
  EXPECT_EQ(Prove("llama2-70b", combined([](Plan& plan) {
                    plan.set_context_parallel(2);
                    plan.set_swapped_blocks(8);
                    plan.set_checkpointed_blocks(24);
                  }),
                  64),
            "equal");
  EXPECT_EQ(Prove("gpt2-40b", combined([](Plan& plan) {
                    plan.set_virtual_stages(1);
                    plan.set_pipeline_parallel(2);
                    plan.set_offload_ratio(0.5);
                    plan.set_recompute(RECOMPUTE_BALANCED);
                  }),
                  64),
            "equal");
}

}  // namespace
}  // namespace twinstep
