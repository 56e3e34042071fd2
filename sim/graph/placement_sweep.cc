#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "sim/graph/placement.h"

namespace twinstep {
namespace {

// Free byte ranges below `top`, joined where they meet.
class FreeList {
 public:
  explicit FreeList(std::int64_t bytes) : top_(bytes) {
    if (bytes > 0) Add(0, bytes);
  }

  // Best fit; of equal ranges the lowest or, if `upper`, the highest, and its upper end.
  std::int64_t Allocate(std::int64_t bytes, bool upper) {
    auto fit = by_size_.lower_bound({bytes, 0});
    if (fit == by_size_.end()) return AllocateAtTop(bytes);
    if (upper) fit = std::prev(by_size_.lower_bound({fit->first + 1, 0}));
    const auto [size, offset] = *fit;
    Remove(by_offset_.find(offset));
    const std::int64_t rest = size - bytes;
    if (rest > 0) Add(upper ? offset : offset + bytes, rest);
    return upper ? offset + rest : offset;
  }

  void Release(std::int64_t offset, std::int64_t bytes) {
    const auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && next->first == offset + bytes) {
      bytes += next->second;
      Remove(next);
    }
    const auto after = by_offset_.lower_bound(offset);
    if (after != by_offset_.begin()) {
      const auto previous = std::prev(after);
      if (previous->first + previous->second == offset) {
        offset = previous->first;
        bytes += previous->second;
        Remove(previous);
      }
    }
    Add(offset, bytes);
  }

 private:
  using ByOffset = std::map<std::int64_t, std::int64_t>;

  std::int64_t AllocateAtTop(std::int64_t bytes) {
    std::int64_t offset = top_;
    if (!by_offset_.empty()) {
      const auto last = std::prev(by_offset_.end());
      if (last->first + last->second == top_) {
        offset = last->first;
        Remove(last);
      }
    }
    top_ = offset + bytes;
    return offset;
  }
  void Add(std::int64_t offset, std::int64_t bytes) {
    by_offset_.emplace(offset, bytes);
    by_size_.emplace(bytes, offset);
  }
  void Remove(ByOffset::iterator range) {
    by_size_.erase({range->second, range->first});
    by_offset_.erase(range);
  }

  ByOffset by_offset_;
  std::set<std::pair<std::int64_t, std::int64_t>> by_size_;  // Bytes, offset.
  std::int64_t top_;
};

template <typename Key>
std::vector<std::uint32_t> SortedBy(std::size_t count, Key key) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); });
  return order;
}

// Calls on_end(item) and on_begin(item) in the order of time; at one instant, ends first.
template <typename OnBegin, typename OnEnd>
void Sweep(std::span<const PlacementItem> items, OnBegin on_begin, OnEnd on_end) {
  const std::vector<std::uint32_t> begins =
      SortedBy(items.size(), [&](std::uint32_t i) { return items[i].interval.begin; });
  const std::vector<std::uint32_t> ends =
      SortedBy(items.size(), [&](std::uint32_t i) { return items[i].interval.end; });
  auto ending = ends.begin();
  for (const std::uint32_t i : begins) {
    while (items[*ending].interval.end <= items[i].interval.begin) on_end(*ending++);
    on_begin(i);
  }
}

}  // namespace

std::int64_t PeakBytes(std::span<const PlacementItem> items) {
  std::int64_t live = 0, peak = 0;
  Sweep(
      items, [&](std::uint32_t i) { peak = std::max(peak, live += items[i].bytes); },
      [&](std::uint32_t i) { live -= items[i].bytes; });
  return peak;
}

Placement PlaceBySweep(std::span<const PlacementItem> items, std::int64_t peak_bytes,
                       std::uint32_t short_life) {
  Placement placement{.offset = std::vector<std::int64_t>(items.size())};
  FreeList free(peak_bytes);
  Sweep(
      items,
      [&](std::uint32_t i) {
        const PlacementItem& item = items[i];
        const bool is_short = item.interval.end - item.interval.begin < short_life;
        placement.offset[i] = free.Allocate(item.bytes, is_short);
        placement.height = std::max(placement.height, placement.offset[i] + item.bytes);
      },
      [&](std::uint32_t i) { free.Release(placement.offset[i], items[i].bytes); });
  return placement;
}

}  // namespace twinstep
