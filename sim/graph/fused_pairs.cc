#include "sim/graph/fused_pairs.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

namespace twinstep {
namespace {

// Calls visit(before, id) for each task and the one before it on its lane, kNone if there is none.
template <typename Visit>
void ForEachNeighbour(const TaskGraph& graph, Visit visit) {
  std::array<TaskId, kLaneCount> previous;
  RankId rank = kNone;
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    const Task& task = graph.tasks[id];
    if (task.rank != rank) previous.fill(kNone);
    rank = task.rank;
    visit(std::exchange(previous[static_cast<std::size_t>(task.lane)], id), id);
  }
}

class Finder {
 public:
  Finder(const TaskGraph& graph, PairRule rule, const ArenaPlan* arena)
      : graph_(graph), rule_(rule), arena_(arena) {
    pairs_.fusion.assign(graph_.tasks.size(), Fusion::kAlone);
    pairs_.partner.assign(graph_.tasks.size(), kNone);
  }

  FusedPairs Find() {
    CountReaders();
    FindWaits();
    ForEachNeighbour(graph_, [this](TaskId before, TaskId id) {
      if (before != kNone) Consider(before, id);
    });
    // Known only now: whether all readers of SiLU's outputs are fused.
    for (TaskId id = 0; id < graph_.TaskCount(); ++id) {
      if (pairs_.fusion[id] != Fusion::kSwiGlu) continue;
      const BufferId silu = graph_.Writes(pairs_.partner[id])[0].buffer;
      if (readers_[silu] > fused_readers_[silu]) pairs_.fusion[id] = Fusion::kSwiGluWithSilu;
    }
    return std::move(pairs_);
  }

 private:
  void CountReaders() {
    readers_.assign(graph_.buffers.size(), 0);
    distant_readers_.assign(graph_.buffers.size(), 0);
    fused_readers_.assign(graph_.buffers.size(), 0);
    last_use_.assign(graph_.buffers.size(), 0);
    ForEachNeighbour(graph_, [this](TaskId before, TaskId id) {
      for (const Operand& x : graph_.Writes(id)) last_use_[x.buffer] = id;
      for (const Operand& x : graph_.Reads(id)) {
        last_use_[x.buffer] = id;
        ++readers_[x.buffer];
        if (before == kNone || !std::ranges::count(graph_.Writes(before), x)) {
          ++distant_readers_[x.buffer];
        }
      }
    });
  }

  void FindWaits() {
    is_waited_for_.assign(graph_.tasks.size(), false);
    waits_.assign(graph_.tasks.size(), false);
    for (TaskId id = 0; id < graph_.TaskCount(); ++id) {
      for (const TaskId next : graph_.Successors(id)) {
        if (graph_.tasks[next].lane == graph_.tasks[id].lane) continue;
        is_waited_for_[id] = true;
        waits_[next] = true;
      }
    }
  }

  const OpShape& ShapeOf(TaskId id) const { return graph_.shapes[graph_.tasks[id].shape]; }

  // The operands that op.h says such a pair has.
  bool HasOperands(TaskId id, std::size_t reads, std::size_t writes) const {
    return graph_.Reads(id).size() == reads && graph_.Writes(id).size() == writes;
  }

  void Consider(TaskId first, TaskId second) {
    if (graph_.tasks[first].kind != TaskKind::kCompute ||
        graph_.tasks[second].kind != TaskKind::kCompute) {
      return;
    }
    const OpCode a = ShapeOf(first).op, b = ShapeOf(second).op;
    if (a == OpCode::kSiluForward && b == OpCode::kMulForward) {
      if (IsSwiGlu(first, second)) {
        FuseSwiGlu(first, second, Fusion::kSwiGlu, graph_.Writes(first)[0].buffer);
      }
    } else if (a == OpCode::kMulBackward && b == OpCode::kSiluBackward) {
      if (IsSwiGluBackward(first, second)) {
        FuseSwiGlu(first, second, Fusion::kSwiGluBackward, graph_.Reads(first)[1].buffer);
      }
    } else if (a == OpCode::kGemmForward && b == OpCode::kAdd) {
      if (rule_ == PairRule::kAll && CanAddInGemm(first, second)) {
        Fuse(first, second, Fusion::kGemmAdd, Fusion::kWithPrevious);
      }
    }
  }

  // gate_up -> silu; silu, gate_up -> act.
  bool IsSwiGlu(TaskId first, TaskId second) const {
    return HasOperands(first, 1, 1) && HasOperands(second, 2, 1) && !is_waited_for_[first] &&
           graph_.Writes(first)[0] == graph_.Reads(second)[0] &&
           graph_.Reads(first)[0] == graph_.Reads(second)[1];
  }

