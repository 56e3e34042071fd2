#include "sim/graph/structure.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace twinstep {
namespace {

using MaybeViolation = std::optional<Violation>;

// Whether an enumerator, perhaps read from a file, is one of the first `count`.
template <typename E>
bool Known(E value, int count) {
  return static_cast<int>(value) < count;
}

std::string Number(std::uint64_t value) { return std::to_string(value); }

Violation Broken(const std::string& what) {
  Violation violation;
  violation.rule = Rule::kStructure;
  violation.message = std::string(Name(Rule::kStructure)) + ": " + what;
  return violation;
}

// "task 12 (rank 3, lane h2d)": indices only, as names need a sound graph.
Violation BrokenTask(const TaskGraph& graph, TaskId id, const std::string& what) {
  const Task& task = graph.tasks[id];
  Violation violation = Broken("task " + Number(id) + " (rank " + Number(task.rank) + ", lane " +
                               Name(task.lane) + ") " + what);
  violation.first = id;
  return violation;
}

MaybeViolation CheckRanks(const TaskGraph& graph) {
  const auto& begin = graph.rank_begin;
  if (begin.size() != graph.ranks.size() + 1) {
    return Broken("rank_begin has " + Number(begin.size()) + " entries, " +
                  Number(graph.ranks.size()) + " ranks need one more");
  }
  if (begin.front() != 0 || begin.back() != graph.tasks.size()) {
    return Broken("rank_begin runs from " + Number(begin.front()) + " to " + Number(begin.back()) +
                  ", the tasks from 0 to " + Number(graph.tasks.size()));
  }
  for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    if (begin[rank] > begin[rank + 1]) {
      return Broken("rank_begin decreases after rank " + Number(rank));
    }
  }
  std::vector<std::uint32_t> class_size(graph.ranks.size(), 0);
  for (std::size_t global = 0; global < graph.rank_class.size(); ++global) {
    if (graph.rank_class[global] >= graph.ranks.size()) {
      return Broken("global rank " + Number(global) + " is of class " +
                    Number(graph.rank_class[global]) + ", there are " + Number(graph.ranks.size()));
    }
    ++class_size[graph.rank_class[global]];
  }
  for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    const RankInfo& info = graph.ranks[rank];
    if (info.global_rank >= graph.rank_class.size() || graph.rank_class[info.global_rank] != rank) {
      return Broken("rank " + Number(rank) + " is represented by global rank " +
                    Number(info.global_rank) + ", which is not of its class");
    }
    if (info.class_size != class_size[rank]) {
      return Broken("rank " + Number(rank) + " says that it stands for " + Number(info.class_size) +
                    " global ranks, rank_class for " + Number(class_size[rank]));
    }
  }
  return std::nullopt;
}

