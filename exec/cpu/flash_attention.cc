#include "exec/cpu/flash_attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "exec/cpu/attention_layout.h"
#include "exec/cpu/blas.h"
#include "exec/cpu/dropout.h"
#include "exec/cpu/scratch.h"
#include "exec/cpu/vector_clones.h"
#include "exec/cpu/vector_math.h"

namespace twinstep {
namespace {

// Part of the arithmetic: other sizes sum in another order.
constexpr std::int64_t kQueryTile = 64, kKeyTile = 64;

// What forward and backward share: one tile of queries against one tile of keys of a head.
template <typename T>
class FlashTiles {
 public:
  using C = Compute<T>;

  explicit FlashTiles(const KernelCall& call)
      : call_(call),
        size_(call.shape),
        scale_(static_cast<C>(size_.scale())),
        drops_(Has(call, kHasDropout)),
        counter_(call.step, DropoutSite::kAttentionProbabilities, call.place.block),
        keep_scale_(static_cast<C>(counter_.scale())) {}

  const AttentionSizes& size() const { return size_; }
  C scale() const { return scale_; }
  bool drops() const { return drops_; }

  // scores[rows, columns] = scale q k^T; row stride kKeyTile.
  void Scores(const C* q, std::int64_t rows, const C* k, std::int64_t columns, C* scores) const {
    const std::int64_t d = size_.head_dim;
    Multiply({.transpose_b = true, .m = rows, .n = columns, .k = d}, scale_, q, d, k, d, C{0},
             scores, kKeyTile);
  }

  // Columns of the key tile from `key` on that the query at `position` sees.
  static std::int64_t Visible(std::int64_t position, std::int64_t key, std::int64_t columns) {
    return std::clamp<std::int64_t>(position - key + 1, 0, columns);
  }

  // What each element of the row of the query at `position` is multiplied with by dropout.
  void DrawFactors(std::int64_t sample, std::int64_t head, std::int64_t position, std::int64_t key,
                   std::int64_t columns, C* factors) const {
    std::array<std::uint8_t, kKeyTile> keep;
    counter_.Draw(call_.place.first_sample + sample, position, call_.place.tp * size_.heads + head,
                  key, columns, keep.data());
    for (std::int64_t j = 0; j < columns; ++j) {
      factors[j] = keep[static_cast<std::size_t>(j)] != 0 ? keep_scale_ : C{0};
    }
  }

