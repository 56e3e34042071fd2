#include "exec/cpu/loss.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "exec/cpu/element.h"
#include "exec/cpu/operands.h"
#include "exec/cpu/vector_clones.h"
#include "exec/cpu/vector_math.h"

namespace twinstep {
namespace {

// dims {n, V_local, global tokens, vocabulary without padding (0: none is padding)}
struct LossSizes {
  explicit LossSizes(const KernelCall& call)
      : n(Dim(call, 0)),
        width(Dim(call, 1)),
        first_column(call.shape.index * width),
        columns(Dim(call, 3) == 0
                    ? width
                    : std::clamp<std::int64_t>(Dim(call, 3) - first_column, 0, width)) {}

  // The label's column of this shard, or -1.
  std::int64_t Column(std::int32_t label) const {
    const std::int64_t column = label - first_column;
    return column >= 0 && column < columns ? column : -1;
  }

  std::int64_t n, width, first_column;
  std::int64_t columns;  // That are no padding.
};

template <typename T>
void Stats(const KernelCall& call) {
  using C = Compute<T>;
  const LossSizes size(call);
  const std::int32_t* labels = Read<std::int32_t>(call, 1);
  C* max = Write<C>(call, 0);
  C* sum = max + size.n;
  C* target = sum + size.n;
  for (std::int64_t i = 0; i < size.n; ++i) {
    const T* x = Read<T>(call, 0) + i * size.width;
    max[i] = LaneMax<C>(size.columns, [x](std::int64_t j) { return Load(x[j]); });
    const C largest = max[i];
    sum[i] = LaneSum<C>(size.columns,
                        [x, largest](std::int64_t j) { return Exp(Load(x[j]) - largest); });
    const std::int64_t column = size.Column(labels[i]);
    target[i] = column < 0 ? C{0} : Load(x[column]);
  }
}

template <typename C>
void Loss(const KernelCall& call) {
  const std::int64_t n = Dim(call, 0), shards = call.shape.count;
  const C* stats = Read<C>(call, 0);
  C* global_max = Write<C>(call, 1);
  C* global_sum = global_max + n;
  double loss = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    C max = -std::numeric_limits<C>::infinity();
    for (std::int64_t shard = 0; shard < shards; ++shard) {
      max = std::max(max, stats[shard * 3 * n + i]);
    }
    C sum = 0, target = 0;
    for (std::int64_t shard = 0; shard < shards; ++shard) {
      const C* of_shard = stats + shard * 3 * n + i;
      // A shard of padding alone has the maximum -infinity and the sum zero.
      sum += of_shard[n] * Exp(of_shard[0] - max);
      target += of_shard[2 * n];
    }
    global_max[i] = max;
    global_sum[i] = sum;
    loss += std::log(static_cast<double>(sum)) +
            (static_cast<double>(max) - static_cast<double>(target));
  }
  *Write<double>(call, 0) = loss / static_cast<double>(Dim(call, 2));
}

template <typename T>
void Backward(const KernelCall& call) {
  using C = Compute<T>;
  const LossSizes size(call);
  const std::int32_t* labels = Read<std::int32_t>(call, 1);
  const C* max = Read<C>(call, 2);
  const C* sum = max + size.n;
  const C weight = static_cast<C>(1 / static_cast<double>(Dim(call, 2)));
  for (std::int64_t i = 0; i < size.n; ++i) {
    const T* x = Read<T>(call, 0) + i * size.width;
    T* dx = Write<T>(call, 0) + i * size.width;
    const C largest = max[i];
    const C scale = weight / sum[i];
    // In place: the label's logit is read before it is overwritten.
    const std::int64_t column = size.Column(labels[i]);
    const C label_gradient = column < 0 ? C{0} : Exp(Load(x[column]) - largest) * scale - weight;
    for (std::int64_t j = 0; j < size.columns; ++j)
      Store(Exp(Load(x[j]) - largest) * scale, &dx[j]);
    std::fill(dx + size.columns, dx + size.width, T{});
    if (column >= 0) Store(label_gradient, &dx[column]);
  }
}

}  // namespace

TWINSTEP_VECTOR_CLONES void CrossEntropyStats(const KernelCall& call) {
  WithElement(call.shape.dtype, [&](auto element) { Stats<decltype(element)>(call); });
}

void CrossEntropyLoss(const KernelCall& call) {
  WithElement(call.shape.dtype, [&](auto element) { Loss<Compute<decltype(element)>>(call); });
}

TWINSTEP_VECTOR_CLONES void CrossEntropyBackward(const KernelCall& call) {
  WithElement(call.shape.dtype, [&](auto element) { Backward<decltype(element)>(call); });
}

}  // namespace twinstep
