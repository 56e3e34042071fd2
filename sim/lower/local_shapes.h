// Sizes of one rank's piece of a model under a plan.
#pragma once

#include <cstdint>

#include "model_zoo/model.pb.h"
#include "sim/graph/ids.h"
#include "sim/plan/resolved_plan.h"

namespace twinstep {

struct LocalShapes {
  std::int64_t hidden = 0;
  std::int64_t heads = 0, kv_heads = 0;  // Of this tensor-parallel rank.
  std::int64_t head_dim = 0;
  std::int64_t ffn = 0;           // Of this tensor-parallel rank.
  std::int64_t vocab = 0;         // Padded, of this tensor-parallel rank.
  std::int64_t positions = 0;     // Learned position table; 0 = rotary.
  std::int64_t tokens = 0;        // b s / c
  std::int64_t shard_tokens = 0;  // tokens / t with sequence parallelism, else tokens.
  std::int64_t sequence = 0;      // s / c
  std::int64_t full_sequence = 0;
  Dtype dtype = Dtype::kBf16;  // Parameters and activations.
  Dtype gradient_dtype = Dtype::kFp32;
  Dtype state_dtype = Dtype::kFp32;  // Master weights and moments.
  Dtype statistics_dtype = Dtype::kFp32;
  std::int64_t unpadded_vocab = 0;   // Over all tensor-parallel ranks.
  bool master_is_parameter = false;  // fp32 and fp64 recipes.
  bool gated = false;                // SwiGLU.
  bool relu = false;
  bool bias = false;
  // Biases of row-parallel layers get the gradient of this rank's part of the sequence only.
  bool partial_row_bias = false;
  bool rms_norm = false;
};

LocalShapes MakeLocalShapes(const Model& model, const ResolvedPlan& plan);

// Vocabulary rows after padding, over all tensor-parallel ranks.
std::int64_t PaddedVocabulary(const Model& model, std::int64_t tensor_parallel);

}  // namespace twinstep
