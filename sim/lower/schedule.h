// Pipeline schedules: the order in which one rank runs forwards and backwards.
//
//   for (const ScheduleUnit& unit : RankSchedule(INTERLEAVED_1F1B, /*p=*/4, /*v=*/2, /*m=*/8,
//   /*rank=*/0))
//     std::printf("%c(%d,%d) ", unit.backward ? 'B' : 'F', unit.micro_batch, unit.chunk);
#pragma once

#include <cstdint>
#include <vector>

#include "sim/plan/plan.pb.h"

namespace twinstep {

// The forward or backward of one micro-batch through one stage of the rank.
struct ScheduleUnit {
  bool backward = false;
  std::uint16_t micro_batch = 0;
  std::uint16_t chunk = 0;  // The rank's virtual stage 0 .. v-1; global stage = chunk * p + rank.
  bool operator==(const ScheduleUnit&) const = default;
};

// Forwards before the first backward: 1F1B p - r - 1, interleaved 2 (p - r - 1) + (v - 1) p
// (Narayanan et al. 2021; Yuan et al., ATC 2024), GPipe all. The steady state then alternates one
// forward with one backward. Interleaved orders need m mod p = 0.
std::int64_t WarmupForwards(Schedule schedule, std::int64_t p, std::int64_t v, std::int64_t m,
                            std::int64_t rank);

// 2 m v units. GPipe runs its backwards in micro-batch order (FIFO), so that gradients accumulate
// in the same order under every schedule.
std::vector<ScheduleUnit> RankSchedule(Schedule schedule, std::int64_t p, std::int64_t v,
                                       std::int64_t m, std::int64_t rank);

}  // namespace twinstep
