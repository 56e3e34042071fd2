#include "exec/profile/collective_company.h"

#include <algorithm>

#include "exec/profile/task_company.h"

namespace twinstep {
namespace {

// Of a task's time: what little laps over the next task changes neither's time much.
constexpr double kLittle = 0.05;

CollectiveCompany::Company CompanyOf(double least_share, double most_share) {
  if (most_share < kLittle) return CollectiveCompany::kNone;
  return least_share > 1 - kLittle ? CollectiveCompany::kAlways : CollectiveCompany::kPartly;
}

}  // namespace

CollectiveCompany::CollectiveCompany(const TaskGraph& graph,
                                     const std::function<TaskTime(TaskId)>& time)
    : company_(graph.TaskCount(), kNone) {
  std::vector<double> least(graph.rendezvous.size(), 1), most(graph.rendezvous.size(), 0);
  for (RankId rank = 0; rank < graph.ranks.size(); ++rank) {
    const TaskId begin = graph.rank_begin[rank], end = graph.rank_begin[rank + 1];
    std::vector<TaskTime> operators, meetings;
    for (TaskId id = begin; id < end; ++id) {
      if (graph.tasks[id].kind == TaskKind::kCompute) operators.push_back(time(id));
      if (graph.tasks[id].rendezvous != twinstep::kNone) meetings.push_back(time(id));
    }
    const TaskCompany of_operators(operators), of_meetings(meetings);
    for (TaskId id = begin; id < end; ++id) {
      const Task& task = graph.tasks[id];
      if (task.kind == TaskKind::kCompute) {
        const double share = of_meetings.OfOther(time(id));
        company_[id] = CompanyOf(share, share);
      } else if (task.rendezvous != twinstep::kNone) {
        const double share = of_operators.OfOther(time(id));
        least[task.rendezvous] = std::min(least[task.rendezvous], share);
        most[task.rendezvous] = std::max(most[task.rendezvous], share);
      }
    }
  }
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    const RendezvousId rendezvous = graph.tasks[id].rendezvous;
    if (rendezvous == twinstep::kNone) continue;
    company_[id] = CompanyOf(least[rendezvous], most[rendezvous]);
  }
}

}  // namespace twinstep
