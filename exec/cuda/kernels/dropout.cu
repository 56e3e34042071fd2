#include "exec/cuda/kernels/dropout.h"
#include "exec/cuda/kernels/element.cuh"
#include "exec/cuda/kernels/philox.h"
#include "exec/cuda/kernels/positions.h"
#include "exec/cuda/kernels/rows.cuh"

namespace twinstep::cuda {
namespace {

DropoutSite Site(const KernelCall& call) { return static_cast<DropoutSite>(call.shape.index); }

// Place of a value in DeviceStep's pairs.
int Pair(const KernelCall& call) {
  return Site(call) == DropoutSite::kAttentionProbabilities ? 1 : 0;
}

// The counters of a tensor [rows, width] of activations, or of attention probabilities [b, heads,
// s_q] by gathered keys.
struct Counters {
  const DeviceStep* step;
  std::uint32_t site, layer;
  int pair;
  TokenRows tokens;             // Of activations.
  std::int64_t queries, heads;  // Of probabilities; queries is 0 of activations.
  std::int64_t first_head;

  template <int kCount>
  __device__ void Draw(std::int64_t row, std::int64_t column, bool (&keep)[kCount]) const {
    const std::uint64_t key = DropoutKey(step->seed, step->step, site, layer);
    DropoutRow at;
    std::int64_t first = column;
    if (queries == 0) {
      at = {static_cast<std::uint32_t>(tokens.Sample(row)),
            static_cast<std::uint32_t>(tokens.Position(row)), 0};
    } else {
      const std::int64_t head = row / queries;
      const std::int64_t sample = head / heads;
      at = {static_cast<std::uint32_t>(tokens.first_sample + sample),
            static_cast<std::uint32_t>(tokens.positions.Global(row - head * queries)),
            static_cast<std::uint32_t>(first_head + (head - sample * heads))};
      first = GatheredPosition(tokens.positions, column);
    }
    DrawKeep(key, step->threshold[pair], at, first, keep);
  }
};

Counters MakeCounters(const KernelCall& call) {
  const TaskPlace& place = call.place;
  const std::int64_t rows = call.shape.dims[0];
  Counters counters{call.step,
                    static_cast<std::uint32_t>(call.shape.index),
                    static_cast<std::uint32_t>(place.block),
                    Pair(call),
                    MakeTokenRows(place, rows),
                    0,
                    1,
                    0};
  if (Site(call) == DropoutSite::kAttentionProbabilities) {
    counters.queries = place.sequence_length / place.context_parallel;
    counters.heads = rows / (counters.queries * place.micro_batch_size);
    counters.first_head = place.tp * counters.heads;
  }
  return counters;
}

// Whether `run` elements that start at a multiple of it have consecutive counters.
bool CountersRun(const KernelCall& call, std::int64_t run) {
  if (Site(call) != DropoutSite::kAttentionProbabilities) return true;
  const Positions positions =
      MakePositions(call.place.sequence_length, call.place.cp, call.place.context_parallel);
  return positions.piece % run == 0;
}

// y = dropout(z + bias) + residual and the mask; bias and residual may be null.
template <typename T, bool kAdds>
struct Forward {
  static constexpr int kWidest = kWide<T>;
  Counters counters;
  std::int64_t width;
  const T *z, *residual, *bias;
  T* y;
  std::uint8_t* mask;

  template <int kCount>
  struct Input {
    Run<T, kCount> z, residual;
  };

  template <int kCount>
  __device__ Input<kCount> Load(std::int64_t row, std::int64_t column) const {
    Input<kCount> input;
    input.z = Run<T, kCount>::Load(z + row * width + column);
    if constexpr (kAdds) {
      input.residual = Run<T, kCount>::Load(residual + row * width + column);
    }
    return input;
  }

  template <int kCount>
  __device__ void Finish(std::int64_t row, std::int64_t column, const Input<kCount>& input) const {
    using C = Compute<T>;
    bool keep[kCount];
    counters.Draw(row, column, keep);
    const C scale = static_cast<C>(counters.step->scale[counters.pair]);
    auto shift = Run<T, kCount>::Zero();
    if (kAdds && bias != nullptr) shift = Run<T, kCount>::Load(bias + column);
    Run<T, kCount> result;
    Run<std::uint8_t, kCount> flags;
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      C value = input.z.Get(j);
      if (kAdds && bias != nullptr) value += shift.Get(j);
      value = keep[j] ? value * scale : C{0};
      if constexpr (kAdds) value += input.residual.Get(j);
      result.Set(j, value);
      flags[j] = keep[j] ? 1 : 0;
    }
    result.Store(y + row * width + column);
    flags.Store(mask + row * width + column);
  }
};

template <typename T, bool kAdds>
cudaError_t LaunchForward(const KernelCall& call) {
  const std::int64_t rows = call.shape.dims[0], width = call.shape.dims[1];
  Forward<T, kAdds> body{
      MakeCounters(call),          width, Read<T>(call, 0), nullptr, nullptr, Write<T>(call, 0),
      Write<std::uint8_t>(call, 1)};
  if constexpr (kAdds) {
    body.residual = Read<T>(call, 1);
    if (Has(call, kHasBias)) body.bias = Read<T>(call, 2);
  }
  constexpr int kWidest = kWide<T>;
  // A lone row would not keep counters at columns past the last whole run; rows.cuh runs the rest
  // with its own columns, so that one row is no special case.
  const bool aligned = Aligned(16, body.z, body.residual, body.bias, body.y) &&
                       Aligned(kWidest, body.mask) && CountersRun(call, kWidest);
  return LaunchRows(rows, width, aligned, call.stream, body);
}

template <typename T>
struct Backward {
  static constexpr int kWidest = kWide<T>;
  const DeviceStep* step;
  int pair;
  const T* dy;
  const std::uint8_t* mask;
  T* dx;

  template <int kCount>
  struct Input {
    Run<T, kCount> dy;
    Run<std::uint8_t, kCount> mask;
  };

  template <int kCount>
  __device__ Input<kCount> Load(std::int64_t, std::int64_t column) const {
    return {Run<T, kCount>::Load(dy + column), Run<std::uint8_t, kCount>::Load(mask + column)};
  }

  template <int kCount>
  __device__ void Finish(std::int64_t, std::int64_t column, const Input<kCount>& input) const {
    using C = Compute<T>;
    const C scale = static_cast<C>(step->scale[pair]);
    Run<T, kCount> result;
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      result.Set(j, input.mask[j] != 0 ? input.dy.Get(j) * scale : C{0});
    }
    result.Store(dx + column);
  }
};

}  // namespace

cudaError_t LaunchDropoutForward(const KernelCall& call) {
  return WithElement(call.shape.dtype,
                     [&](auto element) { return LaunchForward<decltype(element), false>(call); });
}

cudaError_t LaunchDropoutAdd(const KernelCall& call) {
  return WithElement(call.shape.dtype,
                     [&](auto element) { return LaunchForward<decltype(element), true>(call); });
}

cudaError_t LaunchDropoutBackward(const KernelCall& call) {
  return WithElement(call.shape.dtype, [&](auto element) {
    using T = decltype(element);
    const Backward<T> body{call.step, Pair(call), Read<T>(call, 0), Read<std::uint8_t>(call, 1),
                           Write<T>(call, 0)};
    const bool aligned = Aligned(16, body.dy, body.dx) && Aligned(kWide<T>, body.mask);
    return LaunchRows(1, call.shape.dims[0] * call.shape.dims[1], aligned, call.stream, body);
  });
}

}  // namespace twinstep::cuda
