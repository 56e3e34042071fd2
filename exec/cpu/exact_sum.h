// A sum of non-negative numbers that does not depend on their order: a 256-bit fixed-point number
// in units of 2^-128. Each addend is cut to whole units (nothing is lost of doubles from 2^-76 on),
// and integers add up exactly. Once the sum overflows, or a NaN or an infinity is added, it sticks
// at its largest value; sums that stick commute too.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace twinstep {

class ExactSum {
 public:
  using Limbs = std::array<std::uint64_t, 4>;  // Least significant first.

  ExactSum() = default;
  explicit ExactSum(const Limbs& limbs) : limbs_(limbs) {}

  void Add(std::span<const double> addends);  // Not negative; at most 2^31 of them.
  void Add(const ExactSum& other);

  const Limbs& limbs() const { return limbs_; }
  bool overflowed() const;
  // To within two units in the last place; NaN if the sum overflowed.
  double value() const;

 private:
  Limbs limbs_{};
};

}  // namespace twinstep
