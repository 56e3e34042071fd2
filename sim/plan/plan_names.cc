#include "sim/plan/plan_names.h"

namespace twinstep {

const std::vector<Choice<Schedule>>& Choices(Schedule) {
  static const std::vector<Choice<Schedule>> kChoices = {
      {"gpipe", GPIPE}, {"1f1b", ONE_F_ONE_B}, {"interleaved", INTERLEAVED_1F1B}};
  return kChoices;
}

const std::vector<Choice<TensorParallelOverlap>>& Choices(TensorParallelOverlap) {
  static const std::vector<Choice<TensorParallelOverlap>> kChoices = {
      {"none", TP_OVERLAP_NONE}, {"chunked", TP_OVERLAP_CHUNKED}};
  return kChoices;
}

const std::vector<Choice<Recompute>>& Choices(Recompute) {
  static const std::vector<Choice<Recompute>> kChoices = {{"none", RECOMPUTE_NONE},
                                                          {"selective", RECOMPUTE_SELECTIVE},
                                                          {"balanced", RECOMPUTE_BALANCED},
                                                          {"full", RECOMPUTE_FULL},
                                                          {"custom", RECOMPUTE_CUSTOM}};
  return kChoices;
}

const std::vector<Choice<AttentionKernel>>& Choices(AttentionKernel) {
  static const std::vector<Choice<AttentionKernel>> kChoices = {{"flash", ATTENTION_FLASH},
                                                                {"unfused", ATTENTION_UNFUSED}};
  return kChoices;
}

const std::vector<Choice<BlockActivations>>& Choices(BlockActivations) {
  static const std::vector<Choice<BlockActivations>> kChoices = {
      {"keep", BLOCK_KEEP}, {"checkpoint", BLOCK_CHECKPOINT}, {"swap", BLOCK_SWAP}};
  return kChoices;
}

}  // namespace twinstep
