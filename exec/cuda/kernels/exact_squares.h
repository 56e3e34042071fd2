// Exact sums of squares in the fixed-point format of kGradNorm's accumulators: 256 bits in units of
// 2^-128, least significant limb first, sticking at the largest value (exec/cpu/exact_sum.h, with
// which results agree to the bit).
//
// The square of an fp32 number is m^2 2^(2 e) with an integer m below 2^24. Squares whose exponents
// lie in one bin are added as one 64-bit integer, each shifted by its place in the bin: an addition
// is one load, one add and one store. Bins are added up with their own shifts at the end.
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/host_device.h"

namespace twinstep::cuda {

inline constexpr int kExactLimbs = 4;
using Limb = unsigned long long;

struct ExactLimbs {
  Limb limbs[kExactLimbs];
};

// sum = min(sum + addend, largest).
TWINSTEP_HD void AddExact(ExactLimbs& sum, const ExactLimbs& addend) {
  Limb carry = 0;
  for (int i = 0; i < kExactLimbs; ++i) {
    const Limb with_carry = sum.limbs[i] + carry;
    carry = with_carry < carry ? 1 : 0;
    const Limb total = with_carry + addend.limbs[i];
    carry += total < with_carry ? 1 : 0;
    sum.limbs[i] = total;
  }
  if (carry > 0) {
    for (Limb& limb : sum.limbs) limb = ~Limb{0};
  }
}

// `high` and `low` as one 128-bit integer, times 2^position units; the largest value if that does
// not fit. position >= 0.
TWINSTEP_HD ExactLimbs Shifted(Limb high, Limb low, int position) {
  ExactLimbs result{};
  const int first = position / 64, shift = position % 64;
  const Limb parts[3] = {low << shift, shift == 0 ? high : high << shift | low >> (64 - shift),
                         shift == 0 ? 0 : high >> (64 - shift)};
  bool fits = true;
  for (int i = 0; i < 3; ++i) {
    for (int limb = 0; limb < kExactLimbs; ++limb) {
      if (limb == first + i) result.limbs[limb] = parts[i];
    }
    if (first + i >= kExactLimbs && parts[i] != 0) fits = false;
  }
  if (!fits) {
    for (Limb& limb : result.limbs) limb = ~Limb{0};
  }
  return result;
}

// An fp32 number's square: `addend` units of the bin's 2^(8 bin - kBinOffset).
struct BinnedSquare {
  int bin;
  Limb addend;
};

// Exponents 0 ... 255 by fours: the square's exponent moves by 8 from bin to bin.
inline constexpr int kBins = 64;
inline constexpr int kExponentsPerBin = 4;
// With biased exponent e (at least 1) the square is m^2 2^(2 e - 300), in units of 2^-128
// m^2 2^(2 e - 172). Bin e / 4 begins at e = 4 bin.
inline constexpr int kBinOffset = 172;
// Squares below 2^48, shifted by up to 6: this many add up below 2^64.
inline constexpr int kSquaresPerBin = 1023;

TWINSTEP_HD BinnedSquare BinSquare(std::uint32_t bits) {
  int exponent = static_cast<int>((bits >> 23) & 0xff);
  std::uint32_t mantissa = bits & 0x7fffff;
  if (exponent > 0) {
    mantissa |= 0x800000;
  } else {
    exponent = 1;
  }
  Limb square = Limb{mantissa} * mantissa;
  const int bin = exponent / kExponentsPerBin;
  const int shift = 2 * (exponent % kExponentsPerBin);
  // Below one unit: each square is cut to whole units before it is added, as the CPU cuts.
  const int below = kBinOffset - 2 * exponent;
  if (below > 0) square = below < 64 ? square >> below << below : 0;
  return {bin, square << shift};
}

// A bin's total as units of 2^-128. Infinities and NaNs, in the last bin, are too large to fit: the
// smallest square with exponent 255 is 2^(46 + 2 * 255 - 172) units. So are the largest finite
// squares, of 2^128 and more.
TWINSTEP_HD ExactLimbs BinTotal(int bin, Limb high, Limb low) {
  const int position = 2 * kExponentsPerBin * bin - kBinOffset;
  if (position >= 0) {
    if (position >= 256 && (high | low) != 0) {
      return {{~Limb{0}, ~Limb{0}, ~Limb{0}, ~Limb{0}}};
    }
    return Shifted(high, low, position);
  }
  // Cut already, so nothing is lost.
  const int down = -position;
  if (down >= 128) return {};
  if (down >= 64) return {{down == 64 ? high : high >> (down - 64), 0, 0, 0}};
  return {{low >> down | high << (64 - down), high >> down, 0, 0}};
}

}  // namespace twinstep::cuda
