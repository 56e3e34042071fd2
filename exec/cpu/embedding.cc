#include "exec/cpu/embedding.h"

#include <algorithm>
#include <cstdint>

#include "exec/cpu/element.h"
#include "exec/cpu/operands.h"
#include "exec/cpu/positions.h"
#include "exec/cpu/scratch.h"
#include "exec/cpu/vector_clones.h"

namespace twinstep {
namespace {

// dims {n, h, V_local, b, cp_index, cp_count}
struct EmbeddingSizes {
  explicit EmbeddingSizes(const KernelCall& call)
      : n(Dim(call, 0)),
        h(Dim(call, 1)),
        vocabulary(Dim(call, 2)),
        samples(Dim(call, 3)),
        first_token(call.shape.index * vocabulary),
        positions(n / samples * Dim(call, 5), Dim(call, 4), Dim(call, 5)) {}

  // The row of this vocabulary shard that holds the token, or -1.
  std::int64_t Row(std::int32_t token) const {
    const std::int64_t row = token - first_token;
    return row >= 0 && row < vocabulary ? row : -1;
  }

  std::int64_t n, h, vocabulary, samples, first_token;
  LocalPositions positions;
};

template <typename T>
void Forward(const KernelCall& call) {
  using C = Compute<T>;
  const EmbeddingSizes size(call);
  const std::int32_t* tokens = Read<std::int32_t>(call, 0);
  const bool adds_positions = Has(call, kHasPositions) && call.shape.index == 0;
  for (std::int64_t i = 0; i < size.n; ++i) {
    T* x = Write<T>(call, 0) + i * size.h;
    const std::int64_t row = size.Row(tokens[i]);
    if (row < 0) {
      std::fill(x, x + size.h, T{});
    } else {
      const T* embedding = Read<T>(call, 1) + row * size.h;
      std::copy(embedding, embedding + size.h, x);
    }
    if (!adds_positions) continue;
    const T* position = Read<T>(call, 2) + size.positions.Global(i / size.samples) * size.h;
    for (std::int64_t j = 0; j < size.h; ++j) {
      const C sum = Load(x[j]) + Load(position[j]);
      Store(sum, &x[j]);
    }
  }
}

// gradient[row] (+)= sum of dx over the row's tokens, for one row.
template <typename C, typename G>
void WriteRow(const C* sum, std::int64_t h, bool accumulates, G* gradient) {
  for (std::int64_t j = 0; j < h; ++j) {
    Store(accumulates ? Load(gradient[j]) + sum[j] : sum[j], &gradient[j]);
  }
}

template <typename T, typename C>
void AddRow(const T* dx, std::int64_t h, C* sum) {
  for (std::int64_t j = 0; j < h; ++j) sum[j] += Load(dx[j]);
}

template <typename T, typename G>
void TokenGradient(const KernelCall& call, const EmbeddingSizes& size, std::int32_t* next,
                   std::int32_t* order, Compute<T>* sum) {
  const std::int32_t* tokens = Read<std::int32_t>(call, 0);
  const T* dx = Read<T>(call, 1);
  // Counting sort of the tokens by row; stable, so that each row keeps the tokens' order. After it
  // next[r] is the end of row r.
  std::fill(next, next + size.vocabulary + 1, 0);
  for (std::int64_t i = 0; i < size.n; ++i) {
    const std::int64_t row = size.Row(tokens[i]);
    if (row >= 0) ++next[row + 1];
  }
  for (std::int64_t r = 0; r < size.vocabulary; ++r) next[r + 1] += next[r];
  for (std::int64_t i = 0; i < size.n; ++i) {
    const std::int64_t row = size.Row(tokens[i]);
    if (row >= 0) order[next[row]++] = static_cast<std::int32_t>(i);
  }
  const bool accumulates = Has(call, kAccumulateGradient);
  for (std::int64_t r = 0; r < size.vocabulary; ++r) {
    const std::int32_t begin = r == 0 ? 0 : next[r - 1], end = next[r];
    G* gradient = Write<G>(call, 0) + r * size.h;
    if (begin == end) {
      if (!accumulates) std::fill(gradient, gradient + size.h, G{});
      continue;
    }
    std::fill(sum, sum + size.h, Compute<T>{0});
    for (std::int32_t at = begin; at < end; ++at) AddRow(dx + order[at] * size.h, size.h, sum);
    WriteRow(sum, size.h, accumulates, gradient);
  }
}

template <typename T, typename G>
void PositionGradient(const KernelCall& call, const EmbeddingSizes& size, Compute<T>* sum) {
  const T* dx = Read<T>(call, 1);
  G* gradient = Write<G>(call, 1);
  const bool accumulates = Has(call, kAccumulatePositions);
  const std::int64_t local_positions = size.n / size.samples;
  if (!accumulates) {
    // Positions of other context-parallel ranks, and beyond the sequence.
    const std::int64_t rows = std::max(call.place.position_rows, local_positions * Dim(call, 5));
    std::fill(gradient, gradient + rows * size.h, G{});
  }
  for (std::int64_t i = 0; i < local_positions; ++i) {
    std::fill(sum, sum + size.h, Compute<T>{0});
    for (std::int64_t b = 0; b < size.samples; ++b) {
      AddRow(dx + (i * size.samples + b) * size.h, size.h, sum);
    }
    WriteRow(sum, size.h, accumulates, gradient + size.positions.Global(i) * size.h);
  }
}

template <typename T, typename G>
void Backward(const KernelCall& call) {
  const EmbeddingSizes size(call);
  Scratch scratch(EmbeddingScratchBytes(call.shape));
  std::int32_t* next = scratch.Take<std::int32_t>(size.vocabulary + 1);
  std::int32_t* order = scratch.Take<std::int32_t>(size.n);
  Compute<T>* sum = scratch.Take<Compute<T>>(size.h);
  TokenGradient<T, G>(call, size, next, order, sum);
  if (Has(call, kHasPositions)) PositionGradient<T, G>(call, size, sum);
}

}  // namespace

std::size_t EmbeddingScratchBytes(const OpShape& shape) {
  return Scratch::Bytes<std::int32_t>(shape.dims[2] + 1) +
         Scratch::Bytes<std::int32_t>(shape.dims[0]) + Scratch::Bytes<double>(shape.dims[1]);
}

TWINSTEP_VECTOR_CLONES void EmbeddingForward(const KernelCall& call) {
  WithElement(call.shape.dtype, [&](auto element) { Forward<decltype(element)>(call); });
}

TWINSTEP_VECTOR_CLONES void EmbeddingBackward(const KernelCall& call) {
  WithElements(call.shape.dtype, call.gradient_dtype, [&](auto element, auto gradient) {
    Backward<decltype(element), decltype(gradient)>(call);
  });
}

}  // namespace twinstep
