// A task graph made ready to run: what a backend needs to know before the first iteration.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exec/runtime/step_values.h"
#include "sim/graph/arena.h"
#include "sim/graph/task_graph.h"
#include "sim/plan/resolved_plan.h"
#include "sim/result.h"

namespace twinstep {

// Marks a point of a lane that other lanes can wait for.
using EventId = std::uint32_t;

struct Program {
  const TaskGraph* graph = nullptr;  // Unfolded; outlives the program.
  const ArenaPlan* arena = nullptr;
  std::vector<TaskPlace> places;        // By task.
  Dtype gradient_dtype = Dtype::kFp32;  // Of weight gradients.
  Dtype state_dtype = Dtype::kFp32;     // Of master weights and moments.
  std::uint32_t event_count = 0;
  std::vector<EventId> event;  // By task: recorded behind it; kNone if no other lane waits for it.
  // Events that a task's lane waits for before the task.
  std::vector<std::uint32_t> wait_begin;  // tasks + 1 entries.
  std::vector<EventId> waits;
  // Tasks of each rendezvous in the order of its group's members.
  std::vector<std::uint32_t> member_begin;  // rendezvous + 1 entries.
  std::vector<TaskId> members;

  std::span<const EventId> Waits(TaskId id) const {
    return {waits.data() + wait_begin[id], waits.data() + wait_begin[id + 1]};
  }
  std::span<const TaskId> Members(RendezvousId id) const {
    return {members.data() + member_begin[id], members.data() + member_begin[id + 1]};
  }
};

// Graph and arena must outlive the program. An Error (kInternal) if the graph is folded, or if a
// rendezvous is not met by as many tasks as take part, each of another member of its group.
Result<Program> MakeProgram(const TaskGraph& graph, const ArenaPlan& arena,
                            const ResolvedPlan& plan);

}  // namespace twinstep
