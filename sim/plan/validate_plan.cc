#include "sim/plan/validate_plan.h"

#include "sim/plan/plan_limits.h"
#include "sim/textproto/field_rules.h"

namespace twinstep {

Status ValidatePlan(const Plan& plan, const TextSource& source) {
  FieldErrors errors(plan, source);
  errors.CheckEveryNumber();
  for (const char* field :
       {"tensor_parallel", "context_parallel", "pipeline_parallel", "data_parallel",
        "virtual_stages", "layers_per_stage", "persistent_chunks", "chunk_buffers",
        "swapped_blocks", "checkpointed_blocks", "swap_interval"}) {
    errors.CheckZeroOrRange(field, 1, kMaxPlanSize);
  }
  errors.CheckZeroOrRange("micro_batch", 1, kMaxPlanBatch);
  errors.CheckZeroOrRange("global_batch", 1, kMaxPlanBatch);
  errors.CheckZeroOrRange("sequence_length", 1, kMaxPlanSequence);
  errors.CheckZeroOrRange("chunk_bytes", 1, kMaxPlanChunkBytes);
  errors.CheckRange("zero_stage", 0, 3);
  errors.CheckRange("offload_ratio", 0, 1);
  return errors.status();
}

}  // namespace twinstep
