// What a plan's numbers may be at most: above any iteration worth simulating.
#pragma once

#include <cstdint>

namespace twinstep {

// Small enough that B s fits in 64 bits with room for the bytes of a token.
inline constexpr std::int64_t kMaxPlanSequence = std::int64_t{1} << 26;
inline constexpr std::int64_t kMaxPlanBatch = std::int64_t{1} << 26;
// Of parallel sizes, stages, layers, chunks and blocks.
inline constexpr std::int64_t kMaxPlanSize = std::int64_t{1} << 26;
inline constexpr std::int64_t kMaxPlanChunkBytes = std::int64_t{1} << 50;

}  // namespace twinstep
