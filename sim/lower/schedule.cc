#include "sim/lower/schedule.h"

#include <algorithm>

namespace twinstep {
namespace {

// The i-th forward (or backward) of a rank: micro-batches advance in groups of p through all of
// the rank's stages, backwards from the last stage down.
ScheduleUnit UnitAt(std::int64_t i, bool backward, std::int64_t p, std::int64_t v) {
  const std::int64_t group = i / (p * v);
  const std::int64_t within = i % (p * v);
  const std::int64_t chunk = within / p;
  return {.backward = backward,
          .micro_batch = static_cast<std::uint16_t>(group * p + within % p),
          .chunk = static_cast<std::uint16_t>(backward ? v - 1 - chunk : chunk)};
}

}  // namespace

std::int64_t WarmupForwards(Schedule schedule, std::int64_t p, std::int64_t v, std::int64_t m,
                            std::int64_t rank) {
  const std::int64_t total = m * v;
  switch (schedule) {
    case GPIPE:
      return total;
    case INTERLEAVED_1F1B:
      return std::min(total, 2 * (p - rank - 1) + (v - 1) * p);
    default:
      return std::min(total, p - rank - 1);
  }
}

std::vector<ScheduleUnit> RankSchedule(Schedule schedule, std::int64_t p, std::int64_t v,
                                       std::int64_t m, std::int64_t rank) {
  const std::int64_t total = m * v;
  const std::int64_t warmup = WarmupForwards(schedule, p, v, m, rank);
  // With one stage a rank, groups of p are the plain order 0, 1, 2, ... for any m.
  const auto unit = [&](std::int64_t i, bool backward) { return UnitAt(i, backward, p, v); };
  std::vector<ScheduleUnit> units;
  units.reserve(static_cast<std::size_t>(2 * total));
  for (std::int64_t i = 0; i < warmup; ++i) units.push_back(unit(i, false));
  for (std::int64_t i = warmup; i < total; ++i) {
    units.push_back(unit(i, false));
    units.push_back(unit(i - warmup, true));
  }
  for (std::int64_t i = total - warmup; i < total; ++i) units.push_back(unit(i, true));
  return units;
}

}  // namespace twinstep
