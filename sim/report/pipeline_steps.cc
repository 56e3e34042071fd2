#include "sim/report/pipeline_steps.h"

#include <algorithm>
#include <limits>
#include <map>

namespace twinstep {
namespace {

constexpr int kNever = std::numeric_limits<int>::max();

bool IsStepTask(const Task& task) {
  return task.kind == TaskKind::kCompute && task.lane == Lane::kCompute &&
         task.micro_batch != kNoTag && task.stage != kNoTag &&
         (task.phase == Phase::kForward || task.phase == Phase::kRecompute ||
          task.phase == Phase::kBackward);
}

// During which steps a task may run: not before its predecessors' steps are over, not once the
// step of a successor begins.
struct Window {
  int first = 0;
  int last = kNever;
};

// Windows of all tasks of a rank, by task id minus the rank's first.
std::vector<Window> WindowsOfRank(const TaskGraph& graph, RankId rank,
                                  const std::vector<PipelineStep>& steps) {
  const TaskId begin = graph.rank_begin[rank];
  const TaskId end = graph.rank_begin[rank + 1];
  std::vector<int> step_of(end - begin, -1);
  for (std::size_t k = 0; k < steps.size(); ++k) {
    for (TaskId id = steps[k].first; id <= steps[k].last; ++id) {
      const Task& task = graph.tasks[id];
      if (IsStepTask(task)) step_of[id - begin] = static_cast<int>(k);
    }
  }
  const auto is_first = [&](TaskId id, int k) {
    return steps[static_cast<std::size_t>(k)].first == id;
  };
  const auto is_last = [&](TaskId id, int k) {
    return steps[static_cast<std::size_t>(k)].last == id;
  };
  std::vector<Window> windows(end - begin);
  // Issue order is a topological order: one pass each way.
  for (TaskId id = begin; id < end; ++id) {
    const int step = step_of[id - begin];
    int first = windows[id - begin].first;
    if (step >= 0) first = std::max(first, is_last(id, step) ? step + 1 : step);
    for (const TaskId next : graph.Successors(id)) {
      Window& window = windows[next - begin];
      window.first = std::max(window.first, first);
    }
  }
  for (TaskId id = end; id-- > begin;) {
    for (const TaskId next : graph.Successors(id)) {
      const int step = step_of[next - begin];
      int last = windows[next - begin].last;
      if (step >= 0) last = std::min(last, is_first(next, step) ? step - 1 : step);
      windows[id - begin].last = std::min(windows[id - begin].last, last);
    }
  }
  return windows;
}

// Where the copies of blocks in one direction may hide.
class CopyWindows {
 public:
  CopyWindows(const TaskGraph& graph, const Replay& replay, RankId rank, TaskKind kind,
              const std::vector<PipelineStep>& steps, const std::vector<Window>& windows) {
    const TaskId begin = graph.rank_begin[rank];
    for (TaskId id = begin; id < graph.rank_begin[rank + 1]; ++id) {
      const Task& task = graph.tasks[id];
      if (task.kind != kind || task.micro_batch == kNoTag || task.stage == kNoTag) continue;
      const BlockId block{task.micro_batch, task.stage};
      const auto [found, is_new] = windows_.emplace(block, windows[id - begin]);
      if (is_new) order_.push_back(block);
      found->second.first = std::min(found->second.first, windows[id - begin].first);
      found->second.last = std::max(found->second.last, windows[id - begin].last);
      last_end_ps_ = std::max(last_end_ps_, replay.end_ps[id]);
    }
    for (std::size_t k = 0; k < steps.size(); ++k) {
      if (replay.start_ps[steps[k].first] < last_end_ps_) last_step_ = static_cast<int>(k);
    }
  }

  void NotBefore(BlockId block, int step) {
    const auto found = windows_.find(block);
    if (found != windows_.end()) found->second.first = std::max(found->second.first, step);
  }

