// How often things happen in one iteration of a pipeline, in closed form (Yuan et al., ATC 2024;
// hw_specs/SOURCES.md M8.1-2). A block is what one stage stores of one micro-batch.
#pragma once

#include <cstdint>

#include "sim/plan/resolved_plan.h"

namespace twinstep {

// Forwards of pipeline rank r before its first backward: 2 (p - r - 1) + (v - 1) p interleaved,
// p - r - 1 with 1F1B, m with GPipe; never more than there are.
std::int64_t WarmupForwards(const ResolvedPlan& plan, std::int64_t r);

// Most blocks alive at once on rank r (eq 5): v p + p - 2 r - 1 interleaved, p - r with 1F1B, m
// with GPipe; never more than m v.
std::int64_t LivingBlocks(const ResolvedPlan& plan, std::int64_t r);

// With offload (Yuan et al., ATC 2024): of the living blocks, one is being made and one is in
// flight, the others are on the host; the one in flight has its host buffer already.
std::int64_t BlocksOnHost(const ResolvedPlan& plan, std::int64_t r);
std::int64_t HostBuffers(const ResolvedPlan& plan, std::int64_t r);

// Of rank 0, interleaved: copies that overlap compute, each way (m v + p - 2), and transfers
// between stages that the slow-down of eq 16 counts (4 m v - 2 m + 2 p - 2). 0 with p = 1.
std::int64_t OverlappedCopies(const ResolvedPlan& plan);
std::int64_t P2pTransfers(const ResolvedPlan& plan);

// Fraction of the ideal compute time that the pipeline idles: (p - 1) / (v m), M8.1.
double BubbleFraction(const ResolvedPlan& plan);

}  // namespace twinstep
