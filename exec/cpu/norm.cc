#include "exec/cpu/norm.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "exec/cpu/element.h"
#include "exec/cpu/operands.h"
#include "exec/cpu/scratch.h"
#include "exec/cpu/vector_clones.h"
#include "exec/cpu/vector_math.h"

namespace twinstep {
namespace {

template <typename C>
struct Statistics {
  C mean, inverse;  // inverse = 1 / sqrt(variance + epsilon)
};

template <typename T>
Statistics<Compute<T>> RowStatistics(const T* x, std::int64_t h, bool rms) {
  using C = Compute<T>;
  const C size = static_cast<C>(h);
  const C mean = rms ? C{0} : LaneSum<C>(h, [x](std::int64_t j) { return Load(x[j]); }) / size;
  const C square = LaneSum<C>(h,
                              [x, mean](std::int64_t j) {
                                const C centred = Load(x[j]) - mean;
                                return centred * centred;
                              }) /
                   size;
  return {mean, C{1} / std::sqrt(square + static_cast<C>(kNormEpsilon))};
}

template <typename T>
void Forward(const KernelCall& call) {
  using C = Compute<T>;
  const std::int64_t n = Dim(call, 0), h = Dim(call, 1);
  const bool rms = Has(call, kRmsNorm);
  const T* gamma = Read<T>(call, 1);
  const T* beta = rms ? nullptr : Read<T>(call, 2);
  for (std::int64_t i = 0; i < n; ++i) {
    const T* x = Read<T>(call, 0) + i * h;
    T* y = Write<T>(call, 0) + i * h;
    const auto [mean, inverse] = RowStatistics(x, h, rms);
    if (rms) {
      for (std::int64_t j = 0; j < h; ++j) Store(Load(x[j]) * inverse * Load(gamma[j]), &y[j]);
    } else {
      for (std::int64_t j = 0; j < h; ++j) {
        const C normed = (Load(x[j]) - mean) * inverse;
        Store(normed * Load(gamma[j]) + Load(beta[j]), &y[j]);
      }
    }
  }
}

// With normed = (x - mean) inverse and g = dy gamma:
// dx = inverse (g - mean(g) - normed mean(g normed)); RMSNorm has neither mean.
template <typename T, typename G>
void Backward(const KernelCall& call) {
  using C = Compute<T>;
  const std::int64_t n = Dim(call, 0), h = Dim(call, 1);
  const bool rms = Has(call, kRmsNorm);
  const bool has_residual = Has(call, kHasResidual);
  const T* gamma = Read<T>(call, 2);
  Scratch scratch(NormScratchBytes(call.shape));
  C* dgamma = scratch.Take<C>(h);
  C* dbeta = scratch.Take<C>(h);
  std::fill(dgamma, dgamma + h, C{0});
  std::fill(dbeta, dbeta + h, C{0});
  for (std::int64_t i = 0; i < n; ++i) {
    const T* dy = Read<T>(call, 0) + i * h;
    const T* x = Read<T>(call, 1) + i * h;
    T* dx = Write<T>(call, 0) + i * h;
    const auto [mean, inverse] = RowStatistics(x, h, rms);
    const auto normed = [x, mean = mean, inverse = inverse](std::int64_t j) {
      return (Load(x[j]) - mean) * inverse;
    };
    const auto scaled = [dy, gamma](std::int64_t j) { return Load(dy[j]) * Load(gamma[j]); };
    const C size = static_cast<C>(h);
    const C mean_scaled = rms ? C{0} : LaneSum<C>(h, scaled) / size;
    const C mean_product =
        LaneSum<C>(h, [&](std::int64_t j) { return scaled(j) * normed(j); }) / size;
    for (std::int64_t j = 0; j < h; ++j) dgamma[j] += Load(dy[j]) * normed(j);
    if (!rms) {
      for (std::int64_t j = 0; j < h; ++j) dbeta[j] += Load(dy[j]);
    }
    const auto gradient = [&, inverse = inverse](std::int64_t j) {
      return inverse * (scaled(j) - mean_scaled - normed(j) * mean_product);
    };
    if (has_residual) {
      const T* residual = Read<T>(call, 3) + i * h;
      for (std::int64_t j = 0; j < h; ++j) Store(gradient(j) + Load(residual[j]), &dx[j]);
    } else {
      for (std::int64_t j = 0; j < h; ++j) Store(gradient(j), &dx[j]);
    }
  }
  const bool accumulates = Has(call, kAccumulateGradient);
  const auto write = [&](const C* sum, G* out) {
    for (std::int64_t j = 0; j < h; ++j)
      Store(accumulates ? Load(out[j]) + sum[j] : sum[j], &out[j]);
  };
  write(dgamma, Write<G>(call, 1));
  if (!rms) write(dbeta, Write<G>(call, 2));
}

}  // namespace

std::size_t NormScratchBytes(const OpShape& shape) {
  return 2 * Scratch::Bytes<double>(shape.dims[1]);
}

TWINSTEP_VECTOR_CLONES void NormForward(const KernelCall& call) {
  WithElement(call.shape.dtype, [&](auto element) { Forward<decltype(element)>(call); });
}

TWINSTEP_VECTOR_CLONES void NormBackward(const KernelCall& call) {
  WithElements(call.shape.dtype, call.gradient_dtype, [&](auto element, auto gradient) {
    Backward<decltype(element), decltype(gradient)>(call);
  });
}

}  // namespace twinstep