  // dact, silu, gate_up -> dsilu, dgate_up; dsilu, gate_up, dgate_up -> dgate_up.
  bool IsSwiGluBackward(TaskId first, TaskId second) const {
    if (!HasOperands(first, 3, 2) || !HasOperands(second, 3, 1) || is_waited_for_[first]) {
      return false;
    }
    const std::span<const Operand> a_reads = graph_.Reads(first), a_writes = graph_.Writes(first);
    const std::span<const Operand> b_reads = graph_.Reads(second);
    return a_writes[0] == b_reads[0] && a_reads[2] == b_reads[1] && a_writes[1] == b_reads[2] &&
           a_writes[1] == graph_.Writes(second)[0] && distant_readers_[a_writes[0].buffer] == 0;
  }

  // x, W -> z; z, residual -> y. The sum is written before it was due, over what only the product
  // still had to read: y must lie elsewhere.
  bool CanAddInGemm(TaskId first, TaskId second) {
    // A bias would be one operand more.
    if (!HasOperands(first, 2, 1) || !HasOperands(second, 2, 1) || is_waited_for_[first] ||
        waits_[second]) {
      return false;
    }
    const Operand& z = graph_.Writes(first)[0];
    if (z != graph_.Reads(second)[0] || distant_readers_[z.buffer] != 0) return false;
    const Operand& residual = graph_.Reads(second)[1];
    const Operand& y = graph_.Writes(second)[0];
    for (const Operand& x : graph_.Reads(first)) {
      if (Overlap(x, y, second)) return false;
    }
    return residual == y || !Overlap(residual, y, second);
  }

  // Whether bytes of `a` are bytes of `b`, which `user` uses.
  bool Overlap(const Operand& a, const Operand& b, TaskId user) {
    const Buffer &x = graph_.buffers[a.buffer], &y = graph_.buffers[b.buffer];
    std::int64_t a_begin = graph_.slices[a.slice].offset, b_begin = graph_.slices[b.slice].offset;
    if (a.buffer != b.buffer) {
      // Buffers share bytes only where the last use of one is before the first of the other.
      const bool may_share = x.rank == y.rank && x.pool == y.pool && !x.persistent &&
                             !y.persistent && last_use_[a.buffer] < user;
      if (!may_share) return false;
      a_begin += Arena().offset[a.buffer];
      b_begin += Arena().offset[b.buffer];
    }
    return a_begin < b_begin + graph_.OperandBytes(b) && b_begin < a_begin + graph_.OperandBytes(a);
  }
  const ArenaPlan& Arena() {
    if (arena_ == nullptr) arena_ = &own_arena_.emplace(PlanArena(graph_));
    return *arena_;
  }

  void FuseSwiGlu(TaskId first, TaskId second, Fusion fusion, BufferId silu) {
    Fuse(first, second, Fusion::kWithNext, fusion);
    ++fused_readers_[silu];
  }
  void Fuse(TaskId first, TaskId second, Fusion of_first, Fusion of_second) {
    pairs_.fusion[first] = of_first;
    pairs_.fusion[second] = of_second;
    pairs_.partner[first] = second;
    pairs_.partner[second] = first;
  }

  const TaskGraph& graph_;
  const PairRule rule_;
  const ArenaPlan* arena_;
  std::optional<ArenaPlan> own_arena_;
  FusedPairs pairs_;
  // By buffer; distant are those that do not follow in their lane the very task that wrote what
  // they read.
  std::vector<std::uint32_t> readers_, distant_readers_, fused_readers_;
  std::vector<TaskId> last_use_;  // By buffer.
  // By task: whether another lane waits for it, and it for another lane.
  std::vector<bool> is_waited_for_, waits_;
};

// Whether the graph has operations that pairs begin with.
bool MayHavePairs(const TaskGraph& graph) {
  return std::ranges::any_of(graph.shapes, [](const OpShape& shape) {
    return shape.op == OpCode::kSiluForward || shape.op == OpCode::kMulBackward ||
           shape.op == OpCode::kAdd;
  });
}

}  // namespace

FusedPairs FindFusedPairs(const TaskGraph& graph, PairRule rule, const ArenaPlan* arena) {
  if (rule == PairRule::kNoPairs || !MayHavePairs(graph)) return {};
  return Finder(graph, rule, arena).Find();
}

}  // namespace twinstep
