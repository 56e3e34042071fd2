// Activations, gated MLP products, sums and copies. Operands and dims: sim/graph/op.h.
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/kernel_call.h"

namespace twinstep::cuda {

cudaError_t LaunchActivationForward(const KernelCall& call);
cudaError_t LaunchActivationBackward(const KernelCall& call);
cudaError_t LaunchSiluForward(const KernelCall& call);
cudaError_t LaunchSiluBackward(const KernelCall& call);
cudaError_t LaunchMulForward(const KernelCall& call);
cudaError_t LaunchMulBackward(const KernelCall& call);
cudaError_t LaunchAdd(const KernelCall& call);
cudaError_t LaunchAccumulate(const KernelCall& call);
cudaError_t LaunchCopyOnDevice(const KernelCall& call);

// SiLU and the product behind it, where one follows the other: the gate is read once.
// gate_up[n, 2 f] -> silu[n, f] (not written if null), act[n, f].
cudaError_t LaunchSwiGluForward(Dtype dtype, std::int64_t n, std::int64_t f,
                                const std::byte* gate_up, std::byte* silu, std::byte* act,
                                cudaStream_t stream);
// MulBackward and SiluBackward, where the gradient of SiLU's output has no other reader:
// dact[n, f], gate_up[n, 2 f] -> dgate_up[n, 2 f]. silu is recomputed, and rounded as it was.
cudaError_t LaunchSwiGluBackward(Dtype dtype, std::int64_t n, std::int64_t f, const std::byte* dact,
                                 const std::byte* gate_up, std::byte* dgate_up,
                                 cudaStream_t stream);

}  // namespace twinstep::cuda
