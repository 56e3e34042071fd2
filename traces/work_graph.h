// What a foreign trace says of an iteration, as a program that can be replayed: tasks with their
// durations, in the order in which each rank issues them, and what each waits for.
//
//   Result<WorkGraph> work = ...;                          // From a profile, or from Chakra files.
//   Result<WorkReplay> run = ReplayWork(work.value(), {});  // traces/work_replay.h
//
// A lane (a stream, a thread) is where a trace shows a task; a queue runs one task after the other,
// and a lane is one queue unless its tasks overlap. Times are picoseconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/graph/ids.h"

namespace twinstep {

struct WorkTask {
  std::uint32_t rank = 0;   // Into WorkGraph::ranks.
  std::uint32_t lane = 0;   // Into WorkGraph::lanes.
  std::uint32_t queue = 0;  // Of its rank.
  std::uint32_t op = 0;     // Into WorkGraph::operators.
  TaskKind kind = TaskKind::kCompute;
  std::optional<Phase> phase = {};   // Nothing where the trace does not tell.
  std::uint32_t rendezvous = kNone;  // Into WorkGraph::rendezvous.
  std::int64_t duration_ps = 0;
  // Between the moment when all that it waits for had ended and its start, unexplained: launch
  // overhead, mostly. No scale shortens it.
  std::int64_t gap_ps = 0;
  // So much before the end of the one before it in its queue it may begin.
  std::int64_t lead_ps = 0;
  std::int64_t start_ps = -1;  // As traced; -1 where the trace has no time.
  std::int64_t bytes = 0;      // Moved.
  // Of computation without a duration: what it does, for a cluster to price. 0: not known.
  std::int64_t flops = 0, memory_bytes = 0;
  // A helper of the importer (time of the host between launches); it stands in no trace.
  bool hidden = false;
};

// Tasks that start and end together.
struct WorkRendezvous {
  std::uint32_t tasks = 0;  // That are in the graph.
  std::uint32_t ranks = 0;  // Of its group, perhaps more.
};

struct WorkGraph {
  std::string name;
  std::vector<std::uint32_t> ranks;  // Their numbers.
  std::vector<std::string> lanes, operators;
  std::vector<WorkTask> tasks;  // By rank, each rank's in issue order.
  // From, to; of one rank, the former before the latter.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  std::vector<WorkRendezvous> rendezvous;
  std::int64_t iteration_ps = 0;     // As traced; 0 where the trace has no times.
  std::vector<std::string> remarks;  // What could not be taken as it is.
};

// Gives each lane of each rank a queue of its own.
void QueueByLane(WorkGraph* work);

// The same by what the times say: tasks of a lane that overlap (branches of a CUDA graph, streams
// that the trace does not tell apart) are in queues of their own, and wait for those of the lane
// that had ended when they began. Where one begins just before the one before it ends
// (programmatic launches, clocks of whole microseconds), both stay in one queue, with a lead.
// Every task has a start_ps; the edges for what waits are added.
void QueueByTime(WorkGraph* work);

// Sets each task's gap_ps so that a replay without change starts it when the trace did. Tasks of a
// rendezvous take the shortest duration of them (the others waited inside of theirs) and the gap
// behind the last of their starts. Every task has a start_ps.
void ExplainStarts(WorkGraph* work);

}  // namespace twinstep
