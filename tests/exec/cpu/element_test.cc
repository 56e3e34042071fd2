// Storage types, against slow conversions written another way (kernel_tester.cc).
#include "exec/cpu/element.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tests/exec/cpu/kernel_tester.h"

namespace twinstep {
namespace {

template <typename T>
class ElementTest : public testing::Test {
 public:
  static constexpr Dtype kDtype = std::is_same_v<T, Bf16> ? Dtype::kBf16 : Dtype::kFp16;

  static std::uint16_t Reference(double x) {
    return *reinterpret_cast<const std::uint16_t*>(Buffer({x}, kDtype).bytes().data());
  }
  static std::uint16_t Stored(float x) {
    T element;
    Store(x, &element);
    return element.bits;
  }
};
using Types = testing::Types<Bf16, Fp16>;
TYPED_TEST_SUITE(ElementTest, Types);

TYPED_TEST(ElementTest, EveryPatternLoadsExactlyAndComesBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    TypeParam element;
    element.bits = static_cast<std::uint16_t>(bits);
    const float loaded = Load(element);
    Buffer buffer = Buffer::Poisoned(1, this->kDtype);
    *reinterpret_cast<std::uint16_t*>(buffer.data()) = element.bits;
    const double expected = buffer.values()[0];
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(loaded)) << bits;
      Store(loaded, &element);
      EXPECT_TRUE(std::isnan(Load(element))) << bits;
      continue;
    }
    ASSERT_EQ(loaded, expected) << bits;
    ASSERT_EQ(this->Stored(loaded), bits);
  }
}

// Around each representable number and each tie.
TYPED_TEST(ElementTest, RoundsToNearestEven) {
  for (std::uint32_t bits = 0; bits < 0x7fff; ++bits) {
    TypeParam low, high;
    low.bits = static_cast<std::uint16_t>(bits);
    high.bits = static_cast<std::uint16_t>(bits + 1);
    const float a = Load(low), b = Load(high);
    if (!std::isfinite(a)) break;
    // The tie beside the largest number is where the next one would be.
    const double unit = std::isfinite(b) ? double{b} - a : std::ldexp(1.0, std::ilogb(a)) / 1024;
    const auto tie = static_cast<float>(a + unit / 2);
    for (const float x : {tie, std::nextafter(tie, 0.0f), std::nextafter(tie, INFINITY)}) {
      ASSERT_EQ(this->Stored(x), this->Reference(x)) << x;
      ASSERT_EQ(this->Stored(-x), this->Reference(-double{x})) << x;
    }
  }
  EXPECT_EQ(this->Stored(std::numeric_limits<float>::max()), this->Reference(INFINITY));
  EXPECT_EQ(this->Stored(-INFINITY), this->Reference(-INFINITY));
  EXPECT_EQ(this->Stored(1e-45f), this->Reference(std::numeric_limits<float>::denorm_min()));
}

TEST(ElementTest, TiesGoToEven) {
  // 1 + 2^-8 lies between bf16's 1 and 1 + 2^-7; 1 + 3 2^-8 between 1 + 2^-7 and 1 + 2^-6.
  Bf16 x;
  Store(1 + 0x1p-8f, &x);
  EXPECT_EQ(Load(x), 1);
  Store(1 + 0x3p-8f, &x);
  EXPECT_EQ(Load(x), 1 + 0x1p-6f);
  Fp16 y;
  Store(65519.0f, &y);
  EXPECT_EQ(Load(y), 65504);
  Store(65520.0f, &y);
  EXPECT_EQ(Load(y), INFINITY);
  Store(0x1p-25f, &y);  // Half of the smallest.
  EXPECT_EQ(Load(y), 0);
}

}  // namespace
}  // namespace twinstep
