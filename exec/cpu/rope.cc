#include "exec/cpu/rope.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "exec/cpu/element.h"
#include "exec/cpu/operands.h"
#include "exec/cpu/positions.h"
#include "exec/cpu/scratch.h"

namespace twinstep {
namespace {

struct QkvSizes {
  explicit QkvSizes(const KernelCall& call)
      : samples(Dim(call, 0)),
        positions(Dim(call, 3)),
        head_dim(Dim(call, 5)),
        q_width(Dim(call, 1) * head_dim),
        kv_width(Dim(call, 2) * head_dim) {}

  std::int64_t samples, positions, head_dim;
  std::int64_t q_width;
  std::int64_t kv_width;  // Of keys, and as much of values.
};

// out = in with each head turned by the angles of one position (`sines` negated turns back).
template <typename T>
void Rotate(const T* in, std::int64_t width, std::int64_t head_dim, const Compute<T>* cosines,
            const Compute<T>* sines, T* out) {
  using C = Compute<T>;
  const std::int64_t half = head_dim / 2;
  for (std::int64_t head = 0; head < width; head += head_dim) {
    for (std::int64_t j = 0; j < half; ++j) {
      const C first = Load(in[head + j]);
      const C second = Load(in[head + half + j]);
      Store(first * cosines[j] - second * sines[j], &out[head + j]);
      Store(second * cosines[j] + first * sines[j], &out[head + half + j]);
    }
    // An odd head has one feature without partner.
    for (std::int64_t j = 2 * half; j < head_dim; ++j) out[head + j] = in[head + j];
  }
}

// Cosines and sines of position * frequency for positions that mostly follow each other: those of
// a position's block, turned on by its place in the block, so that most positions need no
// trigonometric function. Depends on the position alone.
class Angles {
 public:
  static constexpr std::int64_t kBlock = 16;

  static std::size_t ScratchBytes(std::int64_t half) {
    return 3 * Scratch::Bytes<double>(half) + 2 * Scratch::Bytes<double>(kBlock * half);
  }

  Angles(std::int64_t head_dim, Scratch& scratch)
      : half_(head_dim / 2),
        frequency_(scratch.Take<double>(half_)),
        block_cosine_(scratch.Take<double>(half_)),
        block_sine_(scratch.Take<double>(half_)),
        place_cosine_(scratch.Take<double>(kBlock * half_)),
        place_sine_(scratch.Take<double>(kBlock * half_)) {
    for (std::int64_t j = 0; j < half_; ++j) {
      frequency_[j] =
          std::pow(kRotaryBase, -2.0 * static_cast<double>(j) / static_cast<double>(head_dim));
    }
    for (std::int64_t i = 0; i < kBlock; ++i) {
      Fill(static_cast<double>(i), place_cosine_ + i * half_, place_sine_ + i * half_);
    }
  }

  template <typename C>
  void At(std::int64_t position, C sign, C* cosines, C* sines) {
    if (position / kBlock != block_) {
      block_ = position / kBlock;
      Fill(static_cast<double>(block_ * kBlock), block_cosine_, block_sine_);
    }
    const double* cosine = place_cosine_ + position % kBlock * half_;
    const double* sine = place_sine_ + position % kBlock * half_;
    for (std::int64_t j = 0; j < half_; ++j) {
      cosines[j] = static_cast<C>(block_cosine_[j] * cosine[j] - block_sine_[j] * sine[j]);
      sines[j] = sign * static_cast<C>(block_sine_[j] * cosine[j] + block_cosine_[j] * sine[j]);
    }
  }

 private:
  void Fill(double position, double* cosines, double* sines) const {
    for (std::int64_t j = 0; j < half_; ++j) {
      cosines[j] = std::cos(position * frequency_[j]);
      sines[j] = std::sin(position * frequency_[j]);
    }
  }

  std::int64_t half_;
  double *frequency_, *block_cosine_, *block_sine_, *place_cosine_, *place_sine_;
  std::int64_t block_ = -1;
};

// Calls move(row of the activation, cosines, sines) for every token; null angles without rotation.
template <typename C, typename Move>
void ForEachToken(const KernelCall& call, C sign, Move&& move) {
  const QkvSizes size(call);
  if (!Has(call, kRotary)) {
    const C* none = nullptr;
    for (std::int64_t row = 0; row < size.positions * size.samples; ++row) move(row, none, none);
    return;
  }
  const std::int64_t half = size.head_dim / 2;
  Scratch scratch(RotaryScratchBytes(call.shape));
  Angles angles(size.head_dim, scratch);
  C* cosines = scratch.Take<C>(half);
  C* sines = scratch.Take<C>(half);
  const LocalPositions positions(Dim(call, 4), call.shape.index, call.shape.count);
  for (std::int64_t i = 0; i < size.positions; ++i) {
    angles.At(positions.Global(i), sign, cosines, sines);
    for (std::int64_t b = 0; b < size.samples; ++b) {
      move(i * size.samples + b, static_cast<const C*>(cosines), static_cast<const C*>(sines));
    }
  }
}

template <typename T>
void Move(const T* in, std::int64_t width, std::int64_t head_dim, const Compute<T>* cosines,
          const Compute<T>* sines, T* out) {
  if (cosines == nullptr) {
    std::copy(in, in + width, out);
  } else {
    Rotate(in, width, head_dim, cosines, sines, out);
  }
}

template <typename T>
void Split(const KernelCall& call) {
  using C = Compute<T>;
  const QkvSizes size(call);
  ForEachToken(call, C{1}, [&](std::int64_t row, const C* cosines, const C* sines) {
    const T* qkv = Read<T>(call, 0) + row * (size.q_width + 2 * size.kv_width);
    T* q = Write<T>(call, 0) + row * size.q_width;
    T* kv = Write<T>(call, 1) + row * 2 * size.kv_width;
    Move(qkv, size.q_width, size.head_dim, cosines, sines, q);
    Move(qkv + size.q_width, size.kv_width, size.head_dim, cosines, sines, kv);
    const T* v = qkv + size.q_width + size.kv_width;
    std::copy(v, v + size.kv_width, kv + size.kv_width);
  });
}

template <typename T>
void Join(const KernelCall& call) {
  using C = Compute<T>;
  const QkvSizes size(call);
  ForEachToken(call, C{-1}, [&](std::int64_t row, const C* cosines, const C* sines) {
    const T* dq = Read<T>(call, 0) + row * size.q_width;
    const T* dkv = Read<T>(call, 1) + row * 2 * size.kv_width;
    T* dqkv = Write<T>(call, 0) + row * (size.q_width + 2 * size.kv_width);
    Move(dq, size.q_width, size.head_dim, cosines, sines, dqkv);
    Move(dkv, size.kv_width, size.head_dim, cosines, sines, dqkv + size.q_width);
    const T* dv = dkv + size.kv_width;
    std::copy(dv, dv + size.kv_width, dqkv + size.q_width + size.kv_width);
  });
}

}  // namespace

std::size_t RotaryScratchBytes(const OpShape& shape) {
  const std::int64_t half = shape.dims[5] / 2;
  return Angles::ScratchBytes(half) + 2 * Scratch::Bytes<double>(half);
}

void SplitQkv(const KernelCall& call) {
  WithElement(call.shape.dtype, [&](auto element) { Split<decltype(element)>(call); });
}

void SplitQkvBackward(const KernelCall& call) {
  WithElement(call.shape.dtype, [&](auto element) { Join<decltype(element)>(call); });
}

}  // namespace twinstep