MaybeViolation CheckTables(const TaskGraph& graph) {
  if (graph.slices.empty()) return Broken("slice 0, the whole buffer, is missing");
  for (std::size_t i = 0; i < graph.shapes.size(); ++i) {
    if (!Known(graph.shapes[i].op, kOpCodeCount) || !Known(graph.shapes[i].dtype, kDtypeCount)) {
      return Broken("shape " + Number(i) + " has an unknown operation or dtype");
    }
  }
  for (std::size_t i = 0; i < graph.buffers.size(); ++i) {
    const Buffer& buffer = graph.buffers[i];
    const bool sound = buffer.rank < graph.ranks.size() && buffer.bytes >= 0 &&
                       Known(buffer.pool, kPoolCount) && Known(buffer.dtype, kDtypeCount) &&
                       Known(buffer.role, kRoleCount);
    if (!sound) {
      Violation violation = Broken("buffer " + Number(i) + " of rank " + Number(buffer.rank) +
                                   " has a rank, size, pool, dtype or role out of range (" +
                                   std::to_string(buffer.bytes) + " bytes)");
      violation.buffer = static_cast<BufferId>(i);
      return violation;
    }
  }
  std::vector<std::uint32_t> seen_in(graph.rank_class.size(), kNone);
  for (std::size_t i = 0; i < graph.groups.size(); ++i) {
    for (const std::uint32_t member : graph.groups[i].members) {
      if (member >= graph.rank_class.size()) {
        return Broken("group " + Number(i) + " has global rank " + Number(member) + " of " +
                      Number(graph.rank_class.size()));
      }
      if (std::exchange(seen_in[member], static_cast<std::uint32_t>(i)) == i) {
        return Broken("group " + Number(i) + " has global rank " + Number(member) + " twice");
      }
    }
  }
  for (std::size_t i = 0; i < graph.rendezvous.size(); ++i) {
    const Rendezvous& rendezvous = graph.rendezvous[i];
    const bool sound = rendezvous.participants > 0 &&
                       (rendezvous.group == kNone || rendezvous.group < graph.groups.size());
    if (!sound) {
      Violation violation = Broken("rendezvous " + Number(i) + " has group " +
                                   Number(rendezvous.group) + " of " + Number(graph.groups.size()) +
                                   " and " + Number(rendezvous.participants) + " participants");
      violation.rendezvous = static_cast<RendezvousId>(i);
      return violation;
    }
  }
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const TensorInfo& tensor = graph.tensors[i];
    const bool sound = tensor.buffer < graph.buffers.size() && tensor.slice.offset >= 0 &&
                       tensor.slice.bytes >= 0 && Known(tensor.kind, kTensorKindCount) &&
                       Known(tensor.state, kStateKindCount) &&
                       Known(tensor.axis, kShardAxisCount) && tensor.rows >= 0 &&
                       tensor.columns >= 0 && tensor.axis_index < tensor.axis_count &&
                       tensor.shard_index < tensor.shard_count && tensor.cp_index < tensor.cp_count;
    if (!sound) {
      Violation violation = Broken("tensor " + Number(i) + " in buffer " + Number(tensor.buffer) +
                                   " has a buffer, slice, kind, shard or size out of range");
      violation.buffer = tensor.buffer;
      return violation;
    }
  }
  return std::nullopt;
}

bool IsMovement(OpCode op) { return op >= OpCode::kCopyH2D; }

bool KindFits(TaskKind kind, OpCode op) {
  switch (kind) {
    case TaskKind::kCompute:
    case TaskKind::kHost:
      return !IsMovement(op);
    case TaskKind::kH2D:
      return op == OpCode::kCopyH2D;
    case TaskKind::kD2H:
      return op == OpCode::kCopyD2H;
    case TaskKind::kSend:
      return op == OpCode::kSend;
    case TaskKind::kRecv:
      return op == OpCode::kRecv;
    case TaskKind::kCollective:
      return op >= OpCode::kAllReduce;
  }
  return false;
}

MaybeViolation CheckOperand(const TaskGraph& graph, TaskId id, const Operand& operand) {
  const auto fail = [&](const std::string& what) {
    Violation violation = BrokenTask(graph, id, what);
    violation.buffer = operand.buffer;
    return violation;
  };
  if (operand.buffer >= graph.buffers.size()) {
    return fail("has buffer " + Number(operand.buffer) + " of " + Number(graph.buffers.size()));
  }
  const Buffer& buffer = graph.buffers[operand.buffer];
  if (buffer.rank != graph.tasks[id].rank) {
    return fail("touches buffer " + Number(operand.buffer) + " of rank " + Number(buffer.rank));
  }
  if (operand.slice >= graph.slices.size()) {
    return fail("has slice " + Number(operand.slice) + " of " + Number(graph.slices.size()));
  }
  if (operand.slice != 0) {
    const Slice& slice = graph.slices[operand.slice];
    if (slice.offset < 0 || slice.bytes < 0 || slice.offset > buffer.bytes ||
        slice.bytes > buffer.bytes - slice.offset) {
      return fail("has a slice of " + std::to_string(slice.bytes) + " bytes at " +
                  std::to_string(slice.offset) + " in buffer " + Number(operand.buffer) + " of " +
                  std::to_string(buffer.bytes) + " bytes");
    }
  }
  return std::nullopt;
}

