// The order in which one dispatcher issues the tasks of all ranks: each rank in its issue order,
// ranks in turn, and the tasks of a rendezvous together, so that whatever a lane waits for has been
// issued before.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exec/runtime/program.h"
#include "sim/result.h"

namespace twinstep {

class IssueOrder {
 public:
  // An Error (kInternal, rule "deadlock") names rank, lane, task and rendezvous where no such order
  // exists. The program must outlive the order.
  static Result<IssueOrder> Make(const Program& program);

  // Tasks to issue; of a rendezvous only the first member, which stands for all.
  std::span<const TaskId> order() const { return order_; }

  // Another order, drawn at random among the legal: lanes keep theirs, edges are respected, ranks
  // do not wait for each other. Allocates nothing. Returns how many were ordered, all but for a
  // graph with a cycle.
  std::size_t Shuffle(std::uint64_t seed);

 private:
  explicit IssueOrder(const Program& program);
  TaskId NodeOf(TaskId id) const;

  const Program* program_;
  std::vector<TaskId> order_;
  // For Shuffle: by node (first member of a rendezvous), tasks that it waits for; next in lane.
  std::vector<std::uint32_t> predecessor_count_, open_;
  std::vector<TaskId> next_in_lane_, ready_;
};

}  // namespace twinstep
