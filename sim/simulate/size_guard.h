// Whether a simulation fits in the memory of this machine, before it is begun: the task graph of a
// large plan would otherwise take all of it.
//
//   const double tasks = EstimateTasks(plan, classes.representative.size());
//   if (Status fits = CheckSize(tasks, AvailableMemoryBytes()); !fits.ok()) return fits.error();
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "sim/plan/resolved_plan.h"
#include "sim/result.h"

namespace twinstep {

// Graph, costs, replay, arena and timeline together, measured on graphs of millions of tasks.
inline constexpr double kBytesPerTask = 400;

// An upper estimate of the tasks that Lower emits for `ranks` represented ranks. A pass of one
// layer for one micro-batch takes 13 to 20 tasks, up to 30 with tensor parallelism, dropout or
// recomputation, and about 16 t with chunked overlap.
double EstimateTasks(const ResolvedPlan& plan, std::size_t ranks);

// MemAvailable of /proc/meminfo; nothing where the system does not tell.
std::optional<std::int64_t> AvailableMemoryBytes();

// An Error (kBadInput) if the tasks need more than the available memory, if that is known.
Status CheckSize(double tasks, std::optional<std::int64_t> available_bytes);

}  // namespace twinstep
