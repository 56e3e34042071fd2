#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "exec/cpu/exact_sum.h"
#include "tests/exec/cpu/kernel_tester.h"

namespace twinstep {
namespace {

std::vector<const std::byte*> Pointers(std::vector<Buffer>& parts) {
  std::vector<const std::byte*> pointers;
  for (Buffer& part : parts) pointers.push_back(part.data());
  return pointers;
}

TEST(SumInOrderTest, AddsInTheOrderOfTheParts) {
  // In fp32 1 + 2^-24 is 1, so the order shows.
  std::vector<Buffer> parts{Buffer({1}, Dtype::kFp32), Buffer({0x1p-24}, Dtype::kFp32),
                            Buffer({0x1p-24}, Dtype::kFp32)};
  Buffer sum = Buffer::Poisoned(1, Dtype::kFp32);
  SumInOrder(Dtype::kFp32, false, Pointers(parts), 4, sum.data());
  EXPECT_EQ(sum.values()[0], 1);
  std::swap(parts[0], parts[2]);
  SumInOrder(Dtype::kFp32, false, Pointers(parts), 4, sum.data());
  EXPECT_EQ(sum.values()[0], 1 + 0x1p-23);
}

TEST(SumInOrderTest, NarrowTypesRoundOnce) {
  // Rounded after each sum, 256 + 1 + 1 would stay 256 in bf16.
  std::vector<Buffer> parts{Buffer({256}, Dtype::kBf16), Buffer({1}, Dtype::kBf16),
                            Buffer({1}, Dtype::kBf16)};
  Buffer sum = Buffer::Poisoned(1, Dtype::kBf16);
  SumInOrder(Dtype::kBf16, false, Pointers(parts), 2, sum.data());
  EXPECT_EQ(sum.values()[0], 258);
}

TEST(SumInOrderTest, TheSumMayBeAPart) {
  for (const Dtype dtype : {Dtype::kFp16, Dtype::kFp32, Dtype::kFp64}) {
    constexpr std::int64_t kElements = 1300;
    Values a, b, expected;
    for (std::int64_t i = 0; i < kElements; ++i) {
      a.push_back(static_cast<double>(i % 50));
      b.push_back(static_cast<double>(i % 7));
      expected.push_back(a.back() + b.back());
    }
    for (std::size_t target = 0; target < 2; ++target) {
      std::vector<Buffer> parts{Buffer(a, dtype), Buffer(b, dtype)};
      SumInOrder(dtype, false, Pointers(parts), parts[0].bytes().size(), parts[target].data());
      EXPECT_EQ(parts[target].values(), expected);
    }
  }
}

TEST(SumInOrderTest, ExactSumsCarry) {
  const std::uint64_t full = ~std::uint64_t{0};
  const ExactSum::Limbs a{full, full, 0, 0}, b{1, 0, 5, 0};
  std::vector<const std::byte*> parts{reinterpret_cast<const std::byte*>(&a),
                                      reinterpret_cast<const std::byte*>(&b)};
  ExactSum::Limbs sum;
  SumInOrder(Dtype::kFp64, true, parts, sizeof sum, reinterpret_cast<std::byte*>(&sum));
  EXPECT_EQ(sum, (ExactSum::Limbs{0, 0, 6, 0}));
}

}  // namespace
}  // namespace twinstep
