#include "exec/cuda/fused_pairs.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace twinstep::cuda {
namespace {

class Finder {
 public:
  Finder(const Program& program, bool same_bits)
      : program_(program), graph_(*program.graph), same_bits_(same_bits) {
    pairs_.fusion.assign(graph_.tasks.size(), Fusion::kNone);
    pairs_.partner.assign(graph_.tasks.size(), kNone);
  }

  FusedPairs Find() {
    CountReaders();
    for (RankId rank = 0; rank < graph_.ranks.size(); ++rank) {
      std::array<TaskId, kLaneCount> previous;
      previous.fill(kNone);
      for (TaskId id = graph_.rank_begin[rank]; id < graph_.rank_begin[rank + 1]; ++id) {
        TaskId& before = previous[static_cast<std::size_t>(graph_.tasks[id].lane)];
        if (before != kNone) Consider(before, id);
        before = id;
      }
    }
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
    for (RankId rank = 0; rank < graph_.ranks.size(); ++rank) {
      std::array<TaskId, kLaneCount> previous;
      previous.fill(kNone);
      for (TaskId id = graph_.rank_begin[rank]; id < graph_.rank_begin[rank + 1]; ++id) {
        TaskId& before = previous[static_cast<std::size_t>(graph_.tasks[id].lane)];
        for (const Operand& x : graph_.Reads(id)) {
          ++readers_[x.buffer];
          if (before == kNone || !std::ranges::count(graph_.Writes(before), x)) {
            ++distant_readers_[x.buffer];
          }
        }
        before = id;
      }
    }
  }

  OpCode OpOf(TaskId id) const { return graph_.shapes[graph_.tasks[id].shape].op; }

  void Consider(TaskId first, TaskId second) {
    if (program_.event[first] != kNone || graph_.tasks[first].kind != TaskKind::kCompute ||
        graph_.tasks[second].kind != TaskKind::kCompute) {
      return;
    }
    const std::span<const Operand> a_reads = graph_.Reads(first), a_writes = graph_.Writes(first);
    const std::span<const Operand> b_reads = graph_.Reads(second);
    if (OpOf(first) == OpCode::kSiluForward && OpOf(second) == OpCode::kMulForward) {
      // gate_up -> silu; silu, gate_up -> act.
      if (a_writes[0] == b_reads[0] && a_reads[0] == b_reads[1]) {
        Fuse(first, second, Fusion::kSwiGlu, a_writes[0].buffer);
      }
    } else if (OpOf(first) == OpCode::kMulBackward && OpOf(second) == OpCode::kSiluBackward) {
      // dact, silu, gate_up -> dsilu, dgate_up; dsilu, gate_up, dgate_up -> dgate_up.
      if (a_writes[0] == b_reads[0] && a_reads[2] == b_reads[1] && a_writes[1] == b_reads[2] &&
          a_writes[1] == graph_.Writes(second)[0] && distant_readers_[a_writes[0].buffer] == 0) {
        Fuse(first, second, Fusion::kSwiGluBackward, a_reads[1].buffer);
      }
    } else if (OpOf(first) == OpCode::kGemmForward && OpOf(second) == OpCode::kAdd) {
      if (!same_bits_ && CanAddInGemm(first, second)) {
        pairs_.fusion[first] = Fusion::kGemmAdd;
        pairs_.fusion[second] = Fusion::kWithPrevious;
        pairs_.partner[first] = second;
        pairs_.partner[second] = first;
      }
    }
  }

  // x, W -> z; z, residual -> y. The sum is written before it was due, over what only the product
  // still had to read: y must lie elsewhere.
  bool CanAddInGemm(TaskId first, TaskId second) const {
    constexpr unsigned kBias = kHasBias;
    if ((graph_.shapes[graph_.tasks[first].shape].flags & kBias) != 0 ||
        (graph_.shapes[graph_.tasks[second].shape].flags & kBias) != 0 ||
        program_.Waits(second).size() > 0) {
      return false;
    }
    const Operand& z = graph_.Writes(first)[0];
    const Operand& residual = graph_.Reads(second)[1];
    const Operand& y = graph_.Writes(second)[0];
    if (z != graph_.Reads(second)[0] || distant_readers_[z.buffer] != 0) return false;
    for (const Operand& x : graph_.Reads(first)) {
      if (Overlap(x, y)) return false;
    }
    return residual == y || !Overlap(residual, y);
  }

  bool Overlap(const Operand& a, const Operand& b) const {
    const Buffer &x = graph_.buffers[a.buffer], &y = graph_.buffers[b.buffer];
    if (x.rank != y.rank || x.pool != y.pool) return false;
    const std::int64_t x_begin = Begin(a), y_begin = Begin(b);
    return x_begin < y_begin + graph_.OperandBytes(b) && y_begin < x_begin + graph_.OperandBytes(a);
  }
  std::int64_t Begin(const Operand& x) const {
    return program_.arena->offset[x.buffer] + graph_.slices[x.slice].offset;
  }

  void Fuse(TaskId first, TaskId second, Fusion fusion, BufferId silu) {
    pairs_.fusion[first] = Fusion::kWithNext;
    pairs_.fusion[second] = fusion;
    pairs_.partner[first] = second;
    pairs_.partner[second] = first;
    ++fused_readers_[silu];
  }

  const Program& program_;
  const TaskGraph& graph_;
  const bool same_bits_;
  FusedPairs pairs_;
  // By buffer; distant are those that do not follow in their lane the very task that wrote what
  // they read.
  std::vector<std::uint32_t> readers_, distant_readers_, fused_readers_;
};

}  // namespace

FusedPairs FindFusedPairs(const Program& program, bool same_bits) {
  return Finder(program, same_bits).Find();
}

}  // namespace twinstep::cuda
