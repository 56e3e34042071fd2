#include "exec/cpu/gemm.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "exec/cpu/blas.h"
#include "exec/cpu/element.h"
#include "exec/cpu/operands.h"
#include "exec/cpu/scratch.h"
#include "exec/cpu/vector_clones.h"

namespace twinstep {
namespace {

// The operand as numbers to compute with: itself, or widened into scratch.
template <typename T>
const Compute<T>* Widen(const T* x, std::int64_t elements, Scratch& scratch) {
  if constexpr (std::is_same_v<T, Compute<T>>) {
    return x;
  } else {
    Compute<T>* wide = scratch.Take<Compute<T>>(elements);
    for (std::int64_t i = 0; i < elements; ++i) wide[i] = Load(x[i]);
    return wide;
  }
}

// Where to compute a result: in place, or in scratch if it is stored narrower.
template <typename T>
Compute<T>* Result(T* y, std::int64_t elements, Scratch& scratch) {
  if constexpr (std::is_same_v<T, Compute<T>>) {
    return y;
  } else {
    return scratch.Take<Compute<T>>(elements);
  }
}

template <typename T>
void Narrow(const Compute<T>* wide, std::int64_t elements, T* y) {
  if constexpr (!std::is_same_v<T, Compute<T>>) {
    for (std::int64_t i = 0; i < elements; ++i) Store(wide[i], &y[i]);
  }
}

// sum[j] = dy[0][j] + dy[1][j] + ..., then added to db.
template <typename C, typename G>
void BiasGradient(const C* dy, std::int64_t n, std::int64_t out, const G* previous, C* sum, G* db) {
  std::fill(sum, sum + out, C{0});
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < out; ++j) sum[j] += dy[i * out + j];
  }
  for (std::int64_t j = 0; j < out; ++j) {
    Store(previous == nullptr ? sum[j] : Load(previous[j]) + sum[j], &db[j]);
  }
}

template <typename T>
void Forward(const KernelCall& call) {
  using C = Compute<T>;
  const std::int64_t n = Dim(call, 0), out = Dim(call, 1), in = Dim(call, 2);
  Scratch scratch(GemmScratchBytes(call.shape));
  const C* x = Widen(Read<T>(call, 0), n * in, scratch);
  const C* w = Widen(Read<T>(call, 1), out * in, scratch);
  C* y = Result(Write<T>(call, 0), n * out, scratch);
  Multiply({.transpose_b = true, .m = n, .n = out, .k = in}, C{1}, x, in, w, in, C{0}, y, out);
  if (Has(call, kHasBias)) {
    const T* bias = Read<T>(call, 2);
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < out; ++j) y[i * out + j] += Load(bias[j]);
    }
  }
  Narrow(y, n * out, Write<T>(call, 0));
}

template <typename T>
void Dgrad(const KernelCall& call) {
  using C = Compute<T>;
  const std::int64_t n = Dim(call, 0), out = Dim(call, 1), in = Dim(call, 2);
  Scratch scratch(GemmScratchBytes(call.shape));
  const C* dy = Widen(Read<T>(call, 0), n * out, scratch);
  const C* w = Widen(Read<T>(call, 1), out * in, scratch);
  C* dx = Result(Write<T>(call, 0), n * in, scratch);
  Multiply({.m = n, .n = in, .k = out}, C{1}, dy, out, w, in, C{0}, dx, in);
  Narrow(dx, n * in, Write<T>(call, 0));
}

template <typename T, typename G>
void Wgrad(const KernelCall& call) {
  using C = Compute<T>;
  const std::int64_t n = Dim(call, 0), out = Dim(call, 1), in = Dim(call, 2);
  const bool accumulates = Has(call, kAccumulateGradient);
  Scratch scratch(GemmScratchBytes(call.shape));
  const C* x = Widen(Read<T>(call, 0), n * in, scratch);
  const C* dy = Widen(Read<T>(call, 1), n * out, scratch);
  G* dw = Write<G>(call, 0);
  C* sum = Result(dw, out * in, scratch);
  if constexpr (!std::is_same_v<G, C>) {
    if (accumulates) {
      for (std::int64_t i = 0; i < out * in; ++i) sum[i] = Load(dw[i]);
    }
  }
  Multiply({.transpose_a = true, .m = out, .n = in, .k = n}, C{1}, dy, out, x, in,
           accumulates ? C{1} : C{0}, sum, in);
  Narrow(sum, out * in, dw);
  if (Has(call, kHasBias)) {
    BiasGradient(dy, n, out, accumulates ? Read<G>(call, 3) : nullptr, scratch.Take<C>(out),
                 Write<G>(call, 1));
  }
}

}  // namespace

std::size_t GemmScratchBytes(const OpShape& shape) {
  const std::int64_t n = shape.dims[0], out = shape.dims[1], in = shape.dims[2];
  const bool narrow = shape.dtype == Dtype::kBf16 || shape.dtype == Dtype::kFp16;
  const std::size_t bias = Scratch::Bytes<double>(out);
  if (!narrow) return bias;
  return bias + Scratch::Bytes<float>(n * in) + Scratch::Bytes<float>(n * out) +
         Scratch::Bytes<float>(out * in);
}

TWINSTEP_VECTOR_CLONES void GemmForward(const KernelCall& call) {
  WithElement(call.shape.dtype, [&](auto element) { Forward<decltype(element)>(call); });
}

TWINSTEP_VECTOR_CLONES void GemmDgrad(const KernelCall& call) {
  WithElement(call.shape.dtype, [&](auto element) { Dgrad<decltype(element)>(call); });
}

TWINSTEP_VECTOR_CLONES void GemmWgrad(const KernelCall& call) {
  WithElements(call.shape.dtype, call.gradient_dtype, [&](auto element, auto gradient) {
    Wgrad<decltype(element), decltype(gradient)>(call);
  });
}

}  // namespace twinstep
