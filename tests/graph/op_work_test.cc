// Flops() and MemoryBytes() against hand-made sums and the literature's formulas.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "sim/graph/op.h"

namespace twinstep {
namespace {

OpShape Shape(OpCode op, std::array<std::int64_t, 6> dims, std::uint16_t flags = 0,
              std::uint16_t count = 1) {
  return {.op = op, .flags = flags, .count = count, .dims = dims};
}

// One Llama layer's matrix products: h, ffn, heads, kv heads and head size as model_zoo says.
struct Layer {
  std::int64_t h, ffn, heads, kv_heads, head_dim;

  std::int64_t Weights() const {
    return h * (heads + 2 * kv_heads) * head_dim + heads * head_dim * h + 3 * h * ffn;
  }
  double GemmFlops(OpCode op, std::int64_t n) const {
    return Flops(Shape(op, {n, (heads + 2 * kv_heads) * head_dim, h})) +
           Flops(Shape(op, {n, h, heads * head_dim})) + Flops(Shape(op, {n, 2 * ffn, h})) +
           Flops(Shape(op, {n, h, ffn}));
  }
};

TEST(FlopsTest, LlamaLayerIsSixFlopsPerWeightAndTokenPlusCausalAttention) {
  constexpr std::int64_t kSequence = 8192, kBatch = 2, kTokens = kBatch * kSequence;
  for (const Layer& layer : {Layer{8192, 22016, 64, 64, 128}, Layer{8192, 28672, 64, 8, 128}}) {
    const double gemms = layer.GemmFlops(OpCode::kGemmForward, kTokens) +
                         layer.GemmFlops(OpCode::kGemmDgrad, kTokens) +
                         layer.GemmFlops(OpCode::kGemmWgrad, kTokens);
    EXPECT_EQ(gemms, 6.0 * static_cast<double>(layer.Weights()) * kTokens);

    // Model FLOPs count attention's backward as two forwards: 6 h s a token in all (Yuan et al.,
    // ATC 2024); flash attention's backward also recomputes the scores: 7 h s.
    const std::array<std::int64_t, 6> dims = {kBatch,    layer.heads, layer.kv_heads,
                                              kSequence, kSequence,   layer.head_dim};
    const double forward = Flops(Shape(OpCode::kAttentionForward, dims));
    const double backward = Flops(Shape(OpCode::kAttentionBackward, dims));
    const double h_s_tokens = static_cast<double>(layer.h * kSequence) * kTokens;
    EXPECT_EQ(3 * forward, 6 * h_s_tokens);
    EXPECT_EQ(forward + backward, 7 * h_s_tokens);
  }
}

TEST(FlopsTest, LlamaLayerWeightsAreThePublishedOnes) {
  EXPECT_EQ((Layer{8192, 22016, 64, 64, 128}.Weights()), 809'500'672);
  EXPECT_EQ((Layer{8192, 28672, 64, 8, 128}.Weights()), 855'638'016);
}

TEST(FlopsTest, MegatronFormula) {
  // 72 B s l h^2 (1 + s / (6 h) + V / (12 l h)) without recomputation: unfused attention, full
  // square, GPT layer of 12 h^2 weights (hw_specs/SOURCES.md M8.6).
  constexpr std::int64_t b = 4, s = 2048, h = 6144, heads = 48, d = h / heads, v = 51200, l = 3;
  constexpr std::int64_t n = b * s;
  double sum = 0;
  for (const OpCode op : {OpCode::kGemmForward, OpCode::kGemmDgrad, OpCode::kGemmWgrad}) {
    sum += l * (Flops(Shape(op, {n, 3 * h, h})) + Flops(Shape(op, {n, h, h})) +
                Flops(Shape(op, {n, 4 * h, h})) + Flops(Shape(op, {n, h, 4 * h})));
    sum += Flops(Shape(op, {n, v, h}));
  }
  for (const OpCode op : {OpCode::kAttentionScores, OpCode::kAttentionContext,
                          OpCode::kAttentionScoresBackward, OpCode::kAttentionContextBackward}) {
    sum += l * Flops(Shape(op, {b, heads, heads, s, s, d}));
  }
  const double hd = h, sd = s;
  const double formula = 72.0 * b * sd * l * hd * hd * (1 + sd / (6 * hd) + v / (12 * l * hd));
  EXPECT_NEAR(sum / formula, 1, 1e-12);
}

TEST(FlopsTest, ContextParallelRanksShareAttentionEvenly) {
  const double whole = Flops(Shape(OpCode::kAttentionForward, {1, 8, 8, 4096, 4096, 128}));
  const double quarter = Flops(Shape(OpCode::kAttentionForward, {1, 8, 8, 1024, 4096, 128}));
  EXPECT_EQ(4 * quarter, whole);
}

TEST(FlopsTest, OnlyMatrixProductsCount) {
  EXPECT_EQ(Flops(Shape(OpCode::kNormForward, {128, 64})), 0);
  EXPECT_EQ(Flops(Shape(OpCode::kAllReduce, {1 << 20})), 0);
  EXPECT_EQ(Flops(Shape(OpCode::kCopyH2D, {1 << 20})), 0);
}

struct MemoryCase {
  OpShape shape;
  double bytes;
};

TEST(MemoryBytesTest, HandMadeSums) {
  // n = 10, f = 7: 70 elements of two bytes; attention b 2, heads 4, kv 1, s_q 3, s_kv 6, d 5.
  const std::array<std::int64_t, 6> attention = {2, 4, 1, 3, 6, 5};
  const double q = 2 * 4 * 3 * 5, own_k = 2 * 1 * 3 * 5, k = 2 * 1 * 6 * 5, scores = 2 * 4 * 3 * 6;
  const double lse = 4 * 2 * 4 * 3;
  const MemoryCase cases[] = {
      {Shape(OpCode::kGemmForward, {10, 7, 3}), 2 * (30 + 21 + 70)},
      {Shape(OpCode::kGemmForward, {10, 7, 3}, kHasBias), 2 * (30 + 21 + 70 + 7)},
      {Shape(OpCode::kGemmDgrad, {10, 7, 3}), 2 * (30 + 21 + 70)},
      {Shape(OpCode::kGemmWgrad, {10, 7, 3}), 2 * (30 + 21 + 70)},
      {Shape(OpCode::kGemmWgrad, {10, 7, 3}, kHasBias | kAccumulateGradient),
       2 * (30 + 70 + 2 * (21 + 7))},
      {Shape(OpCode::kNormForward, {10, 7}, kRmsNorm), 2 * (140 + 7)},
      {Shape(OpCode::kNormForward, {10, 7}), 2 * (140 + 14)},
      {Shape(OpCode::kNormBackward, {10, 7}, kRmsNorm | kHasResidual), 2 * (280 + 7 + 7)},
      {Shape(OpCode::kNormBackward, {10, 7}, kAccumulateGradient), 2 * (210 + 7 + 28)},
      {Shape(OpCode::kSplitQkv, attention), 2 * 2 * (q + 2 * own_k)},
      {Shape(OpCode::kSplitQkvBackward, attention), 2 * 2 * (q + 2 * own_k)},
      {Shape(OpCode::kAttentionForward, attention), 2 * (2 * q + 2 * k) + lse},
      {Shape(OpCode::kAttentionBackward, attention), 2 * (4 * q + 4 * k) + lse},
      {Shape(OpCode::kAttentionBackward, attention, kHasWorkspace),
       2 * (4 * q + 4 * k) + lse + 8 * q},
      {Shape(OpCode::kAttentionScores, attention), 2 * (q + k + scores)},
      {Shape(OpCode::kSoftmaxForward, attention), 2 * 2 * scores},
      {Shape(OpCode::kAttentionContext, attention), 2 * (q + k + scores)},
      {Shape(OpCode::kAttentionContextBackward, attention), 2 * (q + 2 * scores + 2 * k)},
      {Shape(OpCode::kSoftmaxBackward, attention), 2 * 3 * scores},
      {Shape(OpCode::kAttentionScoresBackward, attention), 2 * (scores + 2 * q + 2 * k)},
      {Shape(OpCode::kActivationForward, {10, 7}), 2 * 140},
      {Shape(OpCode::kActivationBackward, {10, 7}), 2 * 210},
      {Shape(OpCode::kSiluForward, {10, 7}), 2 * 140},
      {Shape(OpCode::kSiluBackward, {10, 7}), 2 * 210},
      {Shape(OpCode::kMulForward, {10, 7}), 2 * 210},
      {Shape(OpCode::kMulBackward, {10, 7}), 2 * 350},
      {Shape(OpCode::kAdd, {10, 7}, kHasBias), 2 * (210 + 7)},
      {Shape(OpCode::kDropoutAdd, {10, 7}), 2 * 210 + 70},
      {Shape(OpCode::kDropoutForward, {10, 7}), 2 * 140 + 70},
      {Shape(OpCode::kDropoutBackward, {10, 7}), 2 * 140 + 70},
      {Shape(OpCode::kCopyOnDevice, {100}), 200},
      {Shape(OpCode::kEmbeddingForward, {10, 7, 50, 1, 0, 1}), 40 + 2 * 140},
      {Shape(OpCode::kEmbeddingForward, {10, 7, 50, 1, 0, 1}, kHasPositions), 40 + 2 * 210},
      {Shape(OpCode::kEmbeddingForward, {10, 7, 25, 1, 0, 1}, 0, 2), 40 + 2 * 105},
      {Shape(OpCode::kEmbeddingBackward, {10, 7, 50, 1, 0, 1}), 40 + 2 * (70 + 350)},
      {Shape(OpCode::kEmbeddingBackward, {10, 7, 50, 1, 0, 1}, kAccumulateGradient), 40 + 2 * 210},
      {Shape(OpCode::kCrossEntropyStats, {10, 7}), 2 * 70 + 160},
      {Shape(OpCode::kCrossEntropyLoss, {10, 7}, 0, 4), 14 * 40 + 8},
      {Shape(OpCode::kCrossEntropyBackward, {10, 7}), 2 * 140 + 120},
      {Shape(OpCode::kAdam, {100}), 2800},
      {OpShape{
           .op = OpCode::kAdam, .dtype = Dtype::kFp32, .flags = kMasterIsParameter, .dims = {100}},
       2800},
      {Shape(OpCode::kGradNorm, {100, 0, 100}, 0, 4), 50},
      {Shape(OpCode::kClipCoefficient, {}), 40},
      {Shape(OpCode::kAccumulate, {100}), 600},
      {Shape(OpCode::kCopyH2D, {100}), 100},
      {Shape(OpCode::kCopyD2H, {100}), 100},
      {Shape(OpCode::kSend, {100}), 100},
      {Shape(OpCode::kRecv, {100}), 100},
      {Shape(OpCode::kAllReduce, {100}), 200},
      {Shape(OpCode::kAllGather, {100}), 100},
      {Shape(OpCode::kReduceScatter, {100}), 100},
      {Shape(OpCode::kRingShift, {100}), 200},
  };
  std::set<OpCode> seen;
  for (const MemoryCase& c : cases) {
    EXPECT_EQ(MemoryBytes(c.shape), c.bytes) << Name(c.shape.op) << " flags " << c.shape.flags;
    seen.insert(c.shape.op);
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(kOpCodeCount));  // None was forgotten.
}

}  // namespace
}  // namespace twinstep
