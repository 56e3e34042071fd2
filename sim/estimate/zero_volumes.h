// Bytes that ZeRO moves in one step with one micro-batch, for a model of `model_bytes` bytes of
// half-precision weights (Rajbhandari et al. 2020, Ren et al. 2021).
#pragma once

#include <cstdint>

namespace twinstep {

// Over the network, a rank, as the papers count (a ring's (n - 1) / n taken as 1): 2 x for stages
// 0 to 2 (all-reduce, or reduce-scatter and all-gather), 3 x for stage 3.
std::int64_t ZeroNetworkBytes(std::int64_t model_bytes, int zero_stage);

// Over PCIe with the optimizer on the host: gradients down and parameters up.
std::int64_t ZeroOffloadPcieBytes(std::int64_t model_bytes);

}  // namespace twinstep
