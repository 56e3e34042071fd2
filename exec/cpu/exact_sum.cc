#include "exec/cpu/exact_sum.h"

#include <bit>
#include <cmath>
#include <limits>

namespace twinstep {
namespace {

constexpr std::uint64_t kFull = std::numeric_limits<std::uint64_t>::max();
constexpr ExactSum::Limbs kOverflow{kFull, kFull, kFull, kFull};
constexpr int kUnitExponent = -128;

constexpr int kMantissaBits = 52;
constexpr int kExponentBias = 1023;
constexpr int kBits = 256;

// While addends come in, digits of 32 bits have 64 bits of room, so that carries can wait.
constexpr int kDigitBits = 32;
constexpr std::uint64_t kDigitMask = (std::uint64_t{1} << kDigitBits) - 1;
using Digits = std::array<std::uint64_t, kBits / kDigitBits + 1>;

// False if the addend does not fit.
bool AddTo(Digits& digits, double addend) {
  const auto bits = std::bit_cast<std::uint64_t>(addend);
  const int exponent = static_cast<int>(bits >> kMantissaBits);
  std::uint64_t mantissa = bits & ((std::uint64_t{1} << kMantissaBits) - 1);
  if (exponent > 0) mantissa |= std::uint64_t{1} << kMantissaBits;
  int position = (exponent > 0 ? exponent : 1) - kExponentBias - kMantissaBits - kUnitExponent;
  if (position < 0) {
    mantissa = position > -64 ? mantissa >> -position : 0;
    position = 0;
  }
  if (position + kMantissaBits >= kBits) return false;
  const auto digit = static_cast<std::size_t>(position / kDigitBits);
  const int shift = position % kDigitBits;
  const std::uint64_t low = mantissa << shift;
  digits[digit] += low & kDigitMask;
  digits[digit + 1] += low >> kDigitBits;
  // Shifted twice, as one shift by 64 has no meaning.
  if (digit + 2 < digits.size()) digits[digit + 2] += (mantissa >> (63 - shift)) >> 1;
  return true;
}

}  // namespace

void ExactSum::Add(std::span<const double> addends) {
  Digits digits{};
  bool fits = true;
  for (const double addend : addends) fits &= AddTo(digits, addend);
  ExactSum sum;
  std::uint64_t carry = 0;
  for (std::size_t i = 0; i < kBits / kDigitBits; ++i) {
    carry += digits[i];
    sum.limbs_[i / 2] |= (carry & kDigitMask) << (i % 2 * kDigitBits);
    carry >>= kDigitBits;
  }
  if (!fits || carry + digits.back() > 0) sum.limbs_ = kOverflow;
  Add(sum);
}

void ExactSum::Add(const ExactSum& other) {
  // Stuck at the largest value if either is, or if the sum is too large: min(a + b, largest), which
  // is associative and commutes.
  std::uint64_t carry = 0;
  for (std::size_t i = 0; i < limbs_.size(); ++i) {
    const std::uint64_t with_carry = limbs_[i] + carry;
    carry = with_carry < carry ? 1 : 0;
    const std::uint64_t sum = with_carry + other.limbs_[i];
    carry += sum < with_carry ? 1 : 0;
    limbs_[i] = sum;
  }
  if (carry > 0) limbs_ = kOverflow;
}

bool ExactSum::overflowed() const { return limbs_ == kOverflow; }

double ExactSum::value() const {
  if (overflowed()) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  int exponent = kUnitExponent;
  for (const std::uint64_t limb : limbs_) {
    sum += std::ldexp(static_cast<double>(limb), exponent);
    exponent += 64;
  }
  return sum;
}

}  // namespace twinstep
