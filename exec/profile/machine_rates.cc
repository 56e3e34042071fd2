#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
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

// STREAM's triad. Each page comes into being where a thread that computes on it first writes it.
class Triad {
 public:
  explicit Triad(int threads)
      : elements_(static_cast<std::size_t>(std::min(kBytesPerThread * threads, kMostBytes)) /
                  sizeof(double)),
        a_(std::make_unique_for_overwrite<double[]>(elements_)),
        b_(std::make_unique_for_overwrite<double[]>(elements_)),
        c_(std::make_unique_for_overwrite<double[]>(elements_)) {
    InThreads(threads, [&](int part) {
      for (double* const x : {a_.get(), b_.get(), c_.get()}) {
        std::fill(x + Begin(threads, part), x + Begin(threads, part + 1), 1.0);
      }
    });
  }

  double BytesPerSecond(int threads) const {
    return 3 * bytes() /
           MedianSeconds([&] { InThreads(threads, [&](int part) { Run(threads, part); }); });
  }
  double CopiedBytesPerSecond() const {
    return bytes() /
           MedianSeconds([&] { std::memcpy(a_.get(), b_.get(), elements_ * sizeof(double)); });
  }

 private:
  double bytes() const { return sizeof(double) * static_cast<double>(elements_); }
  std::size_t Begin(int parts, int part) const {
    return elements_ * static_cast<std::size_t>(part) / static_cast<std::size_t>(parts);
  }
  void Run(int parts, int part) const {
    double* const a = a_.get();
    const double *const b = b_.get(), *const c = c_.get();
    for (std::size_t i = Begin(parts, part); i < Begin(parts, part + 1); ++i) {
      a[i] = b[i] + 3.0 * c[i];
    }
  }

  const std::size_t elements_;
  const std::unique_ptr<double[]> a_, b_, c_;
};

}  // namespace

MachineRates MeasureRates(int threads) {
  MachineRates rates;
  rates.fp32_flops_per_s = ProductFlopsPerSecond<float>();
  rates.fp64_flops_per_s = ProductFlopsPerSecond<double>();
  const Triad triad(threads);
  rates.dram_bytes_per_s = triad.BytesPerSecond(threads);
  rates.thread_bytes_per_s = triad.BytesPerSecond(1);
  rates.copy_bytes_per_s = triad.CopiedBytesPerSecond();
  return rates;
}

double MeasureDramBytesPerSecond(int threads) { return Triad(threads).BytesPerSecond(threads); }

}  // namespace twinstep
