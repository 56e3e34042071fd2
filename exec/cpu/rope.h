// Splits a fused QKV activation and rotates queries and keys by their positions.
#pragma once

#include <cstddef>

#include "exec/cpu/kernel.h"

namespace twinstep {

// Rotary positions (Su et al., "RoFormer", 2021) in the pairing of Hugging Face's Llama: feature j
// of the first half of a head turns with feature j of the second half by the angle
// position * kRotaryBase^(-2 j / head_dim).
inline constexpr double kRotaryBase = 10000;

void SplitQkv(const KernelCall& call);
void SplitQkvBackward(const KernelCall& call);

std::size_t RotaryScratchBytes(const OpShape& shape);

}  // namespace twinstep
