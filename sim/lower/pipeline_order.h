// Issue order of a pipeline's computations, sends and receives on every rank.
//
// Ranks that each issue a send before a receive can wait for each other in a ring for ever, lanes
// or not, once a communication library runs them in issue order. So sends and receives are ordered
// by the time at which they meet in an ideal run of the schedule (a backward takes twice a
// forward), equal times by message: every rank follows one global order, which has no cycle.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/lower/schedule.h"

namespace twinstep {

struct IssueItem {
  enum class Kind : std::uint8_t { kUnit, kSend, kReceive };
  Kind kind = Kind::kUnit;
  std::uint32_t unit = 0;  // Index into PipelineOrder::units: what runs, sends or needs the input.
  bool operator==(const IssueItem&) const = default;
};

struct PipelineOrder {
  std::vector<ScheduleUnit> units;
  std::vector<IssueItem> items;
  // Buffers that outputs wait in until their receivers are ready, by direction (forward,
  // backward): so many that no computation of the ideal run waits for one.
  std::int64_t forward_send_slots = 2, backward_send_slots = 2;
};

// By pipeline rank.
std::vector<PipelineOrder> PipelineOrders(Schedule schedule, std::int64_t p, std::int64_t v,
                                          std::int64_t m);

}  // namespace twinstep
