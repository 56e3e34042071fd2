// Division by a number that all threads share, without a division: n / d is the upper half of a
// product (Granlund and Montgomery: "Division by invariant integers using multiplication", 1994).
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/host_device.h"

namespace twinstep::cuda {

class Divider {
 public:
  // divisor >= 1; dividends below 2^31 are fast.
  explicit Divider(std::int64_t divisor) : divisor_(divisor) {
    if (divisor >= std::int64_t{1} << 31) return;  // Larger than any fast dividend.
    shift_ = 0;
    while ((std::int64_t{1} << shift_) < divisor) ++shift_;
    // ceil(2^(32 + shift) / d) - 2^32; exact for all dividends below 2^32.
    const std::uint64_t power = (std::uint64_t{1} << shift_) - static_cast<std::uint64_t>(divisor);
    multiplier_ =
        static_cast<std::uint32_t>((power << 32) / static_cast<std::uint64_t>(divisor) + 1);
  }

  TWINSTEP_HD std::int64_t Divide(std::int64_t n) const {
    if (shift_ < 0 || n >= std::int64_t{1} << 31) return n / divisor_;
    const auto dividend = static_cast<std::uint32_t>(n);
    const auto high = static_cast<std::uint32_t>((std::uint64_t{dividend} * multiplier_) >> 32);
    return (std::uint64_t{high} + dividend) >> shift_;
  }

  TWINSTEP_HD std::int64_t divisor() const { return divisor_; }

 private:
  std::int64_t divisor_;
  std::uint32_t multiplier_ = 0;
  int shift_ = -1;
};

}  // namespace twinstep::cuda
