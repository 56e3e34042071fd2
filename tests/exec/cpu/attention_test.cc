// Flash and unfused attention, rotary positions: against plain loops, finite differences, and
// heads and sequences split over ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "tests/exec/cpu/kernel_tester.h"

namespace twinstep {
namespace {

struct Attention {
  std::int64_t samples = 2, heads = 4, kv_heads = 2, sequence = 12, head_dim = 5;
  std::int64_t cp = 0, ranks = 1;
  std::int64_t tp = 0;
  bool drops = false;

  std::int64_t queries() const { return sequence / ranks; }
  std::int64_t q_width() const { return heads * head_dim; }
  std::int64_t kv_width() const { return 2 * kv_heads * head_dim; }
  std::int64_t q_size() const { return samples * queries() * q_width(); }
  std::int64_t kv_size() const { return samples * sequence * kv_width(); }
  std::int64_t rows() const { return samples * heads * queries(); }

  Op MakeOp(OpCode code, unsigned flags = 0) const {
    Op op{.shape =
              MakeShape(code, {samples, heads, kv_heads, queries(), sequence, head_dim}, flags)};
    op.shape.index = static_cast<std::uint16_t>(cp);
    op.shape.count = static_cast<std::uint16_t>(ranks);
    return Place(op);
  }
  Op MaskOp(OpCode code) const {
    Op op{.shape = MakeShape(code, {rows(), sequence})};
    op.shape.index = static_cast<std::uint16_t>(DropoutSite::kAttentionProbabilities);
    return Place(op);
  }
  Op Place(Op op) const {
    op.step = {.step = 3, .attention_dropout = drops ? 0.3 : 0, .seed = 11};
    op.place = {.tp = tp,
                .cp = cp,
                .context_parallel = ranks,
                .micro_batch_size = samples,
                .sequence_length = sequence,
                .first_sample = 6,
                .block = 2};
    return op;
  }
  // Global positions of local ones, and of gathered ones.
  std::vector<std::int64_t> Positions(std::int64_t rank) const {
    std::vector<std::int64_t> positions;
    if (ranks == 1) {
      positions.resize(static_cast<std::size_t>(sequence));
      std::iota(positions.begin(), positions.end(), 0);
      return positions;
    }
    const std::int64_t piece = sequence / (2 * ranks);
    for (const std::int64_t p : {rank, 2 * ranks - 1 - rank}) {
      for (std::int64_t i = 0; i < piece; ++i) positions.push_back(p * piece + i);
    }
    return positions;
  }
  std::vector<std::int64_t> Gathered() const {
    std::vector<std::int64_t> positions;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const std::vector<std::int64_t> local = Positions(rank);
      positions.insert(positions.end(), local.begin(), local.end());
    }
    return positions;
  }
};

// Rows [position * samples + sample] of the given positions.
Values AtPositions(const Values& tokens, std::int64_t samples, std::int64_t width,
                   const std::vector<std::int64_t>& positions) {
  std::vector<std::int64_t> rows;
  for (const std::int64_t position : positions) {
    for (std::int64_t b = 0; b < samples; ++b) rows.push_back(position * samples + b);
  }
  return TakeRows(tokens, width, rows);
}

struct ForwardResult {
  Values o, lse;
};

ForwardResult Flash(const Attention& a, const Values& q, const Values& kv) {
  std::vector<Values> out =
      RunFp64(a.MakeOp(OpCode::kAttentionForward, a.drops ? unsigned{kHasDropout} : 0u), {q, kv},
              {a.q_size(), a.samples * a.queries() * a.heads});
  return {out[0], out[1]};
}

struct Unfused {
  Values scores, probabilities, dropped, mask, o;
};

Unfused RunUnfused(const Attention& a, const Values& q, const Values& kv) {
  Unfused u;
  const std::int64_t square = a.rows() * a.sequence;
  u.scores = RunFp64(a.MakeOp(OpCode::kAttentionScores), {q, kv}, {square})[0];
  u.probabilities = RunFp64(a.MakeOp(OpCode::kSoftmaxForward), {u.scores}, {square})[0];
  u.dropped = u.probabilities;
  if (a.drops) {
    Buffer p(u.probabilities, Dtype::kFp64), y = Buffer::Poisoned(square, Dtype::kFp64);
    Buffer mask = Buffer::Poisoned(square, Dtype::kUint8);
    RunOn(a.MaskOp(OpCode::kDropoutForward), {&p}, {&y, &mask});
    u.dropped = y.values();
    u.mask = mask.values();
  }
  u.o = RunFp64(a.MakeOp(OpCode::kAttentionContext), {u.dropped, kv}, {a.q_size()})[0];
  return u;
}

struct Gradients {
  Values dq, dkv;
};

Gradients FlashBackward(const Attention& a, const Values& grad, const Values& q, const Values& kv) {
  const ForwardResult forward = Flash(a, q, kv);
  std::vector<Values> out =
      RunFp64(a.MakeOp(OpCode::kAttentionBackward, a.drops ? unsigned{kHasDropout} : 0u),
              {grad, q, kv, forward.o, forward.lse}, {a.q_size(), a.kv_size()});
  return {out[0], out[1]};
}

Gradients UnfusedBackward(const Attention& a, const Values& grad, const Values& q,
                          const Values& kv) {
  const Unfused u = RunUnfused(a, q, kv);
  const std::int64_t square = a.rows() * a.sequence;
  Buffer grad_o(grad, Dtype::kFp64), dropped(u.dropped, Dtype::kFp64), kv_buffer(kv, Dtype::kFp64);
  Buffer dp = Buffer::Poisoned(square, Dtype::kFp64);
  Buffer dkv = Buffer::Poisoned(a.kv_size(), Dtype::kFp64);
  RunOn(a.MakeOp(OpCode::kAttentionContextBackward), {&grad_o, &dropped, &kv_buffer}, {&dp, &dkv});
  if (a.drops) {
    Buffer mask(u.mask, Dtype::kUint8), undropped = Buffer::Poisoned(square, Dtype::kFp64);
    RunOn(a.MaskOp(OpCode::kDropoutBackward), {&dp, &mask}, {&undropped});
    dp = undropped;
  }
  Values ds =
      RunFp64(a.MakeOp(OpCode::kSoftmaxBackward), {dp.values(), u.probabilities}, {square})[0];
  Buffer ds_buffer(ds, Dtype::kFp64), q_buffer(q, Dtype::kFp64);
  Buffer dq = Buffer::Poisoned(a.q_size(), Dtype::kFp64);
  RunOn(a.MakeOp(OpCode::kAttentionScoresBackward), {&ds_buffer, &q_buffer, &kv_buffer, &dkv},
        {&dq, &dkv});
  return {dq.values(), dkv.values()};
}

// Plain loops over a whole sequence in order.
ForwardResult Naive(const Attention& a, const Values& q, const Values& kv) {
  ForwardResult result;
  result.o.resize(q.size());
  result.lse.resize(static_cast<std::size_t>(a.samples * a.sequence * a.heads));
  const auto at = [&](const Values& x, std::int64_t position, std::int64_t b, std::int64_t width,
                      std::int64_t feature) {
    return x[static_cast<std::size_t>((position * a.samples + b) * width + feature)];
  };
  for (std::int64_t b = 0; b < a.samples; ++b) {
    for (std::int64_t head = 0; head < a.heads; ++head) {
      const std::int64_t k_feature = head / (a.heads / a.kv_heads) * a.head_dim;
      const std::int64_t v_feature = k_feature + a.kv_heads * a.head_dim;
      for (std::int64_t i = 0; i < a.sequence; ++i) {
        Values weight;
        double sum = 0;
        for (std::int64_t j = 0; j <= i; ++j) {
          double score = 0;
          for (std::int64_t f = 0; f < a.head_dim; ++f) {
            score += at(q, i, b, a.q_width(), head * a.head_dim + f) *
                     at(kv, j, b, a.kv_width(), k_feature + f);
          }
          weight.push_back(std::exp(score / std::sqrt(static_cast<double>(a.head_dim))));
          sum += weight.back();
        }
        for (std::int64_t f = 0; f < a.head_dim; ++f) {
          double o = 0;
          for (std::int64_t j = 0; j <= i; ++j) {
            o += weight[static_cast<std::size_t>(j)] / sum *
                 at(kv, j, b, a.kv_width(), v_feature + f);
          }
          result.o[static_cast<std::size_t>((i * a.samples + b) * a.q_width() + head * a.head_dim +
                                            f)] = o;
        }
        result.lse[static_cast<std::size_t>((i * a.samples + b) * a.heads + head)] = std::log(sum);
      }
    }
  }
  return result;
}

Values Queries(const Attention& a) { return Random(a.samples * a.sequence * a.q_width(), 1); }
Values Keys(const Attention& a) { return Random(a.kv_size(), 2); }
Values OutputGradient(const Attention& a) {
  return Random(a.samples * a.sequence * a.q_width(), 3);
}

TEST(AttentionTest, ForwardEqualsPlainLoops) {
  // Sequences within one tile, of several whole tiles, and of odd length.
  for (const std::int64_t sequence : {1, 12, 64, 129, 150}) {
    const Attention a{.sequence = sequence};
    const Values q = Queries(a), kv = Keys(a);
    const ForwardResult expected = Naive(a, q, kv);
    const ForwardResult flash = Flash(a, q, kv);
    EXPECT_LT(MaxDifference(flash.o, expected.o), 1e-13) << sequence;
    EXPECT_LT(MaxDifference(flash.lse, expected.lse), 1e-13) << sequence;
    EXPECT_LT(MaxDifference(RunUnfused(a, q, kv).o, expected.o), 1e-13) << sequence;
  }
}

TEST(AttentionTest, LargeScoresDoNotOverflow) {
  const Attention a{.samples = 1, .heads = 1, .kv_heads = 1, .sequence = 70, .head_dim = 4};
  Values q = Queries(a), kv = Keys(a);
  for (double& x : q) x *= 1e4;
  for (const Values& o : {Flash(a, q, kv).o, RunUnfused(a, q, kv).o}) {
    for (const double x : o) {
      EXPECT_TRUE(std::isfinite(x));
      EXPECT_LE(std::abs(x), 1);
    }
  }
}

TEST(AttentionTest, ScoresAreMaskedAndScaled) {
  const Attention a{.samples = 1, .heads = 1, .kv_heads = 1, .sequence = 3, .head_dim = 4};
  const Values q(12, 1), kv(24, 3);
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(RunUnfused(a, q, kv).scores, (Values{6, -inf, -inf, 6, 6, -inf, 6, 6, 6}));
}

TEST(AttentionTest, GradientsEqualFiniteDifferences) {
  for (const bool drops : {false, true}) {
    for (const std::int64_t sequence : {7, 70}) {
      const Attention a{.sequence = sequence, .head_dim = 3, .drops = drops};
      const Values q = Queries(a), kv = Keys(a), grad = OutputGradient(a);
      const auto of_q = [&](const Values& x) { return Dot(Flash(a, x, kv).o, grad); };
      const auto of_kv = [&](const Values& x) { return Dot(Flash(a, q, x).o, grad); };
      for (const Gradients& g : {FlashBackward(a, grad, q, kv), UnfusedBackward(a, grad, q, kv)}) {
        ExpectGradient(of_q, q, g.dq, 40);
        ExpectGradient(of_kv, kv, g.dkv, 40);
      }
    }
  }
}

TEST(AttentionTest, FlashEqualsUnfusedWithDropout) {
  const Attention a{.sequence = 90, .drops = true};
  const Values q = Queries(a), kv = Keys(a), grad = OutputGradient(a);
  EXPECT_LT(MaxDifference(Flash(a, q, kv).o, RunUnfused(a, q, kv).o), 1e-13);
  EXPECT_GT(MaxDifference(Flash(a, q, kv).o, Naive(a, q, kv).o), 0.1);
  const Gradients flash = FlashBackward(a, grad, q, kv), unfused = UnfusedBackward(a, grad, q, kv);
  EXPECT_LT(MaxDifference(flash.dq, unfused.dq), 1e-12);
  EXPECT_LT(MaxDifference(flash.dkv, unfused.dkv), 1e-12);
}

// A sequence split over context-parallel ranks: each rank's results are the whole's at its
// positions, and the ranks' gradients of keys and values add up to the whole's.
TEST(AttentionTest, ContextParallelEqualsWhole) {
  for (const bool drops : {false, true}) {
    for (const std::int64_t ranks : {2, 3}) {
      const Attention whole{.sequence = 132, .drops = drops};
      const Values q = Queries(whole), kv = Keys(whole), grad = OutputGradient(whole);
      const ForwardResult expected = Flash(whole, q, kv);
      const Gradients gradients = FlashBackward(whole, grad, q, kv);
      Values flash_dkv(kv.size()), unfused_dkv(kv.size());
      Attention part = whole;
      part.ranks = ranks;
      const std::vector<std::int64_t> gathered = part.Gathered();
      const Values kv_gathered = AtPositions(kv, whole.samples, whole.kv_width(), gathered);
      for (part.cp = 0; part.cp < ranks; ++part.cp) {
        const auto mine = [&](const Values& x, std::int64_t width) {
          return AtPositions(x, whole.samples, width, part.Positions(part.cp));
        };
        const Values local_q = mine(q, whole.q_width()), local_grad = mine(grad, whole.q_width());
        const ForwardResult flash = Flash(part, local_q, kv_gathered);
        EXPECT_LT(MaxDifference(flash.o, mine(expected.o, whole.q_width())), 1e-12);
        EXPECT_LT(MaxDifference(flash.lse, mine(expected.lse, whole.heads)), 1e-12);
        EXPECT_LT(MaxDifference(RunUnfused(part, local_q, kv_gathered).o, flash.o), 1e-12);
        const Gradients of_flash = FlashBackward(part, local_grad, local_q, kv_gathered);
        const Gradients of_unfused = UnfusedBackward(part, local_grad, local_q, kv_gathered);
        EXPECT_LT(MaxDifference(of_flash.dq, mine(gradients.dq, whole.q_width())), 1e-12);
        EXPECT_LT(MaxDifference(of_unfused.dq, of_flash.dq), 1e-12);
        AddTo(flash_dkv, of_flash.dkv);
        AddTo(unfused_dkv, of_unfused.dkv);
      }
      const Values expected_dkv =
          AtPositions(gradients.dkv, whole.samples, whole.kv_width(), gathered);
      EXPECT_LT(MaxDifference(flash_dkv, expected_dkv), 1e-12);
      EXPECT_LT(MaxDifference(unfused_dkv, expected_dkv), 1e-12);
    }
  }
}

// Heads split over tensor-parallel ranks give the same bits, dropout included.
TEST(AttentionTest, TensorParallelEqualsWhole) {
  const Attention whole{.sequence = 40, .drops = true};
  const Values q = Queries(whole), kv = Keys(whole), grad = OutputGradient(whole);
  const ForwardResult expected = Flash(whole, q, kv);
  const Gradients gradients = FlashBackward(whole, grad, q, kv);
  const Values unfused = RunUnfused(whole, q, kv).o;
  Attention part = whole;
  part.heads = 2;
  part.kv_heads = 1;
  const std::int64_t q_columns = 2 * whole.head_dim;
  for (part.tp = 0; part.tp < 2; ++part.tp) {
    const auto of_q = [&](const Values& x) {
      return TakeColumns(x, whole.q_width(), part.tp * q_columns, (part.tp + 1) * q_columns);
    };
    const auto of_kv = [&](const Values& x) {
      Values result;
      const std::int64_t d = whole.head_dim;
      for (std::int64_t row = 0; row < whole.samples * whole.sequence; ++row) {
        for (const std::int64_t half : {0, 2}) {
          const auto begin = x.begin() + row * whole.kv_width() + (half + part.tp) * d;
          result.insert(result.end(), begin, begin + d);
        }
      }
      return result;
    };
    EXPECT_EQ(Flash(part, of_q(q), of_kv(kv)).o, of_q(expected.o));
    EXPECT_EQ(RunUnfused(part, of_q(q), of_kv(kv)).o, of_q(unfused));
    const Gradients g = FlashBackward(part, of_q(grad), of_q(q), of_kv(kv));
    EXPECT_EQ(g.dq, of_q(gradients.dq));
    EXPECT_EQ(g.dkv, of_kv(gradients.dkv));
  }
}

// --- Split and rotation.

std::vector<Values> Split(const Attention& a, unsigned flags, const Values& qkv) {
  return RunFp64(a.MakeOp(OpCode::kSplitQkv, flags), {qkv},
                 {a.q_size(), a.samples * a.queries() * a.kv_width()});
}

TEST(RotaryTest, RotatesPairsOfHalvesByPosition) {
  const Attention a{.samples = 1, .heads = 1, .kv_heads = 1, .sequence = 3, .head_dim = 4};
  // q = (1, 2, 3, 4), k = (5, 6, 7, 8), v = (9, 10, 11, 12) at each position.
  Values row(12), qkv;
  std::iota(row.begin(), row.end(), 1);
  for (int i = 0; i < 3; ++i) qkv.insert(qkv.end(), row.begin(), row.end());
  const std::vector<Values> split = Split(a, kRotary, qkv);
  for (int position = 0; position < 3; ++position) {
    const double slow = position * std::pow(10000.0, -0.5);
    const double c = std::cos(position), s = std::sin(position);
    const double slow_c = std::cos(slow), slow_s = std::sin(slow);
    const Values q{c - 3 * s, 2 * slow_c - 4 * slow_s, 3 * c + s, 4 * slow_c + 2 * slow_s};
    const Values kv{5 * c - 7 * s,
                    6 * slow_c - 8 * slow_s,
                    7 * c + 5 * s,
                    8 * slow_c + 6 * slow_s,
                    9,
                    10,
                    11,
                    12};
    EXPECT_LT(MaxDifference(TakeRows(split[0], 4, {position}), q), 1e-14);
    EXPECT_LT(MaxDifference(TakeRows(split[1], 8, {position}), kv), 1e-14);
  }
}

TEST(RotaryTest, GradientsEqualFiniteDifferences) {
  for (const unsigned flags : {0u, unsigned{kRotary}}) {
    const Attention a{.sequence = 6, .head_dim = 6};
    const std::int64_t n = a.samples * a.sequence;
    const Values qkv = Random(n * (a.q_width() + a.kv_width()), 4);
    const Values dq = Random(n * a.q_width(), 5), dkv = Random(n * a.kv_width(), 6);
    const Values gradient = RunFp64(a.MakeOp(OpCode::kSplitQkvBackward, flags), {dq, dkv},
                                    {static_cast<std::int64_t>(qkv.size())})[0];
    ExpectGradient(
        [&](const Values& x) {
          const std::vector<Values> split = Split(a, flags, x);
          return Dot(split[0], dq) + Dot(split[1], dkv);
        },
        qkv, gradient);
  }
}

TEST(RotaryTest, ContextParallelEqualsWhole) {
  const Attention whole{.sequence = 12, .head_dim = 4};
  const std::int64_t width = whole.q_width() + whole.kv_width();
  const Values qkv = Random(whole.samples * whole.sequence * width, 7);
  const std::vector<Values> expected = Split(whole, kRotary, qkv);
  Attention part = whole;
  part.ranks = 3;
  for (part.cp = 0; part.cp < part.ranks; ++part.cp) {
    const std::vector<std::int64_t> positions = part.Positions(part.cp);
    const std::vector<Values> split =
        Split(part, kRotary, AtPositions(qkv, whole.samples, width, positions));
    EXPECT_EQ(split[0], AtPositions(expected[0], whole.samples, whole.q_width(), positions));
    EXPECT_EQ(split[1], AtPositions(expected[1], whole.samples, whole.kv_width(), positions));
  }
}

}  // namespace
}  // namespace twinstep
