// Element types of the CPU backend: how a stored element becomes a number and back.
//
// bf16 and fp16 are storage: Load is exact, Store rounds to nearest even (too large a number
// becomes infinity, NaN stays NaN). All of it is free of branches, so that loops over elements
// become vector code.
#pragma once

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <type_traits>
#include <utility>

#include "sim/graph/ids.h"

namespace twinstep {

struct Bf16 {
  std::uint16_t bits = 0;
};
struct Fp16 {
  std::uint16_t bits = 0;
};

inline float Load(float x) { return x; }
inline double Load(double x) { return x; }
inline float Load(Bf16 x) { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }
inline float Load(Fp16 x) {
  const std::uint32_t magnitude = (x.bits & 0x7fffu) << 13;
  const std::uint32_t sign = (x.bits & 0x8000u) << 16;
  // The exponents' biases differ by 112; the multiplication also normalises subnormals.
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112f;
  const std::uint32_t finite = std::bit_cast<std::uint32_t>(scaled);
  // Infinity and NaN have the largest exponent in both formats.
  const std::uint32_t bits = magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : finite;
  return std::bit_cast<float>(bits | sign);
}

inline void Store(float x, float* out) { *out = x; }
inline void Store(double x, double* out) { *out = x; }
inline void Store(float x, Bf16* out) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  // A NaN must not be rounded up to an infinity or to zero.
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  out->bits = static_cast<std::uint16_t>((nan ? bits | 0x400000u : rounded) >> 16);
}
inline void Store(float x, Fp16* out) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  // Half of an fp16's last bit and the tie's even bit, then the difference of the biases.
  const std::uint32_t normal =
      (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - (std::uint32_t{112} << 23)) >> 13;
  // Adding 1/2 leaves the number in units of 2^-24, fp16's smallest, in the last bits.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  constexpr std::uint32_t kSmallestNormal = 0x38800000u;  // 2^-14
  constexpr std::uint32_t kTooLarge = 0x477ff000u;        // 65520 rounds to infinity.
  std::uint32_t result = magnitude < kSmallestNormal ? subnormal : normal;
  result = magnitude >= kTooLarge ? 0x7c00u : result;
  result = magnitude > 0x7f800000u ? 0x7e00u : result;
  out->bits = static_cast<std::uint16_t>(result | sign);
}

// The type that arithmetic on stored T is done in.
template <typename T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Calls function(T{}) with the element type of a floating-point dtype.
template <typename Function>
void WithElement(Dtype dtype, Function&& function) {
  switch (dtype) {
    case Dtype::kBf16:
      return std::forward<Function>(function)(Bf16{});
    case Dtype::kFp16:
      return std::forward<Function>(function)(Fp16{});
    case Dtype::kFp32:
      return std::forward<Function>(function)(float{});
    case Dtype::kFp64:
      return std::forward<Function>(function)(double{});
    case Dtype::kInt32:
    case Dtype::kUint8:
      break;
  }
  std::abort();  // No operation computes with integers.
}

// Calls function(T{}, G{}) with the element types of activations and of weight gradients (or
// optimizer states): the same, or the wider one that T computes in.
template <typename Function>
void WithElements(Dtype dtype, Dtype other, Function&& function) {
  WithElement(dtype, [&](auto element) {
    using T = decltype(element);
    if (other == dtype) {
      function(element, element);
    } else if (other == (std::is_same_v<T, double> ? Dtype::kFp64 : Dtype::kFp32)) {
      function(element, Compute<T>{});
    } else {
      std::abort();  // No recipe has such a pair.
    }
  });
}

}  // namespace twinstep
