#include "sim/report/chunk_summary.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "sim/lower/chunk_layout.h"
#include "sim/lower/local_shapes.h"
#include "traces/interval_set.h"

namespace twinstep {
namespace {

void Extend(std::optional<Span>* span, const Interval& when) {
  if (!*span) *span = Span{when.begin, when.end};
  (*span)->begin_ps = std::min((*span)->begin_ps, when.begin);
  (*span)->end_ps = std::max((*span)->end_ps, when.end);
}

class RankSummary {
 public:
  RankSummary(const Model& model, const ResolvedPlan& plan, const TaskGraph& graph,
              const Replay& replay, RankId rank)
      : plan_(plan), graph_(graph), replay_(replay), rank_(rank) {
    out_.global_rank = graph.ranks[rank].global_rank;
    if (plan.chunks.enabled) ListChunks(model);
    if (!plan.blocks.empty()) ListBlocks();
  }

  ChunksOfRank Run() {
    std::vector<Interval> computing;
    for (TaskId id = graph_.rank_begin[rank_]; id < graph_.rank_begin[rank_ + 1]; ++id) {
      const Task& task = graph_.tasks[id];
      const Interval when{replay_.start_ps[id], replay_.end_ps[id]};
      if (task.kind == TaskKind::kCompute) computing.push_back(when);
      if (plan_.chunks.enabled && task.chunk < out_.chunks.size()) AddToChunk(task, when);
      AddToBlock(task, when);
    }
    const IntervalSet compute(std::move(computing));
    const auto exposed = [&](std::vector<Interval>* moving) {
      const IntervalSet set(std::move(*moving));
      return set.Length() - set.Overlap(compute);
    };
    for (auto& [chunk, moving] : moving_chunk_) out_.chunks[chunk].exposed_ps = exposed(&moving);
    for (auto& [block, moving] : moving_block_) {
      out_.blocks[block_row_.at(block)].exposed_ps = exposed(&moving);
    }
    return std::move(out_);
  }

 private:
  void ListChunks(const Model& model) {
    const LocalShapes shapes = MakeLocalShapes(model, plan_);
    out_.parameter_bytes = DtypeBytes(shapes.dtype);
    out_.gradient_bytes = GradientsInPlace(plan_, shapes) ? 0 : DtypeBytes(shapes.gradient_dtype);
    std::map<std::uint16_t, std::set<StateKind>> states;
    std::int64_t used = 0;
    for (const TensorInfo& tensor : graph_.tensors) {
      const Buffer& buffer = graph_.buffers[tensor.buffer];
      if (buffer.rank != rank_ || tensor.state == StateKind::kData) continue;
      if (tensor.chunk >= out_.chunks.size()) out_.chunks.resize(tensor.chunk + std::size_t{1});
      ChunkReport& chunk = out_.chunks[tensor.chunk];
      chunk.chunk = tensor.chunk;
      if (tensor.state != StateKind::kParameter) {
        if (states[0].insert(tensor.state).second) out_.optimizer_bytes += DtypeBytes(buffer.dtype);
        continue;
      }
      if (std::ranges::find(chunk.blocks, tensor.block) == chunk.blocks.end()) {
        chunk.blocks.push_back(tensor.block);
      }
      chunk.on_gpu = buffer.pool == Pool::kGpu;
      chunk.parameters += tensor.rows * tensor.columns;
      used += tensor.slice.bytes;
      // Chunks that stream are sharded.
      out_.chunk_bytes = chunk.on_gpu ? buffer.bytes : buffer.bytes * plan_.d * plan_.c;
    }
    out_.waste_bytes = out_.chunk_bytes * static_cast<std::int64_t>(out_.chunks.size()) - used;
    const auto streaming = std::ranges::count(out_.chunks, false, &ChunkReport::on_gpu);
    out_.buffers = std::min<std::int64_t>(plan_.chunks.buffers, streaming);
  }

  void ListBlocks() {
    const std::int64_t pp = graph_.ranks[rank_].pp;
    for (std::size_t layer = 0; layer < plan_.blocks.size(); ++layer) {
      if (static_cast<std::int64_t>(layer) / plan_.l % plan_.p != pp) continue;
      block_row_[static_cast<std::uint16_t>(layer)] = out_.blocks.size();
      out_.blocks.push_back({.block = static_cast<std::uint16_t>(layer),
                             .choice = plan_.blocks[layer],
                             .out = {},
                             .back = {}});
    }
  }

  void AddToChunk(const Task& task, const Interval& when) {
    ChunkReport& chunk = out_.chunks[task.chunk];
    const OpShape& shape = graph_.shapes[task.shape];
    if (shape.op == OpCode::kAdam) Extend(&chunk.updated, when);
    if (task.kind == TaskKind::kCompute || task.lane == Lane::kTp || task.lane == Lane::kCp) return;
    moving_chunk_[task.chunk].push_back(when);
    switch (shape.op) {
      case OpCode::kCopyH2D:
        chunk.uploaded_bytes += shape.dims[0];
        (chunk.uploads++ == 0 ? chunk.first_upload : chunk.last_upload) =
            Span{when.begin, when.end};
        break;
      case OpCode::kCopyD2H:
        chunk.offloaded_bytes += shape.dims[0];
        Extend(&chunk.offloaded, when);
        break;
      case OpCode::kAllGather:
        Extend(&chunk.gathered, when);
        break;
      case OpCode::kReduceScatter:
        Extend(&chunk.reduced, when);
        break;
      default:
        break;
    }
  }

  void AddToBlock(const Task& task, const Interval& when) {
    const auto row = block_row_.find(task.block);
    if (row == block_row_.end()) return;
    BlockReport& block = out_.blocks[row->second];
    if (task.phase == Phase::kRecompute) block.recompute_ps += when.end - when.begin;
    const bool out = task.kind == TaskKind::kD2H;
    if (task.chunk != kNoTag || (!out && task.kind != TaskKind::kH2D)) return;
    if (out) block.swapped_bytes += graph_.shapes[task.shape].dims[0];
    Extend(out ? &block.out : &block.back, when);
    moving_block_[task.block].push_back(when);
  }

  const ResolvedPlan& plan_;
  const TaskGraph& graph_;
  const Replay& replay_;
  RankId rank_;
  ChunksOfRank out_;
  std::map<std::uint16_t, std::size_t> block_row_;
  std::map<std::uint16_t, std::vector<Interval>> moving_chunk_, moving_block_;
};

}  // namespace

std::vector<ChunksOfRank> SummarizeChunks(const Model& model, const ResolvedPlan& plan,
                                          const TaskGraph& graph, const Replay& replay) {
  std::vector<ChunksOfRank> result;
  if (!plan.chunks.enabled && plan.blocks.empty()) return result;
  for (RankId rank = 0; rank < graph.ranks.size(); ++rank) {
    result.push_back(RankSummary(model, plan, graph, replay, rank).Run());
  }
  return result;
}

}  // namespace twinstep
