// Elementary functions and sums that the compiler turns into vector code, with the same bits on
// every machine (the C library's differ between processors).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace twinstep {

namespace vector_math {

// e = 2^n e^r with |r| <= ln(2) / 2; Taylor's series of e^r up to r^degree is good to less than
// half a unit in the last place there.
template <typename C>
struct ExpConstants;
template <>
struct ExpConstants<float> {
  using Bits = std::int32_t;
  static constexpr int kDegree = 7, kMantissaBits = 23;
  static constexpr float kRoundMagic = 0x1.8p23f;      // Adding it rounds to an integer.
  static constexpr float kLn2High = 0x1.62ep-1f;       // Few bits, so that n times it is exact.
  static constexpr float kLn2Low = 0x1.0bfbe8e7p-15f;  // ln 2 - kLn2High
  static constexpr float kLargest = 88.722839f, kSmallest = -86.5f;
};
template <>
struct ExpConstants<double> {
  using Bits = std::int64_t;
  static constexpr int kDegree = 13, kMantissaBits = 52;
  static constexpr double kRoundMagic = 0x1.8p52;
  static constexpr double kLn2High = 0x1.62e42fefa38p-1;
  static constexpr double kLn2Low = 0x1.ef35793c7673p-45;
  static constexpr double kLargest = 709.782712893384, kSmallest = -707.5;
};

template <typename C>
constexpr auto InverseFactorials() {
  std::array<C, ExpConstants<C>::kDegree + 1> inverse{};
  double factorial = 1;
  for (std::size_t k = 0; k < inverse.size(); ++k) {
    if (k > 0) factorial *= static_cast<double>(k);
    inverse[k] = static_cast<C>(1 / factorial);
  }
  return inverse;
}

}  // namespace vector_math

// e^x within two units in the last place; 0 below kSmallest, where 2^n would be subnormal.
template <typename C>
inline C Exp(C x) {
  using K = vector_math::ExpConstants<C>;
  using Bits = typename K::Bits;
  constexpr auto kInverse = vector_math::InverseFactorials<C>();
  constexpr C kLog2E = static_cast<C>(1.44269504088896340736);
  C bounded = x < K::kSmallest ? K::kSmallest : x;
  bounded = bounded > K::kLargest ? K::kLargest : bounded;
  const C shifted = bounded * kLog2E + K::kRoundMagic;
  const C n = shifted - K::kRoundMagic;
  const C r = (bounded - n * K::kLn2High) - n * K::kLn2Low;
  C sum = kInverse[K::kDegree];
  for (int k = K::kDegree - 1; k >= 0; --k) sum = sum * r + kInverse[static_cast<std::size_t>(k)];
  // The low bits of `shifted` are n. Half of 2^n, for n may be one above the largest exponent.
  const Bits exponent = std::bit_cast<Bits>(shifted) - std::bit_cast<Bits>(K::kRoundMagic);
  constexpr Bits kOneHalf = std::bit_cast<Bits>(C{0.5});
  C result = sum * std::bit_cast<C>(kOneHalf + (exponent << K::kMantissaBits)) * C{2};
  result = x < K::kSmallest ? C{0} : result;
  return x > K::kLargest ? std::numeric_limits<C>::infinity() : result;
}

// 1 / (1 + e^-x)
template <typename C>
inline C Sigmoid(C x) {
  return C{1} / (C{1} + Exp(-x));
}

// Sums of value(i) for i in [0, count), in an order that depends on `count` alone: sixteen partial
// sums, added pairwise.
inline constexpr std::int64_t kSumLanes = 16;

template <typename C>
inline C AddLanes(std::array<C, kSumLanes>& lanes) {
  for (std::size_t half = kSumLanes / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

template <typename C, typename Value>
inline C LaneSum(std::int64_t count, Value&& value) {
  std::array<C, kSumLanes> lanes{};
  std::int64_t i = 0;
  for (; i + kSumLanes <= count; i += kSumLanes) {
    for (std::int64_t lane = 0; lane < kSumLanes; ++lane) {
      lanes[static_cast<std::size_t>(lane)] += value(i + lane);
    }
  }
  for (; i < count; ++i) lanes[static_cast<std::size_t>(i % kSumLanes)] += value(i);
  return AddLanes(lanes);
}

template <typename C, typename Value>
inline C LaneMax(std::int64_t count, Value&& value) {
  std::array<C, kSumLanes> lanes;
  lanes.fill(-std::numeric_limits<C>::infinity());
  std::int64_t i = 0;
  for (; i + kSumLanes <= count; i += kSumLanes) {
    for (std::int64_t lane = 0; lane < kSumLanes; ++lane) {
      const C x = value(i + lane);
      C& max = lanes[static_cast<std::size_t>(lane)];
      max = x > max ? x : max;
    }
  }
  C max = *std::max_element(lanes.begin(), lanes.end());
  for (; i < count; ++i) max = std::max(max, value(i));
  return max;
}

}  // namespace twinstep
