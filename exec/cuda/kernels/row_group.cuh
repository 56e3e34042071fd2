// Sums and maxima over the threads that share a row: one warp, or a whole block.
#pragma once

#include <cuda_runtime.h>

namespace twinstep::cuda {

inline constexpr int kWarp = 32;

struct AddTo {
  template <typename C>
  __device__ C operator()(C a, C b) const {
    return a + b;
  }
};
struct LargerOf {
  template <typename C>
  __device__ C operator()(C a, C b) const {
    return a > b ? a : b;
  }
};

// Every lane gets the same bits: each step combines the same two numbers in both lanes.
template <typename C, typename Combine>
__device__ C WarpCombine(C x, Combine combine) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    x = combine(x, __shfl_xor_sync(0xffffffffu, x, distance));
  }
  return x;
}

// Of kThreads threads: a warp of the block, or all of it. Shared memory of a block-wide group is
// double-buffered, so that one barrier a call is enough.
template <typename C, int kThreads>
class RowGroup {
 public:
  static constexpr int kWarps = kThreads / kWarp;
  static_assert(kThreads % kWarp == 0);

  // kShared numbers of shared memory.
  static constexpr int kMaxValues = 2;
  static constexpr int kShared = kWarps == 1 ? 1 : 2 * kMaxValues * kWarps;
  __device__ explicit RowGroup(C* shared) : shared_(shared) {}

  // Thread of the group, from 0.
  __device__ static int Thread() {
    return kWarps == 1 ? static_cast<int>(threadIdx.x) % kWarp : static_cast<int>(threadIdx.x);
  }

  template <int kValues, typename Operation>
  __device__ void All(C (&values)[kValues], Operation combine) {
    static_assert(kValues <= kMaxValues);
#pragma unroll
    for (int i = 0; i < kValues; ++i) values[i] = WarpCombine(values[i], combine);
    if constexpr (kWarps > 1) {
      C* slots = shared_ + (flip_ ? kWarps * kMaxValues : 0);
      flip_ = !flip_;
      const int warp = static_cast<int>(threadIdx.x) / kWarp;
      const int lane = static_cast<int>(threadIdx.x) % kWarp;
      if (lane == 0) {
#pragma unroll
        for (int i = 0; i < kValues; ++i) slots[i * kWarps + warp] = values[i];
      }
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kValues; ++i) {
        C x = slots[i * kWarps];
#pragma unroll
        for (int w = 1; w < kWarps; ++w) x = combine(x, slots[i * kWarps + w]);
        values[i] = x;
      }
    }
  }

  __device__ C Sum(C x) {
    C values[1] = {x};
    All(values, AddTo{});
    return values[0];
  }
  __device__ C Max(C x) {
    C values[1] = {x};
    All(values, LargerOf{});
    return values[0];
  }

 private:
  C* shared_;
  bool flip_ = false;
};

}  // namespace twinstep::cuda
