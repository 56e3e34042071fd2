// What each compute operation does to symbolic values: which shards it needs, which it gives, and
// which sums stay partial. Knows neither buffers nor ranks.
//
// An operation hashes its code, its meaning-changing flags and the logical values of its inputs,
// never sizes, so that the same mathematics gives the same number under any plan. Sums (residuals,
// biases, accumulated gradients, learned positions) are additions of the field.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "sim/graph/symbolic_value.h"

namespace twinstep {

// Why an operation cannot run on its operands.
struct SymbolicFault {
  std::uint32_t operand = kNone;  // Reads first, then writes; kNone = the operation as a whole.
  std::string text;               // "reads shard 1 of 2 where the whole tensor is needed"
};

// Fills the pieces of `writes` (whose bytes are given). `block` is the task's tag: dropout masks
// depend on it. False with `fault` filled on a mismatch.
bool ApplySymbolic(const OpShape& shape, std::uint16_t block,
                   std::span<const SymbolicOperand> reads, std::span<SymbolicOperand> writes,
                   SymbolicFault& fault);

// out = sum of the operands (kAdd, kAccumulate and the summing collectives): all must hold the same
// ranges of the same shards. `parts` are distinct operands of one size, or sizes that differ by
// element type only; the result is scaled to `out.bytes`. Operands that are padding only sum to
// nothing.
bool SumSymbolic(std::span<const SymbolicOperand> parts, SymbolicOperand& out,
                 SymbolicFault& fault);

// Index of the first weight gradient among an operation's writes (the rest are gradients too);
// kNone where it writes none.
std::size_t FirstGradient(const OpShape& shape);
// The read to which an operation adds what it writes as `write`; kNone where it overwrites.
std::size_t PreviousGradient(const OpShape& shape, std::size_t write);

}  // namespace twinstep
