// Offsets for buffers of one arena: the strategies behind PlanArena.
//
// Dynamic storage allocation is NP-hard, so several heuristics are tried, cheap ones first, until
// one comes close to what no placement of these lives can beat. All are deterministic.
//
//   Placement best = PlaceBest(items, lives, /*base_bytes=*/0);
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/graph/buffer_lifetimes.h"

namespace twinstep {

struct PlacementItem {
  std::int64_t bytes = 0;  // Rounded up to the alignment, so that offsets are aligned too.
  LiveInterval interval;
  std::size_t life = 0;  // Index into BufferLifetimes.
};

struct Placement {
  std::vector<std::int64_t> offset;  // By item.
  std::int64_t height = 0;
};

// The most bytes whose intervals share an instant.
std::int64_t PeakBytes(std::span<const PlacementItem> items);

// Plays an allocator through time: best fit among free ranges. Items that live shorter than
// `short_life` half steps go to the upper end of [0, peak_bytes), the others to the lower end, so
// that short ones do not leave holes between long ones. O(n log n).
Placement PlaceBySweep(std::span<const PlacementItem> items, std::int64_t peak_bytes,
                       std::uint32_t short_life);

// Places items in the given order, each at the lowest offset that is free of items it may not
// share bytes with. Uses the exact order of lives, not only the intervals. Nothing if that takes
// more than `max_steps` comparisons (it can take n^2).
std::optional<Placement> PlaceFirstFit(std::span<const PlacementItem> items,
                                       const BufferLifetimes& lives,
                                       std::span<const std::uint32_t> order,
                                       std::int64_t max_steps);

// The first of PlaceBest's strategies: no lower than its result, and much cheaper.
Placement PlaceCheaply(std::span<const PlacementItem> items);

// The best of several strategies; stops early where base_bytes + height is within 0.2 % of
// base_bytes + PeakBytes. `base_bytes`: what the arena holds besides the items.
Placement PlaceBest(std::span<const PlacementItem> items, const BufferLifetimes& lives,
                    std::int64_t base_bytes);

}  // namespace twinstep
