// How GPUs of one machine differ: each one's time over the mean of all.
//
//   SlownessOf({{0.9, 1.0, 1.0}, {1.5, 1.5}});   // 0.8, 1.2
#pragma once

#include <cstddef>
#include <vector>

namespace twinstep {

using GpuSlowness = std::vector<double>;  // By GPU; their mean is 1.

// From the medians of each GPU's times. Empty where one has none, where there is only one, and
// where they differ by more than a factor of 10: that is no matter of clocks.
GpuSlowness SlownessOf(const std::vector<std::vector<double>>& times_s);

// Of several measurements of all GPUs.
GpuSlowness MeanSlowness(const std::vector<GpuSlowness>& measured);

// Of the first so many GPUs, on average; 1 where `slowness` is empty.
double SlownessOfFirst(const GpuSlowness& slowness, std::size_t gpus);

}  // namespace twinstep
