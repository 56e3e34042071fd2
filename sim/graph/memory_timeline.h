// Live bytes over time: by rank, pool and role, for reports and traces.
//
// A buffer lives from the start of its first writer (first access, if nothing writes it) to the
// end of its last accessor; persistent ones always live. Lives are half-open: bytes freed at an
// instant are not counted beside those that begin at it. These are true sizes, not aligned ones,
// and without the holes of an arena: arena_bytes of arena.h is what must be allocated.
//
//   MemoryTimeline memory =
//       MeasureMemory(graph, replay.start_ps, replay.end_ps, {.max_points = 500}).value();
//   const PoolMemory& gpu = memory[rank][static_cast<std::size_t>(Pool::kGpu)];
//   gpu.peak_bytes, gpu.at_peak[static_cast<std::size_t>(Role::kActivation)] ...
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/graph/task_graph.h"
#include "sim/result.h"

namespace twinstep {

using RoleBytes = std::array<std::int64_t, kRoleCount>;

struct MemoryPoint {
  std::int64_t time_ps = 0;
  std::int64_t total_bytes = 0;
  RoleBytes bytes{};  // Adds up to total_bytes.
};

// One pool of one rank.
struct PoolMemory {
  std::int64_t peak_bytes = 0;
  std::int64_t peak_time_ps = 0;  // The earliest instant with so many.
  RoleBytes at_peak{};            // Composition at that instant; adds up to peak_bytes.
  RoleBytes role_peak{};          // Of each role on its own, at whatever instant.
  // A step function by increasing time; a point holds until the next.
  std::vector<MemoryPoint> curve;
};

using MemoryTimeline = std::vector<std::array<PoolMemory, kPoolCount>>;  // By rank.

struct MemoryTimelineOptions {
  // Limit of the curve's points; 0 leaves the curve out, other values below 3 count as 3. Of a
  // longer curve, time is cut into equal parts and of each the highest point is kept, besides the
  // first and the last point: a peak is never lost, valleys may be.
  std::size_t max_points = 0;
};

// `start_ps` and `end_ps` by task. An Error if their lengths are not the graph's.
Result<MemoryTimeline> MeasureMemory(const TaskGraph& graph, std::span<const std::int64_t> start_ps,
                                     std::span<const std::int64_t> end_ps,
                                     const MemoryTimelineOptions& options = {});

// The same without a clock: every task takes one step, in issue order of its rank, and "time_ps"
// counts these steps. peak_bytes are the arena's live_bound_bytes, at_peak what they consist of.
MemoryTimeline MeasureIssueOrderMemory(const TaskGraph& graph);

}  // namespace twinstep
