// Whether the operators of one iteration ran beside collectives and messages of their rank, and
// these beside operators. Both take longer so, and a mean of such times and others is neither's.
//
//   const CollectiveCompany company(graph, [&](TaskId id) { return run.Time(id); });
//   if (company.Of(id) == CollectiveCompany::kNone) ...  // Alone.
#pragma once

#include <functional>
#include <vector>

#include "exec/runtime/backend.h"
#include "sim/graph/task_graph.h"

namespace twinstep {

class CollectiveCompany {
 public:
  enum Company { kNone, kPartly, kAlways };

  // `time`: of one iteration.
  CollectiveCompany(const TaskGraph& graph, const std::function<TaskTime(TaskId)>& time);

  // Of a rendezvous its members' together: it ends when the last of them does. kNone for what is
  // neither an operator on the GPU nor part of a rendezvous.
  Company Of(TaskId id) const { return company_[id]; }

 private:
  std::vector<Company> company_;  // By task.
};

}  // namespace twinstep
