// Exact arithmetic of progress. Work and rates are integers, so that a replay is the same on every
// machine and its closed forms hold to the picosecond.
//
// A rate is in units of 2^-12 bytes/s; work is in units of (rate unit) x picosecond, so bytes
// enter as bytes x 1e12 x 2^12: 128 bit. An activity of constant rate that starts at t ends at
//
//   t + latency + (bytes x 1e12 / rate, rounded to the nearest picosecond)
#pragma once

#include <cmath>
#include <cstdint>

#include "sim/cost/graph_costs.h"

namespace twinstep {

__extension__ typedef unsigned __int128 Work;
using FixedRate = std::uint64_t;

inline constexpr int kRateBits = 12;
// 1.1e15 bytes/s: what is faster is refused, so that no product overflows.
inline constexpr double kMaxRate = static_cast<double>(std::int64_t{1} << 50);
// A moment later than this (46 days) is refused.
inline constexpr Picoseconds kMaxTime = Picoseconds{4'000'000'000'000'000'000};

// Speeds in (0, 1], or above where a factor is below 1: units of 2^-40.
inline constexpr int kSpeedBits = 40;
inline constexpr std::uint64_t kFullSpeed = std::uint64_t{1} << kSpeedBits;

inline FixedRate ToFixedRate(double bytes_per_s) {
  const double units = std::nearbyint(bytes_per_s * (1 << kRateBits));
  return units < 1 ? 1 : static_cast<FixedRate>(units);
}

inline Work FlowWork(std::int64_t bytes) {
  return (static_cast<Work>(static_cast<std::uint64_t>(bytes)) * 1'000'000'000'000u) << kRateBits;
}

inline std::uint64_t ToSpeed(double speed) {
  const double units = std::nearbyint(speed * static_cast<double>(kFullSpeed));
  return units < 1 ? 1 : static_cast<std::uint64_t>(units);
}

inline FixedRate ScaleRate(FixedRate rate, std::uint64_t speed) {
  if (speed == kFullSpeed) return rate;
  const auto scaled = static_cast<FixedRate>((static_cast<Work>(rate) * speed) >> kSpeedBits);
  return scaled == 0 ? 1 : scaled;
}

// Picoseconds until `work` is done, to the nearest; kMaxTime where it would be more.
inline Picoseconds TimeFor(Work work, FixedRate rate) {
  const Work time = (work + rate / 2) / rate;
  return time > static_cast<Work>(kMaxTime) ? kMaxTime : static_cast<Picoseconds>(time);
}

}  // namespace twinstep
