// What cuBLASLt does not do of a GEMM's bias, and numbers to time GEMMs on.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "sim/graph/ids.h"

namespace twinstep::cuda {

// y[i][j] += bias[j], of [n, width].
cudaError_t AddBias(Dtype dtype, std::int64_t n, std::int64_t width, const void* bias, void* y,
                    cudaStream_t stream);

// db[j] = previous[j] + dy[0][j] + dy[1][j] + ...; `previous` null: zero. The order of the sum
// depends on n and width alone.
std::size_t BiasGradientWorkspaceBytes(Dtype dtype, std::int64_t n, std::int64_t width);
cudaError_t BiasGradient(Dtype dtype, Dtype gradient, std::int64_t n, std::int64_t width,
                         const void* dy, const void* previous, void* db, std::byte* workspace,
                         cudaStream_t stream);

// Pseudo-random numbers in [-1, 1): GEMMs on zeros are up to 13 % faster than on data.
cudaError_t FillRandom(Dtype dtype, std::int64_t elements, void* x, cudaStream_t stream);

}  // namespace twinstep::cuda
