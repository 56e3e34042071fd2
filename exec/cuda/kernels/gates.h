// Activations and their derivatives, number by number.
#pragma once

#include <cmath>

#include "exec/cuda/kernels/host_device.h"

namespace twinstep::cuda {

// e^x and 1 / x to a few units in the last place, from the GPU's special function unit.
TWINSTEP_HD double FastExp(double x) { return exp(x); }
TWINSTEP_HD double FastInverse(double x) { return 1 / x; }
#ifdef __CUDA_ARCH__
TWINSTEP_HD float FastExp(float x) { return __expf(x); }
TWINSTEP_HD float FastInverse(float x) { return __fdividef(1.0f, x); }
#else
TWINSTEP_HD float FastExp(float x) { return std::exp(x); }
TWINSTEP_HD float FastInverse(float x) { return 1 / x; }
#endif

template <typename C>
TWINSTEP_HD C Sigmoid(C x) {
  // Past the bound e^-x is infinite, and the fast inverse of numbers above 2^126 need not be 0.
  const C bound = static_cast<C>(-80);
  return FastInverse(C{1} + FastExp(-(x < bound ? bound : x)));
}

// GELU(u) = u sigmoid(2 w), w = sqrt(2 / pi) (u + 0.044715 u^3), the tanh approximation (Hendrycks
// and Gimpel 2016), since (1 + tanh w) / 2 is sigmoid(2 w).
inline constexpr double kGeluScale = 2 * 0.79788456080286535588;
inline constexpr double kGeluCubic = 0.044715;

template <typename C>
TWINSTEP_HD C GeluGate(C u) {
  return Sigmoid(u *
                 (static_cast<C>(kGeluScale) + static_cast<C>(kGeluScale * kGeluCubic) * u * u));
}

// From inputs (in[0], ...) to outputs (out[0], ...) of one element.

struct Gelu {
  static constexpr int kInputs = 1, kOutputs = 1;
  template <typename C>
  TWINSTEP_HD static void Apply(const C* in, C* out) {
    out[0] = in[0] * GeluGate(in[0]);
  }
};

struct GeluGradient {  // dy, u -> du
  static constexpr int kInputs = 2, kOutputs = 1;
  template <typename C>
  TWINSTEP_HD static void Apply(const C* in, C* out) {
    const C u = in[1];
    const C gate = GeluGate(u);
    const C slope =
        static_cast<C>(kGeluScale) + static_cast<C>(3 * kGeluScale * kGeluCubic) * u * u;
    out[0] = in[0] * (gate + u * gate * (C{1} - gate) * slope);
  }
};

struct Relu {
  static constexpr int kInputs = 1, kOutputs = 1;
  template <typename C>
  TWINSTEP_HD static void Apply(const C* in, C* out) {
    out[0] = in[0] > 0 ? in[0] : C{0};
  }
};

struct ReluGradient {  // dy, u -> du
  static constexpr int kInputs = 2, kOutputs = 1;
  template <typename C>
  TWINSTEP_HD static void Apply(const C* in, C* out) {
    out[0] = in[1] > 0 ? in[0] : C{0};
  }
};

struct Silu {
  static constexpr int kInputs = 1, kOutputs = 1;
  template <typename C>
  TWINSTEP_HD static void Apply(const C* in, C* out) {
    out[0] = in[0] * Sigmoid(in[0]);
  }
};

struct SiluGradient {  // dsilu, gate -> dgate
  static constexpr int kInputs = 2, kOutputs = 1;
  template <typename C>
  TWINSTEP_HD static void Apply(const C* in, C* out) {
    const C u = in[1];
    const C gate = Sigmoid(u);
    out[0] = in[0] * (gate * (C{1} + u * (C{1} - gate)));
  }
};

struct Product {
  static constexpr int kInputs = 2, kOutputs = 1;
  template <typename C>
  TWINSTEP_HD static void Apply(const C* in, C* out) {
    out[0] = in[0] * in[1];
  }
};

struct ProductGradients {  // dact, silu, up -> dsilu, dup
  static constexpr int kInputs = 3, kOutputs = 2;
  template <typename C>
  TWINSTEP_HD static void Apply(const C* in, C* out) {
    out[0] = in[0] * in[2];
    out[1] = in[0] * in[1];
  }
};

struct Sum {
  static constexpr int kInputs = 2, kOutputs = 1;
  template <typename C>
  TWINSTEP_HD static void Apply(const C* in, C* out) {
    out[0] = in[0] + in[1];
  }
};

struct BiasedSum {  // a, b, bias of a
  static constexpr int kInputs = 3, kOutputs = 1;
  template <typename C>
  TWINSTEP_HD static void Apply(const C* in, C* out) {
    out[0] = (in[0] + in[2]) + in[1];
  }
};

}  // namespace twinstep::cuda
