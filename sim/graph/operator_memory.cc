#include "sim/graph/operator_memory.h"

#include <algorithm>
#include <unordered_map>

namespace twinstep {
namespace {

bool IsCounted(const Buffer& buffer) {
  if (buffer.pool != Pool::kGpu || buffer.persistent) return false;
  switch (buffer.role) {
    case Role::kActivation:
    case Role::kOffloadSlot:
    case Role::kTransient:
    case Role::kCommunication:
    case Role::kWorkspace:
      return true;
    case Role::kInput:
    case Role::kParameter:
    case Role::kGradient:
    case Role::kOptimizerState:
      return false;
  }
  return false;
}

struct Life {
  TaskId first = 0, last = 0;
};

}  // namespace

bool IsModule(OpCode op) {
  switch (op) {
    case OpCode::kGemmForward:
    case OpCode::kGemmDgrad:
    case OpCode::kGemmWgrad:
    case OpCode::kNormForward:
    case OpCode::kNormBackward:
    case OpCode::kActivationForward:
    case OpCode::kActivationBackward:
    case OpCode::kSiluForward:
    case OpCode::kSiluBackward:
    case OpCode::kDropoutAdd:
    case OpCode::kDropoutForward:
    case OpCode::kDropoutBackward:
    case OpCode::kEmbeddingForward:
    case OpCode::kEmbeddingBackward:
    case OpCode::kCrossEntropyStats:
    case OpCode::kCrossEntropyLoss:
    case OpCode::kCrossEntropyBackward:
      return true;
    default:
      return false;
  }
}

std::vector<OperatorMemoryUse> MeasureOperatorMemory(const TaskGraph& graph, RankId rank,
                                                     const WorkspaceOfTask& workspace) {
  const TaskId begin = graph.rank_begin[rank];
  const TaskId end = graph.rank_begin[rank + 1];
  const auto visit = [&graph](TaskId id, const auto& use) {
    for (const Operand& x : graph.Reads(id)) use(x.buffer);
    for (const Operand& x : graph.Writes(id)) use(x.buffer);
  };
  std::unordered_map<BufferId, Life> lives;
  for (TaskId id = begin; id < end; ++id) {
    visit(id, [&](BufferId buffer) {
      if (IsCounted(graph.buffers[buffer])) {
        lives.try_emplace(buffer, Life{.first = id, .last = id}).first->second.last = id;
      }
    });
  }

  std::vector<OperatorMemoryUse> uses;
  OperatorMemoryUse next;          // Of the module to come.
  std::int64_t current = 0;        // Allocated.
  std::int64_t end_of_module = 0;  // What was when the module before ended.
  std::vector<BufferId> seen;
  for (TaskId id = begin; id < end; ++id) {
    std::int64_t allocated = 0, freed = 0;
    seen.clear();
    visit(id, [&](BufferId buffer) {
      const auto life = lives.find(buffer);
      if (life == lives.end() || std::ranges::find(seen, buffer) != seen.end()) return;
      seen.push_back(buffer);
      const Buffer& which = graph.buffers[buffer];
      if (life->second.first == id) allocated += which.bytes;
      if (life->second.last != id) return;
      freed += which.bytes;
      const bool stored = which.role == Role::kActivation || which.role == Role::kOffloadSlot;
      if (stored && graph.tasks[life->second.first].phase == Phase::kForward) {
        next.released_bytes += which.bytes;
      }
    });
    const Task& task = graph.tasks[id];
    const bool computes = task.kind == TaskKind::kCompute;
    const std::int64_t scratch = computes && workspace ? workspace(id) : 0;
    const std::int64_t peak = current + allocated + scratch;
    if (computes && IsModule(graph.shapes[task.shape].op)) {
      next.task = id;
      next.workspace_bytes = scratch;
      next.inter_current_bytes = current - end_of_module;
      next.intra_current_bytes = allocated - freed;
      next.intra_peak_bytes = peak - current;
      uses.push_back(next);
      next = {};
      end_of_module = current + allocated - freed;
    } else {
      next.inter_peak_bytes = std::max(next.inter_peak_bytes, peak - end_of_module);
    }
    current += allocated - freed;
  }
  return uses;
}

}  // namespace twinstep
