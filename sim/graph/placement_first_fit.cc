#include <algorithm>
#include <array>

#include "sim/graph/placement.h"

namespace twinstep {
namespace {

// Time is cut into windows. An item inside one window, as temporaries are, is compared with the
// items that touch that window only, any other with all items.
constexpr std::size_t kWindows = 64;

class FirstFit {
 public:
  FirstFit(std::span<const PlacementItem> items, const BufferLifetimes& lives,
           std::int64_t max_steps)
      : items_(items), lives_(lives), steps_left_(max_steps) {
    // Windows with equally many births.
    std::vector<std::uint32_t> begins;
    for (const PlacementItem& item : items) begins.push_back(item.interval.begin);
    std::sort(begins.begin(), begins.end());
    for (std::size_t w = 1; w < kWindows; ++w) {
      window_begin_[w] = begins.empty() ? 0 : begins[w * begins.size() / kWindows];
    }
    placement_.offset.resize(items.size());
  }

  // Whether it got done within the steps.
  bool Place(std::uint32_t i) {
    const std::size_t first = WindowOf(items_[i].interval.begin);
    const std::size_t last = WindowOf(items_[i].interval.end - 1);
    const std::int64_t offset = LowestFit(i, first == last ? by_window_[first] : all_);
    placement_.offset[i] = offset;
    placement_.height = std::max(placement_.height, offset + items_[i].bytes);
    for (std::size_t w = first; w <= last; ++w) Insert(by_window_[w], i);
    Insert(all_, i);
    return steps_left_ >= 0;
  }

  Placement Take() { return std::move(placement_); }

 private:
  using ByOffset = std::vector<std::uint32_t>;  // Placed items by increasing offset.

  std::size_t WindowOf(std::uint32_t instant) const {
    return static_cast<std::size_t>(
        std::upper_bound(window_begin_.begin() + 1, window_begin_.end(), instant) -
        window_begin_.begin() - 1);
  }

  std::int64_t LowestFit(std::uint32_t i, const ByOffset& placed) {
    const PlacementItem& item = items_[i];
    std::int64_t lowest = 0;
    for (const std::uint32_t other : placed) {
      --steps_left_;
      if (!Conflict(item, items_[other])) continue;
      const std::int64_t offset = placement_.offset[other];
      if (offset - lowest >= item.bytes) break;
      lowest = std::max(lowest, offset + items_[other].bytes);
    }
    return lowest;
  }

  bool Conflict(const PlacementItem& a, const PlacementItem& b) const {
    if (a.interval.end <= b.interval.begin || b.interval.end <= a.interval.begin) return false;
    if (lives_.last(a.life) < lives_.first(b.life)) return !lives_.Before(a.life, b.life);
    if (lives_.last(b.life) < lives_.first(a.life)) return !lives_.Before(b.life, a.life);
    return true;
  }

  void Insert(ByOffset& placed, std::uint32_t i) {
    const auto place = std::upper_bound(placed.begin(), placed.end(), placement_.offset[i],
                                        [&](std::int64_t offset, std::uint32_t other) {
                                          return offset < placement_.offset[other];
                                        });
    placed.insert(place, i);
  }

  std::span<const PlacementItem> items_;
  const BufferLifetimes& lives_;
  std::int64_t steps_left_;
  std::array<std::uint32_t, kWindows> window_begin_{};
  std::array<ByOffset, kWindows> by_window_;
  ByOffset all_;
  Placement placement_;
};

}  // namespace

std::optional<Placement> PlaceFirstFit(std::span<const PlacementItem> items,
                                       const BufferLifetimes& lives,
                                       std::span<const std::uint32_t> order,
                                       std::int64_t max_steps) {
  FirstFit fit(items, lives, max_steps);
  for (const std::uint32_t i : order) {
    if (!fit.Place(i)) return std::nullopt;
  }
  return fit.Take();
}

}  // namespace twinstep
