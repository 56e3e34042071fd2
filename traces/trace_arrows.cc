#include "traces/trace_arrows.h"

#include <cstddef>

namespace twinstep {

std::vector<TraceArrow> ArrowsOf(const Trace& trace, const TaskGraph& graph) {
  std::vector<int> event_of(graph.tasks.size(), -1);
  std::vector<int> send_of(graph.rendezvous.size(), -1);
  for (int i = 0; i < trace.task_size(); ++i) {
    event_of[trace.task(i)] = i;
    const Task& task = graph.tasks[trace.task(i)];
    if (task.kind == TaskKind::kSend) send_of[task.rendezvous] = i;
  }
  std::vector<TraceArrow> arrows;
  for (int i = 0; i < trace.task_size(); ++i) {
    const TaskId id = trace.task(i);
    const Task& task = graph.tasks[id];
    for (const TaskId next : graph.Successors(id)) {
      if (graph.tasks[next].lane != task.lane) arrows.push_back({i, event_of[next]});
    }
    if (task.kind == TaskKind::kRecv && send_of[task.rendezvous] >= 0) {
      arrows.push_back({send_of[task.rendezvous], i});
    }
  }
  return arrows;
}

}  // namespace twinstep