MaybeViolation CheckTask(const TaskGraph& graph, TaskId id) {
  const Task& task = graph.tasks[id];
  if (!Known(task.kind, kTaskKindCount) || !Known(task.lane, kLaneCount) ||
      !Known(task.phase, kPhaseCount)) {
    return BrokenTask(graph, id, "has an unknown kind, lane or phase");
  }
  if (task.shape >= graph.shapes.size()) {
    return BrokenTask(graph, id,
                      "has shape " + Number(task.shape) + " of " + Number(graph.shapes.size()));
  }
  const OpCode op = graph.shapes[task.shape].op;
  if (!KindFits(task.kind, op)) {
    return BrokenTask(graph, id,
                      std::string("is a ") + Name(task.kind) + " with operation " + Name(op));
  }
  const bool meets = task.kind == TaskKind::kSend || task.kind == TaskKind::kRecv ||
                     task.kind == TaskKind::kCollective;
  if (meets ? task.rendezvous >= graph.rendezvous.size() : task.rendezvous != kNone) {
    Violation violation =
        BrokenTask(graph, id,
                   std::string("is a ") + Name(task.kind) + " with rendezvous " +
                       (task.rendezvous == kNone ? std::string("none") : Number(task.rendezvous)) +
                       " of " + Number(graph.rendezvous.size()));
    violation.rendezvous = task.rendezvous;
    return violation;
  }
  const std::uint64_t operand_end =
      std::uint64_t{task.operand_begin} + task.read_count + task.write_count;
  if (operand_end > graph.operands.size()) {
    return BrokenTask(
        graph, id,
        "has operands to " + Number(operand_end) + " of " + Number(graph.operands.size()));
  }
  for (std::uint64_t i = task.operand_begin; i < operand_end; ++i) {
    if (MaybeViolation bad = CheckOperand(graph, id, graph.operands[i])) return bad;
  }
  return std::nullopt;
}

MaybeViolation CheckTasks(const TaskGraph& graph) {
  for (RankId rank = 0; rank < graph.ranks.size(); ++rank) {
    for (TaskId id = graph.rank_begin[rank]; id < graph.rank_begin[rank + 1]; ++id) {
      if (graph.tasks[id].rank != rank) {
        return BrokenTask(graph, id, "lies in the range of rank " + Number(rank));
      }
      if (MaybeViolation bad = CheckTask(graph, id)) return bad;
    }
  }
  return std::nullopt;
}

MaybeViolation CheckEdges(const TaskGraph& graph) {
  const auto& row = graph.edges.m_forward.m_rowstart;
  const auto& column = graph.edges.m_forward.m_column;
  if (row.size() != graph.tasks.size() + 1 || row.front() != 0 || row.back() != column.size()) {
    return Broken("edge rows do not fit " + Number(graph.tasks.size()) + " tasks and " +
                  Number(column.size()) + " edges");
  }
  for (TaskId id = 0; id < graph.tasks.size(); ++id) {
    if (row[id] > row[id + 1]) return BrokenTask(graph, id, "has a negative number of edges");
  }
  for (TaskId id = 0; id < graph.tasks.size(); ++id) {
    const RankId rank = graph.tasks[id].rank;
    for (std::uint32_t i = row[id]; i < row[id + 1]; ++i) {
      const TaskId target = column[i];
      if (target < graph.rank_begin[rank] || target >= graph.rank_begin[rank + 1]) {
        Violation violation =
            BrokenTask(graph, id, "has an edge out of its rank, to task " + Number(target));
        violation.second = target;
        return violation;
      }
      if (i > row[id] && target <= column[i - 1]) {
        return BrokenTask(graph, id, "has edges that are not sorted or stand twice");
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Violation> CheckStructure(const TaskGraph& graph) {
  if (graph.tasks.size() >= kNone) return Broken("more tasks than ids");
  if (MaybeViolation bad = CheckRanks(graph)) return bad;
  if (MaybeViolation bad = CheckTables(graph)) return bad;
  if (MaybeViolation bad = CheckTasks(graph)) return bad;
  return CheckEdges(graph);
}

}  // namespace twinstep
