#include "sim/lower/local_shapes.h"

namespace twinstep {

std::int64_t PaddedVocabulary(const Model& model, std::int64_t tensor_parallel) {
  const std::int64_t multiple =
      (model.vocab_padding_multiple() == 0 ? 128 : model.vocab_padding_multiple()) *
      tensor_parallel;
  return (model.vocab_size() + multiple - 1) / multiple * multiple;
}

LocalShapes MakeLocalShapes(const Model& model, const ResolvedPlan& plan) {
  LocalShapes s;
  const bool llama = model.family() == LLAMA;
  const std::int64_t heads = model.attention_heads();
  s.hidden = model.hidden_size();
  s.heads = heads / plan.t;
  s.kv_heads = (model.kv_heads() == 0 ? heads : model.kv_heads()) / plan.t;
  s.head_dim = model.head_dim() == 0 ? model.hidden_size() / heads : model.head_dim();
  s.ffn = model.ffn_hidden_size() / plan.t;
  s.vocab = PaddedVocabulary(model, plan.t) / plan.t;
  s.unpadded_vocab = model.vocab_size();
  s.positions = llama ? 0 : model.max_sequence_length();
  s.full_sequence = plan.sequence_length;
  s.sequence = plan.sequence_length / plan.c;
  s.tokens = plan.b * s.sequence;
  s.shard_tokens = plan.sequence_parallel ? s.tokens / plan.t : s.tokens;
  switch (model.recipe().precision()) {
    case FP16:
      s.dtype = Dtype::kFp16;
      break;
    case FP32:
      s.dtype = Dtype::kFp32;
      break;
    case FP64:
      s.dtype = Dtype::kFp64;
      break;
    default:
      s.dtype = Dtype::kBf16;
  }
  s.master_is_parameter = s.dtype == Dtype::kFp32 || s.dtype == Dtype::kFp64;
  s.state_dtype = s.dtype == Dtype::kFp64 ? Dtype::kFp64 : Dtype::kFp32;
  s.statistics_dtype = s.state_dtype;
  s.gradient_dtype =
      model.recipe().gradient_precision() == PARAMETER_GRADIENT ? s.dtype : s.state_dtype;
  const Activation activation = model.activation();
  s.gated = activation == SWIGLU || (activation == ACTIVATION_DEFAULT && llama);
  s.relu = activation == RELU;
  s.bias = !llama;
  s.partial_row_bias = s.bias && plan.sequence_parallel && plan.tp_overlap == TP_OVERLAP_CHUNKED;
  s.rms_norm = llama;
  return s;
}

}  // namespace twinstep
