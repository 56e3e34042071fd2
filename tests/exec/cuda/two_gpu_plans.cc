#include "tests/exec/cuda/two_gpu_plans.h"

namespace twinstep {

std::vector<PlanCase> TwoGpuPlans() {
  std::vector<PlanCase> cases{
      {"tensor", [](Plan& plan) { plan.set_tensor_parallel(2); }},
      {"tensor, no sequence parallelism",
       [](Plan& plan) {
         plan.set_tensor_parallel(2);
         plan.set_sequence_parallel(false);
       }},
      {"tensor, chunked overlap",
       [](Plan& plan) {
         plan.set_tensor_parallel(2);
         plan.set_tensor_parallel_overlap(TP_OVERLAP_CHUNKED);
       }},
      {"context", [](Plan& plan) { plan.set_context_parallel(2); }},
      {"pipeline", [](Plan& plan) { plan.set_pipeline_parallel(2); }},
      {"interleaved, offload",
       [](Plan& plan) {
         plan.set_pipeline_parallel(2);
         plan.set_virtual_stages(2);
         plan.set_offload_ratio(0.6);
       }},
      {"interleaved, all offloaded, full recompute",
       [](Plan& plan) {
         plan.set_pipeline_parallel(2);
         plan.set_virtual_stages(2);
         plan.set_offload_ratio(1);
         plan.set_recompute(RECOMPUTE_FULL);
       }},
      {"data, chunks that stream, Adam on the host",
       [](Plan& plan) {
         plan.set_data_parallel(2);
         plan.set_persistent_chunks(1);
         plan.set_chunk_buffers(3);
       }},
  };
  for (const int zero : {0, 1, 2, 3}) {
    for (const bool overlap : {false, true}) {
      cases.push_back({"data, ZeRO " + std::to_string(zero) + (overlap ? ", overlapped" : ""),
                       [zero, overlap](Plan& plan) {
                         plan.set_data_parallel(2);
                         plan.set_zero_stage(zero);
                         plan.set_data_parallel_overlap(overlap);
                       }});
    }
  }
  return cases;
}

Plan PlanOf(const PlanCase& test_case, Plan plan, std::int64_t block_bytes) {
  test_case.edit(plan);
  if (plan.has_persistent_chunks()) plan.set_chunk_bytes(block_bytes);
  return plan;
}

std::vector<bool> LateLanesOf(const Plan& plan) {
  const bool copies = plan.offload_ratio() > 0 || plan.has_persistent_chunks();
  return copies ? std::vector<bool>{false, true} : std::vector<bool>{false};
}

}  // namespace twinstep
