// Keys and values (and their gradients) of context-parallel ranks between two orders: gathered,
// rank by rank, as op.h has them, and by position, in which what a query sees is a prefix.
//
// Both are [tokens, 2 kv d] of bf16 or fp16 in 2 count pieces of consecutive positions; operands at
// multiples of 16 bytes, and 2 kv d a multiple of 8. Of the attention's shape.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "sim/graph/op.h"

namespace twinstep::cuda {

// Of one of the 2 count pieces.
std::size_t KeyPieceBytes(const OpShape& shape);

// The pieces that the rank's queries see, 2 count - index of them, by position.
cudaError_t OrderKeys(const OpShape& shape, const std::byte* gathered, std::byte* by_position,
                      cudaStream_t stream);

// The gradients that the rank's first and second piece of queries give, by position: of the
// index + 1 and of the 2 count - index pieces that each sees. Written is their sum, added in fp32
// and rounded once, in the gathered order; zero where no query of the rank sees a key.
cudaError_t SumKeyGradients(const OpShape& shape, const std::byte* of_first,
                            const std::byte* of_second, std::byte* gathered, cudaStream_t stream);

}  // namespace twinstep::cuda
