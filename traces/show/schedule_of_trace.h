// Forwards and backwards of a trace, as sim/report/schedule_rows.h draws them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/report/schedule_rows.h"
#include "traces/show/timeline.h"
#include "traces/trace.pb.h"

namespace twinstep {

// A row a pipeline coordinate: the lowest of the chosen ranks stands for its replicas. Empty where
// there is no pipeline of two ranks or more.
std::vector<ScheduleRow> ScheduleOf(const Trace& trace, const Timeline& timeline,
                                    const std::function<bool(std::uint32_t)>& shows_rank);

}  // namespace twinstep
