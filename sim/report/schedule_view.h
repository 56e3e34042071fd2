// The pipeline as text: who runs which forward and backward when, and where a rank's activation
// blocks are.
#pragma once

#include <cstddef>
#include <string>

#include "sim/engine/engine.h"
#include "sim/graph/task_graph.h"
#include "sim/report/schedule_rows.h"

namespace twinstep {

// A row a pipeline rank, time from left to right. Where a forward is narrower than its label, the
// picture of the whole iteration is followed by its beginning and its end in more detail.
std::string DrawSchedule(const TaskGraph& graph, const Replay& replay,
                         const ScheduleViewOptions& options);

// Steps of a rank with the blocks in flight, living, on the GPU and on the host (Yuan et al.'s
// table 10). Of more than `max_steps`, the middle is left out.
std::string StepTable(const TaskGraph& graph, const Replay& replay, RankId rank,
                      std::size_t max_steps = 64);

}  // namespace twinstep
