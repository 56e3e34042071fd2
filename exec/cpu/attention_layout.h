// How the heads of attention's operands lie in memory, and their move to and from contiguous
// matrices of numbers to compute with.
#pragma once

#include <cmath>
#include <cstdint>

#include "exec/cpu/element.h"
#include "exec/cpu/operands.h"
#include "exec/cpu/positions.h"

namespace twinstep {

// dims {b, heads, kv_heads, s_q, s_kv, head_dim}
struct AttentionSizes {
  explicit AttentionSizes(const OpShape& shape)
      : samples(shape.dims[0]),
        heads(shape.dims[1]),
        kv_heads(shape.dims[2]),
        queries(shape.dims[3]),
        keys(shape.dims[4]),
        head_dim(shape.dims[5]),
        group(heads / kv_heads),
        ranks(shape.count),
        positions(keys, shape.index, shape.count) {}

  double scale() const { return 1 / std::sqrt(static_cast<double>(head_dim)); }
  std::int64_t q_stride() const { return samples * heads * head_dim; }
  std::int64_t kv_stride() const { return samples * 2 * kv_heads * head_dim; }
  std::int64_t QOffset(std::int64_t sample, std::int64_t head) const {
    return (sample * heads + head) * head_dim;
  }
  std::int64_t KOffset(std::int64_t sample, std::int64_t kv_head) const {
    return (sample * 2 * kv_heads + kv_head) * head_dim;
  }
  std::int64_t VOffset(std::int64_t sample, std::int64_t kv_head) const {
    return KOffset(sample, kv_head) + kv_heads * head_dim;
  }

  std::int64_t samples, heads, kv_heads, queries, keys, head_dim;
  std::int64_t group;        // Query heads that share a key head.
  std::int64_t ranks;        // Context-parallel.
  LocalPositions positions;  // Of the queries.
};

// to[i][j] = from[i * stride + j] for rows of `width`.
template <typename T>
void PackRows(const T* from, std::int64_t stride, std::int64_t rows, std::int64_t width,
              Compute<T>* to) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < width; ++j) to[i * width + j] = Load(from[i * stride + j]);
  }
}

template <typename T>
void UnpackRows(const Compute<T>* from, std::int64_t rows, std::int64_t width, T* to,
                std::int64_t stride) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < width; ++j) Store(from[i * width + j], &to[i * stride + j]);
  }
}

// A head's keys or values, from the gathered order into the order of global positions and back.
template <typename T>
void PackKeys(const AttentionSizes& size, const T* from, Compute<T>* to) {
  ForEachGatheredRun(size.keys, size.ranks, [&](const PositionRun& run) {
    PackRows(from + run.local * size.kv_stride(), size.kv_stride(), run.length, size.head_dim,
             to + run.global * size.head_dim);
  });
}

template <typename T>
void UnpackKeys(const AttentionSizes& size, const Compute<T>* from, T* to) {
  ForEachGatheredRun(size.keys, size.ranks, [&](const PositionRun& run) {
    UnpackRows(from + run.global * size.head_dim, run.length, size.head_dim,
               to + run.local * size.kv_stride(), size.kv_stride());
  });
}

// Rows of the materialised scores [b, heads, s_q, s_kv], whose columns are in gathered order, to
// and from rows in the order of global positions.
template <typename T>
void PackScores(const AttentionSizes& size, const T* from, std::int64_t rows, Compute<T>* to) {
  ForEachGatheredRun(size.keys, size.ranks, [&](const PositionRun& run) {
    for (std::int64_t i = 0; i < rows; ++i) {
      const T* source = from + i * size.keys + run.local;
      Compute<T>* target = to + i * size.keys + run.global;
      for (std::int64_t j = 0; j < run.length; ++j) target[j] = Load(source[j]);
    }
  });
}

template <typename T>
void UnpackScores(const AttentionSizes& size, const Compute<T>* from, std::int64_t rows, T* to) {
  ForEachGatheredRun(size.keys, size.ranks, [&](const PositionRun& run) {
    for (std::int64_t i = 0; i < rows; ++i) {
      const Compute<T>* source = from + i * size.keys + run.global;
      T* target = to + i * size.keys + run.local;
      for (std::int64_t j = 0; j < run.length; ++j) Store(source[j], &target[j]);
    }
  });
}

// Calls tile(first local query, its global position, rows) for tiles of consecutive positions of at
// most `tile_rows`.
template <typename Tile>
void ForEachQueryTile(const AttentionSizes& size, std::int64_t tile_rows, Tile&& tile) {
  for (const PositionRun& run : size.positions.runs()) {
    for (std::int64_t i = 0; i < run.length; i += tile_rows) {
      const std::int64_t left = run.length - i;
      tile(run.local + i, run.global + i, left < tile_rows ? left : tile_rows);
    }
  }
}

}  // namespace twinstep
