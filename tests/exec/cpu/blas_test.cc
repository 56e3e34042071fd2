#include "exec/cpu/blas.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <vector>

namespace twinstep {
namespace {

// Products that are over soon, of other numbers in each thread: a build of the library whose
// callers share a packing buffer gets some of them wrong.
template <typename T>
void ExpectSameBitsFromConcurrentCallers() {
  constexpr std::int64_t kM = 16, kN = 96, kK = 32;
  constexpr int kThreads = 3, kProducts = 50000;
  const auto count_wrong = [](unsigned seed, int* wrong) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<T> uniform(-1, 1);
    std::vector<T> a(kM * kK), b(kN * kK), c(kM * kN), first;
    for (T& value : a) value = uniform(random);
    for (T& value : b) value = uniform(random);
    for (int product = 0; product < kProducts; ++product) {
      Multiply({.transpose_b = true, .m = kM, .n = kN, .k = kK}, T{1}, a.data(), kK, b.data(), kK,
               T{0}, c.data(), kN);
      if (first.empty()) first = c;
      *wrong += c == first ? 0 : 1;
    }
  };
  std::vector<int> wrong(kThreads, 0);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back(count_wrong, i, &wrong[i]);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(kThreads, 0));
}

// More than the library has packing buffers for, which a large product takes.
TEST(BlasTest, AnyNumberOfCallersGetTheSameBits) {
  constexpr std::int64_t kSize = 192;
  constexpr int kThreads = 400;
  const std::vector<float> a(kSize * kSize, 0.5F), b(kSize * kSize, 0.25F);
  std::vector<int> wrong(kThreads, 0);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      std::vector<float> c(kSize * kSize);
      for (int product = 0; product < 4; ++product) {
        Multiply({.m = kSize, .n = kSize, .k = kSize}, 1.0F, a.data(), kSize, b.data(), kSize, 0.0F,
                 c.data(), kSize);
        for (const float value : c) wrong[static_cast<std::size_t>(i)] += value != 24.0F ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(kThreads, 0));
}

TEST(BlasTest, ConcurrentCallersGetTheSameBits) {
  ExpectSameBitsFromConcurrentCallers<float>();
  ExpectSameBitsFromConcurrentCallers<double>();
}

}  // namespace
}  // namespace twinstep
