#include "sim/graph/placement.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace twinstep {
namespace {

// Limit of one first-fit placement.
constexpr std::int64_t kMinSteps = 20'000'000;
constexpr std::int64_t kStepsPerItem = 500;

std::uint32_t Length(const PlacementItem& item) { return item.interval.end - item.interval.begin; }

double Area(const PlacementItem& item) {
  return static_cast<double>(item.bytes) * static_cast<double>(Length(item));
}

template <typename Less>
std::vector<std::uint32_t> Order(std::size_t count, Less less) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), less);
  return order;
}

// Keeps the best placement so far and knows when it is good enough.
class Contest {
 public:
  Contest(std::int64_t base_bytes, std::int64_t peak_bytes)
      : enough_(peak_bytes + (base_bytes + peak_bytes) / 500) {}

  bool IsWon() const { return has_entry_ && best_.height <= enough_; }
  void Enter(Placement placement) {
    if (!has_entry_ || placement.height < best_.height) best_ = std::move(placement);
    has_entry_ = true;
  }
  Placement Take() { return std::move(best_); }

 private:
  std::int64_t enough_;
  bool has_entry_ = false;
  Placement best_;
};

// Lengths below which a life counts as short, best first. Temporaries against tensors saved for a
// backward: lengths are far apart.
std::array<std::uint32_t, 3> ShortLives(std::span<const PlacementItem> items) {
  std::vector<std::uint32_t> lengths;
  for (const PlacementItem& item : items) lengths.push_back(Length(item));
  std::sort(lengths.begin(), lengths.end());
  return {4 * lengths[lengths.size() / 2], lengths.back() / 8, std::uint32_t{0}};
}

}  // namespace

Placement PlaceCheaply(std::span<const PlacementItem> items) {
  if (items.empty()) return {};
  return PlaceBySweep(items, PeakBytes(items), ShortLives(items).front());
}

Placement PlaceBest(std::span<const PlacementItem> items, const BufferLifetimes& lives,
                    std::int64_t base_bytes) {
  const std::int64_t peak = PeakBytes(items);
  Contest contest(base_bytes, peak);
  if (items.empty()) return contest.Take();

  for (const std::uint32_t short_life : ShortLives(items)) {
    contest.Enter(PlaceBySweep(items, peak, short_life));
    if (contest.IsWon()) return contest.Take();
  }

  // Large first, so that small ones fill the holes: stronger, but quadratic in what lives at once.
  // Where very much does, the sweeps are close to the peak already.
  const std::int64_t max_steps = kMinSteps + kStepsPerItem * std::int64_t(items.size());
  const auto by_bytes = [&](std::uint32_t a, std::uint32_t b) {
    return items[a].bytes > items[b].bytes;
  };
  const auto by_area = [&](std::uint32_t a, std::uint32_t b) {
    return Area(items[a]) > Area(items[b]);
  };
  const auto by_bytes_and_length = [&](std::uint32_t a, std::uint32_t b) {
    if (items[a].bytes != items[b].bytes) return items[a].bytes > items[b].bytes;
    return Length(items[a]) > Length(items[b]);
  };
  for (const std::vector<std::uint32_t>& order :
       {Order(items.size(), by_bytes), Order(items.size(), by_area),
        Order(items.size(), by_bytes_and_length)}) {
    std::optional<Placement> placement = PlaceFirstFit(items, lives, order, max_steps);
    if (!placement) break;
    contest.Enter(*std::move(placement));
    if (contest.IsWon()) break;
  }
  return contest.Take();
}

}  // namespace twinstep
