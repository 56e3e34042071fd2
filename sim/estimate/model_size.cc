#include "sim/estimate/model_size.h"

namespace twinstep {
namespace {

constexpr std::int64_t kFp32Bytes = 4;
constexpr std::int64_t kFp64Bytes = 8;

}  // namespace

std::int64_t KvHeads(const Model& model) {
  return model.kv_heads() > 0 ? model.kv_heads() : model.attention_heads();
}

std::int64_t HeadDim(const Model& model) {
  return model.head_dim() > 0 ? model.head_dim() : model.hidden_size() / model.attention_heads();
}

std::int64_t AttentionWidth(const Model& model) { return model.attention_heads() * HeadDim(model); }

std::int64_t LayerParameters(const Model& model) {
  const std::int64_t h = model.hidden_size();
  const std::int64_t query_and_out = 2 * h * AttentionWidth(model);
  const std::int64_t key_and_value = 2 * h * KvHeads(model) * HeadDim(model);
  const std::int64_t mlp_matrices = model.family() == LLAMA ? 3 : 2;
  return query_and_out + key_and_value + mlp_matrices * h * model.ffn_hidden_size();
}

std::int64_t TotalParameters(const Model& model) {
  const std::int64_t vocabularies = model.tied_embeddings() ? 1 : 2;
  return model.layers() * LayerParameters(model) +
         vocabularies * model.vocab_size() * model.hidden_size();
}

std::int64_t ElementBytes(const Recipe& recipe) {
  switch (recipe.precision()) {
    case FP32:
      return kFp32Bytes;
    case FP64:
      return kFp64Bytes;
    default:
      return 2;  // bf16 or fp16.
  }
}

std::int64_t WeightBytes(const Recipe& recipe) { return ElementBytes(recipe); }

std::int64_t GradientBytes(const Recipe& recipe) {
  const bool as_parameter =
      recipe.gradient_precision() == PARAMETER_GRADIENT || recipe.precision() == FP64;
  return as_parameter ? ElementBytes(recipe) : kFp32Bytes;
}

std::int64_t OptimizerBytes(const Recipe& recipe) {
  switch (recipe.precision()) {
    case FP32:
      return 2 * kFp32Bytes;  // Two moments; the weight is the master copy.
    case FP64:
      return 2 * kFp64Bytes;
    default:
      return 3 * kFp32Bytes;
  }
}

}  // namespace twinstep
