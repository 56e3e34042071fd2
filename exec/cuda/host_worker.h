// The graph's host tasks beside a GPU: Adam, sums of gradients and their norm on all cores, other
// operators as the CPU backend has them.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "exec/cpu/kernel.h"

namespace twinstep::cuda {

// A fixed set of threads that share one loop at a time.
class ParallelFor {
 public:
  explicit ParallelFor(int threads);
  ~ParallelFor();
  ParallelFor(const ParallelFor&) = delete;
  ParallelFor& operator=(const ParallelFor&) = delete;

  // Calls body(i) for every i below `count` and returns when all are done. Not from two threads at
  // once. Nothing is allocated.
  void Run(std::int64_t count, const std::function<void(std::int64_t)>& body);

 private:
  void Work();
  void Take();

  std::mutex mutex_;
  std::condition_variable begin_, end_;
  std::uint64_t round_ = 0;
  bool stop_ = false;
  int busy_ = 0;
  std::int64_t count_ = 0;
  std::atomic<std::int64_t> next_{0};
  const std::function<void(std::int64_t)>* body_ = nullptr;
  std::vector<std::jthread> threads_;
};

class HostWorker {
 public:
  explicit HostWorker(int threads);

  // The bits are the CPU backend's: elements are computed alone, and the norm's sum is exact.
  void Run(const twinstep::KernelCall& call);

 private:
  void Adam(const twinstep::KernelCall& call);
  void Accumulate(const twinstep::KernelCall& call);
  void GradNorm(const twinstep::KernelCall& call);

  ParallelFor loop_;
  // Of the norm, one a part.
  std::vector<std::array<std::byte, 32>> partial_norms_;
  std::vector<const std::byte*> norm_parts_;
};

}  // namespace twinstep::cuda
