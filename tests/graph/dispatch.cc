#include "tests/graph/dispatch.h"

#include <array>
#include <random>
#include <utility>

namespace twinstep {
namespace {

// `choose(ready, running)` takes one task out of either list and says which step that is.
template <typename Choose>
std::vector<DispatchStep> Dispatch(const TaskGraph& graph, Choose choose) {
  std::vector<std::uint32_t> waits_for(graph.TaskCount(), 0);
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    for (const TaskId next : graph.Successors(id)) ++waits_for[next];
  }
  std::vector<TaskId> ready, running;
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    if (waits_for[id] == 0) ready.push_back(id);
  }
  std::vector<DispatchStep> steps;
  while (!ready.empty() || !running.empty()) {
    steps.push_back(choose(ready, running));
    const DispatchStep step = steps.back();
    if (!step.is_end) {
      running.push_back(step.task);
      continue;
    }
    for (const TaskId next : graph.Successors(step.task)) {
      if (--waits_for[next] == 0) ready.push_back(next);
    }
  }
  return steps;
}

TaskId Take(std::vector<TaskId>& tasks, std::size_t index) {
  const TaskId id = tasks[index];
  tasks[index] = tasks.back();
  tasks.pop_back();
  return id;
}

}  // namespace

std::vector<DispatchStep> RandomDispatch(const TaskGraph& graph, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::array<std::uint64_t, kLaneCount> start_rank{}, end_rank{};
  for (std::uint64_t& rank : start_rank) rank = random() % 8;
  for (std::uint64_t& rank : end_rank) rank = random() % 8;
  const std::uint64_t start_percent = 20 + random() % 60;
  // The better of two random picks.
  const auto pick = [&](std::vector<TaskId>& tasks, const auto& lane_rank) {
    const std::size_t a = random() % tasks.size();
    const std::size_t b = random() % tasks.size();
    const auto rank = [&](std::size_t i) {
      return lane_rank[static_cast<std::size_t>(graph.tasks[tasks[i]].lane)];
    };
    return Take(tasks, rank(a) >= rank(b) ? a : b);
  };
  return Dispatch(graph, [&](std::vector<TaskId>& ready, std::vector<TaskId>& running) {
    if (running.empty() || (!ready.empty() && random() % 100 < start_percent)) {
      return DispatchStep{pick(ready, start_rank), false};
    }
    return DispatchStep{pick(running, end_rank), true};
  });
}

std::vector<DispatchStep> HoardingDispatch(const TaskGraph& graph) {
  return Dispatch(graph, [&](std::vector<TaskId>& ready, std::vector<TaskId>& running) {
    if (!ready.empty()) return DispatchStep{Take(ready, ready.size() - 1), false};
    // Of what runs: first what makes buffers, then compute, then what holds them.
    const auto delay = [&](TaskId id) {
      switch (graph.tasks[id].kind) {
        case TaskKind::kRecv:
        case TaskKind::kH2D:
          return 0;
        case TaskKind::kSend:
        case TaskKind::kD2H:
          return 2;
        default:
          return 1;
      }
    };
    std::size_t best = 0;
    for (std::size_t i = 1; i < running.size(); ++i) {
      if (std::pair(delay(running[i]), running[i]) < std::pair(delay(running[best]), running[best]))
        best = i;
    }
    return DispatchStep{Take(running, best), true};
  });
}

}  // namespace twinstep
