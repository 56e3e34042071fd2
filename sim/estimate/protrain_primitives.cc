#include "sim/estimate/protrain_primitives.h"

#include <algorithm>
#include <optional>
#include <set>

#include "sim/estimate/alone_times.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

constexpr RankId kRank = 0;

bool Computes(const Task& task) {
  return task.lane == Lane::kCompute || task.lane == Lane::kTp || task.lane == Lane::kCp;
}

// The rank's chunks and the primitives that move and update them.
class ChunkMeasurement {
 public:
  ChunkMeasurement(const TaskGraph& graph, const GraphCosts& costs, const ResolvedPlan& plan)
      : graph_(graph), alone_(graph, costs), plan_(plan) {}

  ProTrainPrimitives Run() {
    x_.rates.ranks = plan_.d * plan_.c;
    const double ranks = static_cast<double>(x_.rates.ranks);
    for (TaskId id = graph_.rank_begin[kRank]; id < graph_.rank_begin[kRank + 1]; ++id) {
      Visit(id);
    }
    const std::size_t count = last_chunk_ ? std::size_t{*last_chunk_} + 1 : 0;
    x_.plan.chunks.resize(count);
    x_.plan.persistent_chunks = static_cast<std::int64_t>(count - streaming_.size());
    x_.plan.cpu_optimizer_overlaps = plan_.chunks.host_optimizer_overlap;
    x_.plan.buffers = static_cast<std::int64_t>(buffers_.size());
    for (std::size_t i = 0; i < count; ++i) {
      ProTrainChunk& chunk = x_.plan.chunks[i];
      chunk.bytes = shard_bytes_ * ranks;
      chunk.parameters = shard_parameters_ * ranks;
      const auto path = [&](Phase phase) {
        return alone_.PathSeconds(kRank, [&](const Task& task) {
          return task.chunk == i && task.phase == phase && Computes(task);
        });
      };
      chunk.forward_s = path(Phase::kForward);
      chunk.backward_s = path(Phase::kBackward);
      chunk.recompute_s = path(Phase::kRecompute);
    }
    SetRates(ranks);
    if (swaps_) MarkSwaps();
    return std::move(x_);
  }

 private:
  void Visit(TaskId id) {
    const Task& task = graph_.tasks[id];
    const OpShape& shape = graph_.shapes[task.shape];
    if (task.kind == TaskKind::kD2H && task.phase == Phase::kForward) swaps_ = true;
    if (task.chunk == kNoTag) return;
    const auto first = [&](std::optional<TaskId>* which) {
      if (!*which) *which = id;
    };
    switch (shape.op) {
      case OpCode::kAllGather:
        if (task.lane == Lane::kDp) first(&gather_);
        break;
      case OpCode::kReduceScatter:
        if (task.lane == Lane::kDp) first(&reduce_);
        break;
      case OpCode::kCopyH2D:
        if (task.phase != Phase::kParameterGather) break;
        first(&upload_);
        streaming_.insert(task.chunk);
        buffers_.insert(graph_.Writes(id)[0].buffer);
        break;
      case OpCode::kCopyD2H:
        if (task.phase == Phase::kGradientSync) first(&offload_);
        break;
      case OpCode::kAdam:
        first(task.kind == TaskKind::kHost ? &cpu_adam_ : &gpu_adam_);
        shard_parameters_ = static_cast<double>(shape.dims[0]);
        shard_bytes_ = shard_parameters_ * static_cast<double>(DtypeBytes(shape.dtype));
        last_chunk_ = std::max(last_chunk_.value_or(0), task.chunk);
        break;
      default:
        break;
    }
  }

  void SetRates(double ranks) {
    const auto rate = [this](double amount, const std::optional<TaskId>& task) {
      const double seconds = task ? alone_.Seconds(*task) : 0;
      return seconds > 0 ? amount / seconds : 0;
    };
    ProTrainRates& rates = x_.rates;
    rates.gather_bytes_per_s = rate(shard_bytes_ * ranks, gather_);
    rates.reduce_bytes_per_s = rate(shard_bytes_ * ranks, reduce_);
    rates.upload_bytes_per_s = rate(shard_bytes_, upload_);
    rates.offload_bytes_per_s = rate(shard_bytes_, offload_);
    rates.gpu_adam_params_per_s = rate(shard_parameters_, gpu_adam_);
    rates.cpu_adam_params_per_s = rate(shard_parameters_, cpu_adam_);
    if (upload_) {
      rates.upload_beside_swap_bytes_per_s = shard_bytes_ / alone_.BothWaysSeconds(*upload_);
    }
  }

