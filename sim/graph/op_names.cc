#include <array>

#include "sim/graph/op.h"

namespace twinstep {

const char* Name(OpCode op) {
  static constexpr std::array<const char*, kOpCodeCount> kNames = {
      "gemm_forward",
      "gemm_dgrad",
      "gemm_wgrad",
      "norm_forward",
      "norm_backward",
      "split_qkv",
      "split_qkv_backward",
      "attention_forward",
      "attention_backward",
      "attention_scores",
      "softmax_forward",
      "attention_context",
      "attention_context_backward",
      "softmax_backward",
      "attention_scores_backward",
      "activation_forward",
      "activation_backward",
      "silu_forward",
      "silu_backward",
      "mul_forward",
      "mul_backward",
      "add",
      "dropout_add",
      "dropout_forward",
      "dropout_backward",
      "copy_on_device",
      "embedding_forward",
      "embedding_backward",
      "cross_entropy_stats",
      "cross_entropy_loss",
      "cross_entropy_backward",
      "adam",
      "grad_norm",
      "clip_coefficient",
      "accumulate",
      "copy_h2d",
      "copy_d2h",
      "send",
      "recv",
      "all_reduce",
      "all_gather",
      "reduce_scatter",
      "ring_shift",
  };
  const auto index = static_cast<std::size_t>(op);
  return index < kNames.size() ? kNames[index] : "invalid";
}

std::size_t OpShapeHash::operator()(const OpShape& shape) const {
  // Multiply-xorshift over the fields; shapes are few, so quality beats speed.
  std::uint64_t hash = 0x9e3779b97f4a7c15u;
  const auto mix = [&hash](std::uint64_t value) {
    hash = (hash ^ value) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
  };
  mix(static_cast<std::uint64_t>(shape.op) | static_cast<std::uint64_t>(shape.dtype) << 8 |
      static_cast<std::uint64_t>(shape.flags) << 16 |
      static_cast<std::uint64_t>(shape.index) << 32 |
      static_cast<std::uint64_t>(shape.count) << 48);
  for (const std::int64_t dim : shape.dims) mix(static_cast<std::uint64_t>(dim));
  return hash;
}

}  // namespace twinstep
