// Where the time of an iteration goes: additive shares of each rank, in simulated and real traces
// alike.
//
// Each instant of a rank belongs to the first class of TimeClass that is active at it. So
// communication counts only while nothing computes ("exposed"), and the shares add up to the
// iteration. A transfer is communication from the moment when all its members are there; to wait
// for a partner is bubble.
//
//   std::vector<Breakdown> ranks = BreakDown(graph, replay);
//   double bubble_s = 1e-12 * static_cast<double>(ranks[0][TimeClass::kBubble]);
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/cost/graph_costs.h"
#include "sim/engine/engine.h"
#include "sim/graph/task_graph.h"
#include "sim/result.h"
#include "traces/interval_set.h"
#include "traces/trace.pb.h"

namespace twinstep {

// In order of priority.
enum class TimeClass : std::uint8_t {
  kCompute,
  kRecompute,
  kOptimizer,
  kTensorParallel,
  kContextParallel,
  kPipelineParallel,
  kDataParallel,
  kCopies,
  kBubble,  // Nothing is active: waits for a partner, a dependency or the end of the iteration.
};
inline constexpr int kTimeClassCount = 9;
// Communication and copies: what counts only while nothing computes.
inline constexpr std::array kExposedClasses = {
    TimeClass::kTensorParallel, TimeClass::kContextParallel, TimeClass::kPipelineParallel,
    TimeClass::kDataParallel, TimeClass::kCopies};

// Field of the JSON report: "compute_s", "tp_exposed_s", ..., "bubble_s".
const char* JsonName(TimeClass time_class);
// For tables: "compute", "TP exposed", ...
const char* Label(TimeClass time_class);

// Class of a task while it runs; never kBubble.
TimeClass ClassOf(TaskKind kind, Lane lane, Phase phase);

struct Breakdown {
  std::array<Picoseconds, kTimeClassCount> time_ps{};

  Picoseconds operator[](TimeClass x) const { return time_ps[static_cast<std::size_t>(x)]; }
  Picoseconds Total() const;
};

// What one rank did: by class (kBubble unused), when.
using ClassIntervals = std::array<std::vector<Interval>, kTimeClassCount>;
// The rule above. Intervals reach from 0 to `iteration_ps`.
Breakdown BreakDownRank(ClassIntervals intervals, Picoseconds iteration_ps);

// By rank of the graph (its representatives, if it is folded).
std::vector<Breakdown> BreakDown(const TaskGraph& graph, const Replay& replay);
// The same of any times, by task.
std::vector<Breakdown> BreakDown(const TaskGraph& graph, std::span<const Picoseconds> start_ps,
                                 std::span<const Picoseconds> end_ps, Picoseconds iteration_ps);
// By rank of the trace. An Error names the column and the event that cannot be used.
Result<std::vector<Breakdown>> BreakDown(const Trace& trace);

// Mean in seconds over real ranks: each entry counts `class_size` times.
std::array<double, kTimeClassCount> MeanSeconds(std::span<const Breakdown> ranks,
                                                std::span<const std::uint32_t> class_size);

}  // namespace twinstep
