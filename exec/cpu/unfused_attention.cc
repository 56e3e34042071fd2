#include "exec/cpu/unfused_attention.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "exec/cpu/attention_layout.h"
#include "exec/cpu/blas.h"
#include "exec/cpu/scratch.h"
#include "exec/cpu/vector_clones.h"
#include "exec/cpu/vector_math.h"

namespace twinstep {
namespace {

constexpr std::int64_t kQueryTile = 64;

// The arrays of one call and the walk over its heads and tiles of queries.
template <typename T>
struct Unfused {
  using C = Compute<T>;

  explicit Unfused(const KernelCall& kernel_call)
      : call(kernel_call),
        size(call.shape),
        d(size.head_dim),
        scratch(UnfusedScratchBytes(call.shape)),
        keys(scratch.Take<C>(size.keys * d)),
        key_gradients(scratch.Take<C>(size.keys * d)),
        rows(scratch.Take<C>(kQueryTile * d)),
        row_gradients(scratch.Take<C>(kQueryTile * d)),
        scores(scratch.Take<C>(kQueryTile * size.keys)) {}

  // Where the head's row of local query `query` lies in [n, heads d], and in the scores.
  std::int64_t RowOffset(std::int64_t sample, std::int64_t head, std::int64_t query) const {
    return size.QOffset(sample, head) + query * size.q_stride();
  }
  std::int64_t ScoreOffset(std::int64_t sample, std::int64_t head, std::int64_t query) const {
    return ((sample * size.heads + head) * size.queries + query) * size.keys;
  }

  // begin(sample, kv_head); tile(sample, head, local query, position, rows); end(sample, kv_head).
  template <typename Begin, typename Tile, typename End>
  void Walk(Begin&& begin, Tile&& tile, End&& end) {
    for (std::int64_t sample = 0; sample < size.samples; ++sample) {
      for (std::int64_t head = 0; head < size.heads; ++head) {
        if (head % size.group == 0) begin(sample, head / size.group);
        ForEachQueryTile(size, kQueryTile,
                         [&](std::int64_t local, std::int64_t position, std::int64_t count) {
                           tile(sample, head, local, position, count);
                         });
        if (head % size.group == size.group - 1) end(sample, head / size.group);
      }
    }
  }

  void ClearKeyGradients() { std::fill(key_gradients, key_gradients + size.keys * d, C{0}); }