  // A block's activations leave while what follows it computes, and come back while what follows
  // it goes backward; the chunks behind that are fetched at the same time.
  void MarkSwaps() {
    for (TaskId id = graph_.rank_begin[kRank]; id < graph_.rank_begin[kRank + 1]; ++id) {
      const Task& task = graph_.tasks[id];
      const bool out = task.kind == TaskKind::kD2H && task.phase == Phase::kForward;
      if (!out || task.block == kNoTag) continue;
      double copy_s = alone_.Seconds(id);
      for (std::size_t i = ChunkOfBlock(task.block) + 1; i < x_.plan.chunks.size(); ++i) {
        ProTrainChunk& fetched = x_.plan.chunks[i];
        fetched.forward_beside_swap = fetched.backward_beside_swap = true;
        copy_s -= fetched.forward_s;
        if (copy_s <= 0) break;
      }
    }
  }

  std::size_t ChunkOfBlock(std::uint16_t block) const {
    for (TaskId id = graph_.rank_begin[kRank]; id < graph_.rank_begin[kRank + 1]; ++id) {
      const Task& task = graph_.tasks[id];
      if (task.block == block && task.lane == Lane::kCompute) return task.chunk;
    }
    return 0;
  }

  const TaskGraph& graph_;
  const AloneTimes alone_;
  const ResolvedPlan& plan_;
  ProTrainPrimitives x_;
  std::optional<TaskId> gather_, reduce_, upload_, offload_, gpu_adam_, cpu_adam_;
  std::optional<std::uint16_t> last_chunk_;
  std::set<std::uint16_t> streaming_;
  std::set<BufferId> buffers_;
  double shard_bytes_ = 0, shard_parameters_ = 0;
  bool swaps_ = false;
};

BlockStorage StorageOf(const ResolvedPlan& plan, std::size_t layer) {
  if (plan.recompute == RECOMPUTE_FULL) return BlockStorage::kCheckpoint;
  if (plan.blocks.empty()) return BlockStorage::kKeep;
  switch (plan.blocks[layer]) {
    case BLOCK_CHECKPOINT:
      return BlockStorage::kCheckpoint;
    case BLOCK_SWAP:
      return BlockStorage::kSwap;
    default:
      return BlockStorage::kKeep;
  }
}

}  // namespace

Result<ProTrainPrimitives> MeasureChunks(const TaskGraph& graph, const GraphCosts& costs,
                                         const ResolvedPlan& plan) {
  if (plan.p > 1 || plan.m > 1) {
    return Error{.message = StrCat("closed form: ProTrain's covers one stage and one micro-batch; "
                                   "the plan has ",
                                   plan.p, " and ", plan.m)};
  }
  return ChunkMeasurement(graph, costs, plan).Run();
}

ProTrainMemoryInput MeasureActivations(const TaskGraph& graph, const ResolvedPlan& plan,
                                       std::int64_t layers, double input_bytes,
                                       const WorkspaceOfTask& workspace) {
  ProTrainMemoryInput input;
  double current = 0, block_bytes = 0;
  bool backward = false;
  for (const OperatorMemoryUse& use : MeasureOperatorMemory(graph, kRank, workspace)) {
    const Task& task = graph.tasks[use.task];
    backward = backward || task.phase != Phase::kForward;
    if (!backward) {
      current += static_cast<double>(use.inter_current_bytes + use.intra_current_bytes);
      continue;
    }
    const auto released = static_cast<double>(use.released_bytes);
    // What a function frees between two modules counts before the second.
    OperatorMemory& op = input.operators.emplace_back();
    op.current_prior_bytes = static_cast<double>(use.inter_current_bytes);
    op.peak_prior_bytes = static_cast<double>(use.inter_peak_bytes);
    op.current_bytes = static_cast<double>(use.intra_current_bytes) + released;
    op.peak_bytes = static_cast<double>(use.intra_peak_bytes);
    op.activation_bytes = released;
    if (task.block < layers) op.block = task.block;
    if (task.block == 0) block_bytes += released;
    current -= released;
  }
  input.forward_bytes = current;
  for (std::size_t layer = 0; layer < static_cast<std::size_t>(layers); ++layer) {
    input.blocks.push_back(StorageOf(plan, layer));
  }
  input.checkpoint_saving_bytes = block_bytes - input_bytes;
  input.swap_saving_bytes = block_bytes;
  return input;
}

void AddModelStates(const TaskGraph& graph, const ProTrainPlan& chunks,
                    ProTrainMemoryInput* input) {
  double persistent_bytes = 0;
  for (const Buffer& buffer : graph.buffers) {
    if (buffer.rank != kRank || buffer.pool != Pool::kGpu) continue;
    const auto bytes = static_cast<double>(buffer.bytes);
    const bool state = buffer.role == Role::kParameter || buffer.role == Role::kOptimizerState;
    if (state) {
      persistent_bytes += bytes;
    } else if (buffer.persistent || buffer.role == Role::kGradient) {
      input->forward_bytes += bytes;
    }
  }
  input->persistent_chunks = chunks.persistent_chunks;
  if (chunks.persistent_chunks > 0) {
    input->persistent_chunk_bytes =
        persistent_bytes / static_cast<double>(chunks.persistent_chunks);
  }
  input->buffers = chunks.buffers;
  input->buffer_bytes = chunks.chunks.empty() ? 0 : chunks.chunks[0].bytes;
}

}  // namespace twinstep