  // Once the first steps are final: one block at a time.
  void EndEachBeforeTheNext() {
    for (std::size_t i = 0; i < order_.size(); ++i) {
      Window& window = windows_[order_[i]];
      const bool is_last = i + 1 == order_.size();
      const int end = is_last ? last_step_ : windows_[order_[i + 1]].first - 1;
      window.last = std::max(window.first, std::min(window.last, end));
    }
  }

  // Null if the block is not copied.
  const Window* Find(BlockId block) const {
    const auto found = windows_.find(block);
    return found == windows_.end() ? nullptr : &found->second;
  }

 private:
  std::map<BlockId, Window> windows_;
  std::vector<BlockId> order_;
  Picoseconds last_end_ps_ = 0;
  int last_step_ = 0;
};

}  // namespace

std::vector<PipelineStep> StepsOfRank(const TaskGraph& graph, RankId rank) {
  std::vector<PipelineStep> steps;
  for (TaskId id = graph.rank_begin[rank]; id < graph.rank_begin[rank + 1]; ++id) {
    const Task& task = graph.tasks[id];
    if (!IsStepTask(task)) continue;
    const bool backward = task.phase != Phase::kForward;
    const BlockId block{task.micro_batch, task.stage};
    if (steps.empty() || steps.back().backward != backward || steps.back().block != block) {
      steps.push_back({backward, block, id, id});
    }
    steps.back().last = id;
  }
  return steps;
}

std::vector<StepState> StatesOfSteps(const TaskGraph& graph, const Replay& replay, RankId rank,
                                     const std::vector<PipelineStep>& steps) {
  const std::vector<Window> windows = WindowsOfRank(graph, rank, steps);
  CopyWindows offloads(graph, replay, rank, TaskKind::kD2H, steps, windows);
  CopyWindows reloads(graph, replay, rank, TaskKind::kH2D, steps, windows);
  // A block leaves once its forward is over; the graph lets it go when its last saved tensor is
  // written, a few operators before.
  for (std::size_t k = 0; k < steps.size(); ++k) {
    if (!steps[k].backward) offloads.NotBefore(steps[k].block, static_cast<int>(k) + 1);
  }
  offloads.EndEachBeforeTheNext();
  reloads.EndEachBeforeTheNext();

  struct Life {
    int made = 0, used = kNever;
  };
  std::map<BlockId, Life> lives;
  for (std::size_t k = 0; k < steps.size(); ++k) {
    const int step = static_cast<int>(k);
    if (steps[k].backward) {
      lives[steps[k].block].used = step;
    } else {
      lives[steps[k].block].made = step;
    }
  }

  std::vector<StepState> states(steps.size());
  const auto count = [&states](int first, int last, int StepState::*member) {
    last = std::min(last, static_cast<int>(states.size()) - 1);
    for (int k = std::max(first, 0); k <= last; ++k)
      ++(states[static_cast<std::size_t>(k)].*member);
  };
  const auto mark = [&states](const Window& window, BlockId block,
                              std::optional<BlockId> StepState::*member) {
    for (int k = window.first; k <= window.last && k < static_cast<int>(states.size()); ++k) {
      states[static_cast<std::size_t>(k)].*member = block;
    }
  };
  for (const auto& [block, life] : lives) {
    count(life.made, life.used, &StepState::living);
    const Window* const offload = offloads.Find(block);
    const Window* const reload = reloads.Find(block);
    if (offload == nullptr || reload == nullptr) {
      count(life.made, life.used, &StepState::whole_on_gpu);
      continue;
    }
    Window out = *offload, in = *reload;
    out.last = std::min(out.last, std::max(out.first, in.first - 1));
    in.last = std::min(in.last, std::max(in.first, life.used - 1));
    mark(out, block, &StepState::offloading);
    mark(in, block, &StepState::reloading);
    count(life.made, out.last, &StepState::whole_on_gpu);
    count(out.last + 1, in.last, &StepState::on_host);
    count(in.first, life.used, &StepState::reload_buffers);
  }
  return states;
}

}  // namespace twinstep
