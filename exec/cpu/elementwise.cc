#include "exec/cpu/elementwise.h"

#include <cstdint>
#include <cstring>

#include "exec/cpu/element.h"
#include "exec/cpu/operands.h"
#include "exec/cpu/vector_clones.h"
#include "exec/cpu/vector_math.h"

namespace twinstep {
namespace {

// GELU(u) = u sigmoid(2 w), w = sqrt(2 / pi) (u + 0.044715 u^3), since (1 + tanh w) / 2 is
// sigmoid(2 w).
constexpr double kGeluScale = 2 * 0.79788456080286535588;
constexpr double kGeluCubic = 0.044715;

template <typename C>
C GeluGate(C u) {
  constexpr C kLinear = static_cast<C>(kGeluScale);
  constexpr C kCubic = static_cast<C>(kGeluScale * kGeluCubic);
  return Sigmoid(u * (kLinear + kCubic * u * u));
}

template <typename C>
C Gelu(C u) {
  return u * GeluGate(u);
}

template <typename C>
C GeluGradient(C u) {
  constexpr C kLinear = static_cast<C>(kGeluScale);
  constexpr C kCubic = static_cast<C>(3 * kGeluScale * kGeluCubic);
  const C gate = GeluGate(u);
  return gate + u * gate * (C{1} - gate) * (kLinear + kCubic * u * u);
}

template <typename C>
C SiluGradient(C u) {
  const C gate = Sigmoid(u);
  return gate * (C{1} + u * (C{1} - gate));
}

// y[i] = function(x[i])
template <typename T, typename Function>
void Map(const T* x, std::int64_t elements, T* y, Function&& function) {
  for (std::int64_t i = 0; i < elements; ++i) Store(function(Load(x[i])), &y[i]);
}

// y[i] = function(a[i], b[i])
template <typename T, typename Function>
void Map(const T* a, const T* b, std::int64_t elements, T* y, Function&& function) {
  for (std::int64_t i = 0; i < elements; ++i) Store(function(Load(a[i]), Load(b[i])), &y[i]);
}

constexpr auto kProduct = [](auto a, auto b) { return a * b; };
constexpr auto kSum = [](auto a, auto b) { return a + b; };

template <typename T>
void Activation(const KernelCall& call) {
  using C = Compute<T>;
  const std::int64_t elements = Dim(call, 0) * Dim(call, 1);
  if (Has(call, kRelu)) {
    Map(Read<T>(call, 0), elements, Write<T>(call, 0), [](C u) { return u > 0 ? u : C{0}; });
  } else {
    Map(Read<T>(call, 0), elements, Write<T>(call, 0), [](C u) { return Gelu(u); });
  }
}

template <typename T>
void ActivationGradient(const KernelCall& call) {
  using C = Compute<T>;
  const std::int64_t elements = Dim(call, 0) * Dim(call, 1);
  const T* dy = Read<T>(call, 0);
  const T* u = Read<T>(call, 1);
  if (Has(call, kRelu)) {
    Map(dy, u, elements, Write<T>(call, 0), [](C g, C x) { return x > 0 ? g : C{0}; });
  } else {
    Map(dy, u, elements, Write<T>(call, 0), [](C g, C x) { return g * GeluGradient(x); });
  }
}

// In a row of gate_up[n, 2 f] the gate half comes first.

template <typename T>
void Silu(const KernelCall& call) {
  using C = Compute<T>;
  const std::int64_t n = Dim(call, 0), f = Dim(call, 1);
  for (std::int64_t i = 0; i < n; ++i) {
    Map(Read<T>(call, 0) + i * 2 * f, f, Write<T>(call, 0) + i * f,
        [](C u) { return u * Sigmoid(u); });
  }
}

template <typename T>
void SiluGradients(const KernelCall& call) {
  using C = Compute<T>;
  const std::int64_t n = Dim(call, 0), f = Dim(call, 1);
  for (std::int64_t i = 0; i < n; ++i) {
    Map(Read<T>(call, 0) + i * f, Read<T>(call, 1) + i * 2 * f, f, Write<T>(call, 0) + i * 2 * f,
        [](C g, C x) { return g * SiluGradient(x); });
  }
}

template <typename T>
void Mul(const KernelCall& call) {
  const std::int64_t n = Dim(call, 0), f = Dim(call, 1);
  for (std::int64_t i = 0; i < n; ++i) {
    Map(Read<T>(call, 0) + i * f, Read<T>(call, 1) + i * 2 * f + f, f, Write<T>(call, 0) + i * f,
        kProduct);
  }
}

template <typename T>
void MulGradients(const KernelCall& call) {
  const std::int64_t n = Dim(call, 0), f = Dim(call, 1);
  for (std::int64_t i = 0; i < n; ++i) {
    const T* dact = Read<T>(call, 0) + i * f;
    const T* silu = Read<T>(call, 1) + i * f;
    const T* up = Read<T>(call, 2) + i * 2 * f + f;
    Map(dact, up, f, Write<T>(call, 0) + i * f, kProduct);
    Map(dact, silu, f, Write<T>(call, 1) + i * 2 * f + f, kProduct);
  }
}

template <typename T>
void Sum(const KernelCall& call) {
  const std::int64_t n = Dim(call, 0), f = Dim(call, 1);
  const T* a = Read<T>(call, 0);
  const T* b = Read<T>(call, 1);
  T* y = Write<T>(call, 0);
  if (!Has(call, kHasBias)) {
    Map(a, b, n * f, y, kSum);
    return;
  }
  const T* bias = Read<T>(call, 2);
  for (std::int64_t i = 0; i < n * f; i += f) {
    for (std::int64_t j = 0; j < f; ++j) {
      Store((Load(a[i + j]) + Load(bias[j])) + Load(b[i + j]), &y[i + j]);
    }
  }
}

}  // namespace

TWINSTEP_VECTOR_CLONES void ActivationForward(const KernelCall& call) {
  WithElement(call.shape.dtype, [&](auto element) { Activation<decltype(element)>(call); });
}

TWINSTEP_VECTOR_CLONES void ActivationBackward(const KernelCall& call) {
  WithElement(call.shape.dtype, [&](auto element) { ActivationGradient<decltype(element)>(call); });
}

TWINSTEP_VECTOR_CLONES void SiluForward(const KernelCall& call) {
  WithElement(call.shape.dtype, [&](auto element) { Silu<decltype(element)>(call); });
}

TWINSTEP_VECTOR_CLONES void SiluBackward(const KernelCall& call) {
  WithElement(call.shape.dtype, [&](auto element) { SiluGradients<decltype(element)>(call); });
}

TWINSTEP_VECTOR_CLONES void MulForward(const KernelCall& call) {
  WithElement(call.shape.dtype, [&](auto element) { Mul<decltype(element)>(call); });
}

TWINSTEP_VECTOR_CLONES void MulBackward(const KernelCall& call) {
  WithElement(call.shape.dtype, [&](auto element) { MulGradients<decltype(element)>(call); });
}

TWINSTEP_VECTOR_CLONES void Add(const KernelCall& call) {
  WithElement(call.shape.dtype, [&](auto element) { Sum<decltype(element)>(call); });
}

TWINSTEP_VECTOR_CLONES void Accumulate(const KernelCall& call) {
  WithElement(call.shape.dtype, [&](auto element) {
    using T = decltype(element);
    Map(Read<T>(call, 1), Read<T>(call, 0), Dim(call, 0), Write<T>(call, 0), kSum);
  });
}

void CopyOnDevice(const KernelCall& call) {
  std::memcpy(call.writes[0], call.reads[0], static_cast<std::size_t>(Dim(call, 0)));
}

}  // namespace twinstep
