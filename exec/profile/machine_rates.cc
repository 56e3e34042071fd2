#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "exec/cpu/blas.h"
#include "exec/profile/machine.h"
#include "exec/profile/statistics.h"

namespace twinstep {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRepeats = 7;
constexpr std::int64_t kProduct = 768;  // Rows, columns and depth of the matrix product.
// Of each of triad's arrays: far beyond the last-level cache that a thread has.
constexpr std::int64_t kBytesPerThread = std::int64_t{48} << 20;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;

double MedianSeconds(const std::function<void()>& work) {
  work();  // Pages, clock frequency.
  std::vector<double> seconds;
  for (int i = 0; i < kRepeats; ++i) {
    const Clock::time_point begin = Clock::now();
    work();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return Summarize(std::move(seconds)).median;
}

template <typename T>
double ProductFlopsPerSecond() {
  const std::vector<T> a(kProduct * kProduct, T{1}), b(a);
  std::vector<T> c(a);
  const double seconds = MedianSeconds([&] {
    Multiply({.m = kProduct, .n = kProduct, .k = kProduct}, T{1}, a.data(), kProduct, b.data(),
             kProduct, T{0}, c.data(), kProduct);
  });
  constexpr auto kSide = static_cast<double>(kProduct);
  return 2 * kSide * kSide * kSide / seconds;
}

void InThreads(int threads, const std::function<void(int)>& work) {
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work, i);
  work(0);
  for (std::thread& thread : others) thread.join();
}

}  // namespace

MachineRates MeasureRates(int threads) {
  MachineRates rates;
  rates.fp32_flops_per_s = ProductFlopsPerSecond<float>();
  rates.fp64_flops_per_s = ProductFlopsPerSecond<double>();

  const auto elements = static_cast<std::size_t>(std::min(kBytesPerThread * threads, kMostBytes) /
                                                 static_cast<std::int64_t>(sizeof(double)));
  std::vector<double> a(elements), b(elements), c(elements);
  const auto triad = [&](int parts, int part) {
    const std::size_t begin =
        elements * static_cast<std::size_t>(part) / static_cast<std::size_t>(parts);
    const std::size_t end =
        elements * static_cast<std::size_t>(part + 1) / static_cast<std::size_t>(parts);
    for (std::size_t i = begin; i < end; ++i) a[i] = b[i] + 3.0 * c[i];
  };
  const double triad_bytes = 3 * sizeof(double) * static_cast<double>(elements);
  const double bytes = sizeof(double) * static_cast<double>(elements);
  InThreads(threads, [&](int part) { triad(threads, part); });
  rates.dram_bytes_per_s = triad_bytes / MedianSeconds([&] {
                             InThreads(threads, [&](int part) { triad(threads, part); });
                           });
  rates.thread_bytes_per_s = triad_bytes / MedianSeconds([&] { triad(1, 0); });
  rates.copy_bytes_per_s =
      bytes / MedianSeconds([&] { std::memcpy(a.data(), b.data(), elements * sizeof(double)); });
  return rates;
}

}  // namespace twinstep