 private:
  const KernelCall& call_;
  AttentionSizes size_;
  C scale_;
  bool drops_;
  DropoutCounter counter_;
  C keep_scale_;
};

template <typename T>
void Forward(const KernelCall& call) {
  using C = Compute<T>;
  const FlashTiles<T> tiles(call);
  const AttentionSizes& size = tiles.size();
  const std::int64_t d = size.head_dim;
  Scratch scratch(FlashScratchBytes(call.shape));
  C* k = scratch.Take<C>(size.keys * d);
  C* v = scratch.Take<C>(size.keys * d);
  C* q = scratch.Take<C>(kQueryTile * d);
  C* o = scratch.Take<C>(kQueryTile * d);
  C* p = scratch.Take<C>(kQueryTile * kKeyTile);
  std::array<C, kQueryTile> max, sum;
  std::array<C, kKeyTile> factors;

  // Rescales the rows' results to the new maxima and turns scores into probabilities.
  const auto softmax = [&](std::int64_t rows, std::int64_t position, std::int64_t key,
                           std::int64_t columns) {
    for (std::int64_t i = 0; i < rows; ++i) {
      C* row = p + i * kKeyTile;
      const std::int64_t visible = tiles.Visible(position + i, key, columns);
      const auto at = static_cast<std::size_t>(i);
      const C new_max =
          std::max(max[at], LaneMax<C>(visible, [row](std::int64_t j) { return row[j]; }));
      if (visible > 0) {
        const C rescale = Exp(max[at] - new_max);
        for (std::int64_t j = 0; j < visible; ++j) row[j] = Exp(row[j] - new_max);
        sum[at] = sum[at] * rescale + LaneSum<C>(visible, [row](std::int64_t j) { return row[j]; });
        for (std::int64_t j = 0; j < d; ++j) o[i * d + j] *= rescale;
        max[at] = new_max;
      }
      std::fill(row + visible, row + columns, C{0});
    }
  };

  for (std::int64_t sample = 0; sample < size.samples; ++sample) {
    for (std::int64_t head = 0; head < size.heads; ++head) {
      if (head % size.group == 0) {
        PackKeys(size, Read<T>(call, 1) + size.KOffset(sample, head / size.group), k);
        PackKeys(size, Read<T>(call, 1) + size.VOffset(sample, head / size.group), v);
      }
      const std::int64_t offset = size.QOffset(sample, head);
      ForEachQueryTile(
          size, kQueryTile, [&](std::int64_t local, std::int64_t position, std::int64_t rows) {
            PackRows(Read<T>(call, 0) + offset + local * size.q_stride(), size.q_stride(), rows, d,
                     q);
            std::fill(o, o + rows * d, C{0});
            max.fill(-std::numeric_limits<C>::infinity());
            sum.fill(0);
            for (std::int64_t key = 0; key < position + rows; key += kKeyTile) {
              const std::int64_t columns = std::min(kKeyTile, position + rows - key);
              tiles.Scores(q, rows, k + key * d, columns, p);
              softmax(rows, position, key, columns);
              if (tiles.drops()) {
                for (std::int64_t i = 0; i < rows; ++i) {
                  const std::int64_t visible = tiles.Visible(position + i, key, columns);
                  tiles.DrawFactors(sample, head, position + i, key, visible, factors.data());
                  C* row = p + i * kKeyTile;
                  for (std::int64_t j = 0; j < visible; ++j) {
                    row[j] *= factors[static_cast<std::size_t>(j)];
                  }
                }
              }
              Multiply({.m = rows, .n = d, .k = columns}, C{1}, p, kKeyTile, v + key * d, d, C{1},
                       o, d);
            }
            for (std::int64_t i = 0; i < rows; ++i) {
              const auto at = static_cast<std::size_t>(i);
              const C inverse = C{1} / sum[at];
              for (std::int64_t j = 0; j < d; ++j) o[i * d + j] *= inverse;
              Write<C>(call, 1)[((local + i) * size.samples + sample) * size.heads + head] =
                  max[at] + std::log(sum[at]);
            }
            UnpackRows(o, rows, d, Write<T>(call, 0) + offset + local * size.q_stride(),
                       size.q_stride());
          });
    }
  }
}

template <typename T>
void Backward(const KernelCall& call) {
  using C = Compute<T>;
  const FlashTiles<T> tiles(call);
  const AttentionSizes& size = tiles.size();
  const std::int64_t d = size.head_dim;
  const C scale = tiles.scale();
  Scratch scratch(FlashScratchBytes(call.shape));
  C* k = scratch.Take<C>(size.keys * d);
  C* v = scratch.Take<C>(size.keys * d);
  C* dk = scratch.Take<C>(size.keys * d);
  C* dv = scratch.Take<C>(size.keys * d);
  C* q = scratch.Take<C>(kQueryTile * d);
  C* grad_o = scratch.Take<C>(kQueryTile * d);
  C* dq = scratch.Take<C>(kQueryTile * d);
  C* p = scratch.Take<C>(kQueryTile * kKeyTile);
  C* dp = scratch.Take<C>(kQueryTile * kKeyTile);
  std::array<C, kQueryTile> log_sum, delta;
  std::array<C, kKeyTile> factors;

  // One tile of keys: adds to dq, dk and dv.
  const auto tile = [&](std::int64_t sample, std::int64_t head, std::int64_t position,
                        std::int64_t rows, std::int64_t key) {
    const std::int64_t columns = std::min(kKeyTile, position + rows - key);
    tiles.Scores(q, rows, k + key * d, columns, p);
    Multiply({.transpose_b = true, .m = rows, .n = columns, .k = d}, C{1}, grad_o, d, v + key * d,
             d, C{0}, dp, kKeyTile);
    for (std::int64_t i = 0; i < rows; ++i) {
      C* row = p + i * kKeyTile;
      C* gradient = dp + i * kKeyTile;
      const std::int64_t visible = tiles.Visible(position + i, key, columns);
      const auto at = static_cast<std::size_t>(i);
      for (std::int64_t j = 0; j < visible; ++j) row[j] = Exp(row[j] - log_sum[at]);
      if (tiles.drops()) {
        tiles.DrawFactors(sample, head, position + i, key, visible, factors.data());
        for (std::int64_t j = 0; j < visible; ++j) {
          const C factor = factors[static_cast<std::size_t>(j)];
          gradient[j] = row[j] * (gradient[j] * factor - delta[at]);
          row[j] *= factor;
        }
      } else {
        for (std::int64_t j = 0; j < visible; ++j) gradient[j] = row[j] * (gradient[j] - delta[at]);
      }
      std::fill(row + visible, row + columns, C{0});
      std::fill(gradient + visible, gradient + columns, C{0});
    }
    Multiply({.transpose_a = true, .m = columns, .n = d, .k = rows}, C{1}, p, kKeyTile, grad_o, d,
             C{1}, dv + key * d, d);
    Multiply({.m = rows, .n = d, .k = columns}, scale, dp, kKeyTile, k + key * d, d, C{1}, dq, d);
    Multiply({.transpose_a = true, .m = columns, .n = d, .k = rows}, scale, dp, kKeyTile, q, d,
             C{1}, dk + key * d, d);
  };

  for (std::int64_t sample = 0; sample < size.samples; ++sample) {
    for (std::int64_t head = 0; head < size.heads; ++head) {
      const std::int64_t k_offset = size.KOffset(sample, head / size.group);
      const std::int64_t v_offset = size.VOffset(sample, head / size.group);
      if (head % size.group == 0) {
        PackKeys(size, Read<T>(call, 2) + k_offset, k);
        PackKeys(size, Read<T>(call, 2) + v_offset, v);
        std::fill(dk, dk + size.keys * d, C{0});
        std::fill(dv, dv + size.keys * d, C{0});
      }
      const std::int64_t stride = size.q_stride();
      ForEachQueryTile(
          size, kQueryTile, [&](std::int64_t local, std::int64_t position, std::int64_t rows) {
            const std::int64_t offset = size.QOffset(sample, head) + local * stride;
            PackRows(Read<T>(call, 0) + offset, stride, rows, d, grad_o);
            PackRows(Read<T>(call, 1) + offset, stride, rows, d, q);
            PackRows(Read<T>(call, 3) + offset, stride, rows, d, dq);  // o, until delta is known.
            for (std::int64_t i = 0; i < rows; ++i) {
              const auto at = static_cast<std::size_t>(i);
              delta[at] =
                  LaneSum<C>(d, [&](std::int64_t j) { return grad_o[i * d + j] * dq[i * d + j]; });
              log_sum[at] =
                  Read<C>(call, 4)[((local + i) * size.samples + sample) * size.heads + head];
            }
            std::fill(dq, dq + rows * d, C{0});
            for (std::int64_t key = 0; key < position + rows; key += kKeyTile) {
              tile(sample, head, position, rows, key);
            }
            UnpackRows(dq, rows, d, Write<T>(call, 0) + offset, stride);
          });
      if (head % size.group == size.group - 1) {
        UnpackKeys(size, dk, Write<T>(call, 1) + k_offset);
        UnpackKeys(size, dv, Write<T>(call, 1) + v_offset);
      }
    }
  }
}

}  // namespace

std::size_t FlashScratchBytes(const OpShape& shape) {
  const AttentionSizes size(shape);
  const auto of = [&]<typename C>(C) {
    return 4 * Scratch::Bytes<C>(size.keys * size.head_dim) +
           3 * Scratch::Bytes<C>(kQueryTile * size.head_dim) +
           2 * Scratch::Bytes<C>(kQueryTile * kKeyTile);
  };
  return shape.dtype == Dtype::kFp64 ? of(double{}) : of(float{});
}

TWINSTEP_VECTOR_CLONES void AttentionForward(const KernelCall& call) {
  WithElement(call.shape.dtype, [&](auto element) { Forward<decltype(element)>(call); });
}

TWINSTEP_VECTOR_CLONES void AttentionBackward(const KernelCall& call) {
  WithElement(call.shape.dtype, [&](auto element) { Backward<decltype(element)>(call); });
}

}  // namespace twinstep