  const KernelCall& call;
  AttentionSizes size;
  std::int64_t d;
  Scratch scratch;
  C *keys, *key_gradients, *rows, *row_gradients, *scores;
};

constexpr auto kNothing = [](std::int64_t, std::int64_t) {};

template <typename T>
void Scores(const KernelCall& call) {
  using C = Compute<T>;
  Unfused<T> u(call);
  const AttentionSizes& size = u.size;
  u.Walk(
      [&](std::int64_t sample, std::int64_t kv_head) {
        PackKeys(size, Read<T>(call, 1) + size.KOffset(sample, kv_head), u.keys);
      },
      [&](std::int64_t sample, std::int64_t head, std::int64_t local, std::int64_t position,
          std::int64_t count) {
        PackRows(Read<T>(call, 0) + u.RowOffset(sample, head, local), size.q_stride(), count, u.d,
                 u.rows);
        Multiply({.transpose_b = true, .m = count, .n = size.keys, .k = u.d},
                 static_cast<C>(size.scale()), u.rows, u.d, u.keys, u.d, C{0}, u.scores, size.keys);
        for (std::int64_t i = 0; i < count; ++i) {
          std::fill(u.scores + i * size.keys + position + i + 1, u.scores + (i + 1) * size.keys,
                    -std::numeric_limits<C>::infinity());
        }
        UnpackScores(size, u.scores, count, Write<T>(call, 0) + u.ScoreOffset(sample, head, local));
      },
      kNothing);
}

template <typename T>
void Softmax(const KernelCall& call) {
  using C = Compute<T>;
  const AttentionSizes size(call.shape);
  Scratch scratch(UnfusedScratchBytes(call.shape));
  C* p = scratch.Take<C>(size.keys);
  const std::int64_t rows = size.samples * size.heads * size.queries;
  for (std::int64_t i = 0; i < rows; ++i) {
    const T* x = Read<T>(call, 0) + i * size.keys;
    T* y = Write<T>(call, 0) + i * size.keys;
    const C max = LaneMax<C>(size.keys, [x](std::int64_t j) { return Load(x[j]); });
    for (std::int64_t j = 0; j < size.keys; ++j) p[j] = Exp(Load(x[j]) - max);
    const C inverse = C{1} / LaneSum<C>(size.keys, [p](std::int64_t j) { return p[j]; });
    for (std::int64_t j = 0; j < size.keys; ++j) Store(p[j] * inverse, &y[j]);
  }
}

template <typename T>
void Context(const KernelCall& call) {
  using C = Compute<T>;
  Unfused<T> u(call);
  const AttentionSizes& size = u.size;
  u.Walk(
      [&](std::int64_t sample, std::int64_t kv_head) {
        PackKeys(size, Read<T>(call, 1) + size.VOffset(sample, kv_head), u.keys);
      },
      [&](std::int64_t sample, std::int64_t head, std::int64_t local, std::int64_t,
          std::int64_t count) {
        PackScores(size, Read<T>(call, 0) + u.ScoreOffset(sample, head, local), count, u.scores);
        Multiply({.m = count, .n = u.d, .k = size.keys}, C{1}, u.scores, size.keys, u.keys, u.d,
                 C{0}, u.rows, u.d);
        UnpackRows(u.rows, count, u.d, Write<T>(call, 0) + u.RowOffset(sample, head, local),
                   size.q_stride());
      },
      kNothing);
}

template <typename T>
void ContextBackward(const KernelCall& call) {
  using C = Compute<T>;
  Unfused<T> u(call);
  const AttentionSizes& size = u.size;
  u.Walk(
      [&](std::int64_t sample, std::int64_t kv_head) {
        PackKeys(size, Read<T>(call, 2) + size.VOffset(sample, kv_head), u.keys);
        u.ClearKeyGradients();
      },
      [&](std::int64_t sample, std::int64_t head, std::int64_t local, std::int64_t,
          std::int64_t count) {
        const std::int64_t at = u.ScoreOffset(sample, head, local);
        PackRows(Read<T>(call, 0) + u.RowOffset(sample, head, local), size.q_stride(), count, u.d,
                 u.rows);
        PackScores(size, Read<T>(call, 1) + at, count, u.scores);
        Multiply({.transpose_a = true, .m = size.keys, .n = u.d, .k = count}, C{1}, u.scores,
                 size.keys, u.rows, u.d, C{1}, u.key_gradients, u.d);
        Multiply({.transpose_b = true, .m = count, .n = size.keys, .k = u.d}, C{1}, u.rows, u.d,
                 u.keys, u.d, C{0}, u.scores, size.keys);
        UnpackScores(size, u.scores, count, Write<T>(call, 0) + at);
      },
      [&](std::int64_t sample, std::int64_t kv_head) {
        UnpackKeys(size, u.key_gradients, Write<T>(call, 1) + size.VOffset(sample, kv_head));
      });
}

template <typename T>
void SoftmaxGradient(const KernelCall& call) {
  using C = Compute<T>;
  const AttentionSizes size(call.shape);
  const std::int64_t rows = size.samples * size.heads * size.queries;
  for (std::int64_t i = 0; i < rows; ++i) {
    const T* dp = Read<T>(call, 0) + i * size.keys;
    const T* p = Read<T>(call, 1) + i * size.keys;
    T* ds = Write<T>(call, 0) + i * size.keys;
    const C mean =
        LaneSum<C>(size.keys, [dp, p](std::int64_t j) { return Load(dp[j]) * Load(p[j]); });
    for (std::int64_t j = 0; j < size.keys; ++j) {
      Store(Load(p[j]) * (Load(dp[j]) - mean), &ds[j]);
    }
  }
}

template <typename T>
void ScoresBackward(const KernelCall& call) {
  using C = Compute<T>;
  Unfused<T> u(call);
  const AttentionSizes& size = u.size;
  const C scale = static_cast<C>(size.scale());
  u.Walk(
      [&](std::int64_t sample, std::int64_t kv_head) {
        PackKeys(size, Read<T>(call, 2) + size.KOffset(sample, kv_head), u.keys);
        u.ClearKeyGradients();
      },
      [&](std::int64_t sample, std::int64_t head, std::int64_t local, std::int64_t,
          std::int64_t count) {
        const std::int64_t at = u.RowOffset(sample, head, local);
        PackScores(size, Read<T>(call, 0) + u.ScoreOffset(sample, head, local), count, u.scores);
        PackRows(Read<T>(call, 1) + at, size.q_stride(), count, u.d, u.rows);
        Multiply({.transpose_a = true, .m = size.keys, .n = u.d, .k = count}, scale, u.scores,
                 size.keys, u.rows, u.d, C{1}, u.key_gradients, u.d);
        Multiply({.m = count, .n = u.d, .k = size.keys}, scale, u.scores, size.keys, u.keys, u.d,
                 C{0}, u.row_gradients, u.d);
        UnpackRows(u.row_gradients, count, u.d, Write<T>(call, 0) + at, size.q_stride());
      },
      [&](std::int64_t sample, std::int64_t kv_head) {
        UnpackKeys(size, u.key_gradients, Write<T>(call, 1) + size.KOffset(sample, kv_head));
      });
}

}  // namespace

std::size_t UnfusedScratchBytes(const OpShape& shape) {
  const AttentionSizes size(shape);
  const auto of = [&]<typename C>(C) {
    return 2 * Scratch::Bytes<C>(size.keys * size.head_dim) +
           2 * Scratch::Bytes<C>(kQueryTile * size.head_dim) +
           Scratch::Bytes<C>(kQueryTile * size.keys);
  };
  return shape.dtype == Dtype::kFp64 ? of(double{}) : of(float{});
}

TWINSTEP_VECTOR_CLONES void AttentionScores(const KernelCall& call) {
  WithElement(call.shape.dtype, [&](auto element) { Scores<decltype(element)>(call); });
}

TWINSTEP_VECTOR_CLONES void SoftmaxForward(const KernelCall& call) {
  WithElement(call.shape.dtype, [&](auto element) { Softmax<decltype(element)>(call); });
}

TWINSTEP_VECTOR_CLONES void AttentionContext(const KernelCall& call) {
  WithElement(call.shape.dtype, [&](auto element) { Context<decltype(element)>(call); });
}

TWINSTEP_VECTOR_CLONES void AttentionContextBackward(const KernelCall& call) {
  WithElement(call.shape.dtype, [&](auto element) { ContextBackward<decltype(element)>(call); });
}

TWINSTEP_VECTOR_CLONES void SoftmaxBackward(const KernelCall& call) {
  WithElement(call.shape.dtype, [&](auto element) { SoftmaxGradient<decltype(element)>(call); });
}

TWINSTEP_VECTOR_CLONES void AttentionScoresBackward(const KernelCall& call) {
  WithElement(call.shape.dtype, [&](auto element) { ScoresBackward<decltype(element)>(call); });
}

}  // namespace twinstep
