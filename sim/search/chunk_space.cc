#include "sim/search/chunk_space.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "sim/cost/graph_costs.h"
#include "sim/estimate/alone_times.h"
#include "sim/estimate/protrain_memory.h"
#include "sim/estimate/protrain_primitives.h"
#include "sim/estimate/protrain_time.h"
#include "sim/format.h"
#include "sim/lower/local_shapes.h"
#include "sim/lower/lower.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

constexpr std::int64_t kLeastBuffers = 3;  // One computes, one arrives, one leaves.

std::vector<std::int64_t> UpTo(std::int64_t most) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(most) + 1);
  std::iota(values.begin(), values.end(), std::int64_t{0});
  return values;
}

// 0, 1, 2, 4, 8, ... and `most`.
std::vector<std::int64_t> PowersUpTo(std::int64_t most) {
  std::vector<std::int64_t> values{0};
  for (std::int64_t value = 1; value < most; value *= 2) values.push_back(value);
  if (most > 0) values.push_back(most);
  return values;
}

// Sums over tasks alone of one rank.
struct LaneSeconds {
  double compute = 0, recompute = 0;   // Forward and backward; rebuilding.
  double upload = 0, offload = 0;      // Of one chunk.
  double host_adam = 0, gpu_adam = 0;  // Likewise.

  LaneSeconds(const TaskGraph& graph, const GraphCosts& costs) {
    const AloneTimes alone(graph, costs);
    for (TaskId id = graph.rank_begin[0]; id < graph.rank_begin[1]; ++id) {
      const Task& task = graph.tasks[id];
      const OpCode op = graph.shapes[task.shape].op;
      const double seconds = alone.Seconds(id);
      if (op == OpCode::kAdam) {
        (task.kind == TaskKind::kHost ? host_adam : gpu_adam) = seconds;
      } else if (task.lane == Lane::kCompute) {
        if (task.phase == Phase::kForward || task.phase == Phase::kBackward) compute += seconds;
        if (task.phase == Phase::kRecompute) recompute += seconds;
      } else if (op == OpCode::kCopyH2D && task.phase == Phase::kParameterGather) {
        upload = seconds;
      } else if (op == OpCode::kCopyD2H && task.phase == Phase::kGradientSync) {
        offload = seconds;
      }
    }
  }
};

class Finder {
 public:
  Finder(const SimulateInput& input, const ChunkAxes& axes, std::int64_t gpus)
      : input_(input), axes_(axes), gpus_(gpus), layers_(input.model.layers()) {}

  Result<ChunkSpace> Run() {
    std::vector<std::int64_t> batches = axes_.global_batch;
    if (batches.empty()) batches = {std::int64_t{input_.plan.global_batch()}};
    for (const std::int64_t batch : batches) {
      const Status status = OfBatch(batch);
      if (status.ok()) continue;
      if (status.error().code != ExitCode::kNo) return status.error();
      out_.space.invalid[status.error().rule].Add(status.error().message, 0);
    }
    return std::move(out_);
  }

 private:
  Plan Sizes(std::int64_t batch) const {
    Plan plan = input_.plan;
    plan.set_tensor_parallel(1);
    plan.set_context_parallel(1);
    plan.set_pipeline_parallel(1);
    plan.clear_offload_ratio();
    plan.set_global_batch(batch);
    if (plan.micro_batch() == 0) plan.set_micro_batch(std::max<std::int64_t>(batch / gpus_, 1));
    return plan;
  }

  Result<ResolvedPlan> Resolve(Plan plan, std::int64_t persistent, std::int64_t swapped,
                               std::int64_t checkpointed) const {
    plan.set_persistent_chunks(persistent);
    plan.set_swapped_blocks(swapped);
    plan.set_checkpointed_blocks(checkpointed);
    return ResolvePlan(input_.model, input_.cluster, plan, gpus_, input_.rules);
  }

  Status OfBatch(std::int64_t batch) {
    const Plan sizes = Sizes(batch);
    // One chunk of either kind, so that both are measured.
    const Result<ResolvedPlan> kept = Resolve(sizes, 1, 0, 0);
    if (!kept.ok()) return kept.error();
    const Result<ResolvedPlan> rebuilt = Resolve(sizes, 1, 0, layers_);
    if (!rebuilt.ok()) return rebuilt.error();
    if (Status status = Measure(kept.value(), rebuilt.value()); !status.ok()) return status;
    for (const std::int64_t swapped :
         axes_.swapped.empty() ? PowersUpTo(MostSwapped()) : axes_.swapped) {
      for (const std::int64_t checkpointed :
           axes_.checkpointed.empty() ? UpTo(layers_) : axes_.checkpointed) {
        if (swapped + checkpointed > layers_) continue;
        if (Status status = OfBlocks(sizes, swapped, checkpointed); !status.ok()) return status;
      }
    }
    return Unit{};
  }

  Status Measure(const ResolvedPlan& kept, const ResolvedPlan& rebuilt) {
    const Profile* profile = input_.profile ? &*input_.profile : nullptr;
    const Result<TaskGraph> graph = Lower(input_.model, input_.cluster, kept);
    if (!graph.ok()) return graph.error();
    const Result<GraphCosts> costs =
        ComputeCosts(graph.value(), input_.model, input_.cluster, profile);
    if (!costs.ok()) return costs.error();
    Result<ProTrainPrimitives> primitives = MeasureChunks(graph.value(), costs.value(), kept);
    if (!primitives.ok()) return primitives.error();
    primitives_ = std::move(primitives).value();
    out_.chunks = static_cast<std::int64_t>(primitives_.plan.chunks.size());
    lanes_.emplace(graph.value(), costs.value());

    const Result<TaskGraph> all = Lower(input_.model, input_.cluster, rebuilt);
    if (!all.ok()) return all.error();
    const Result<GraphCosts> all_costs =
        ComputeCosts(all.value(), input_.model, input_.cluster, profile);
    if (!all_costs.ok()) return all_costs.error();
    block_recompute_s_ =
        LaneSeconds(all.value(), all_costs.value()).recompute / static_cast<double>(layers_);
    const Result<ProTrainPrimitives> with = MeasureChunks(all.value(), all_costs.value(), rebuilt);
    if (!with.ok()) return with.error();
    all_recompute_s_.clear();
    for (const ProTrainChunk& chunk : with.value().plan.chunks) {
      all_recompute_s_.push_back(chunk.recompute_s);
    }

    ResolvedPlan plain = kept;
    plain.chunks = ChunkPlan{};
    plain.blocks.clear();
    plain.dp_overlap = false;
    const Result<TaskGraph> plain_graph = Lower(input_.model, input_.cluster, plain);
    if (!plain_graph.ok()) return plain_graph.error();
    const LocalShapes shapes = MakeLocalShapes(input_.model, kept);
    memory_ = MeasureActivations(
        plain_graph.value(), kept, layers_,
        static_cast<double>(shapes.shard_tokens * shapes.hidden * DtypeBytes(shapes.dtype)));
    AddModelStates(graph.value(), primitives_.plan, &memory_);
    return Unit{};
  }

  // Whose copies take no longer than the forward of all blocks.
  std::int64_t MostSwapped() const {
    const double rate = primitives_.rates.offload_bytes_per_s;
    if (!(rate > 0) || !(memory_.swap_saving_bytes > 0)) return 0;
    double forward_s = 0;
    for (const ProTrainChunk& chunk : primitives_.plan.chunks) forward_s += chunk.forward_s;
    const double blocks = forward_s * rate / memory_.swap_saving_bytes;
    return std::min(static_cast<std::int64_t>(std::min(blocks, 1e6)), layers_);
  }

  Status OfBlocks(const Plan& sizes, std::int64_t swapped, std::int64_t checkpointed) {
    const Result<ResolvedPlan> base = Resolve(sizes, 0, swapped, checkpointed);
    if (!base.ok()) {
      if (base.error().code != ExitCode::kNo) return base.error();
      out_.space.invalid[base.error().rule].Add(base.error().message, 0);
      return Unit{};
    }
    ProTrainMemoryInput memory = memory_;
    for (std::size_t i = 0; i < memory.blocks.size(); ++i) {
      const BlockActivations choice =
          base.value().blocks.empty() ? BLOCK_KEEP : base.value().blocks[i];
      memory.blocks[i] = choice == BLOCK_CHECKPOINT ? BlockStorage::kCheckpoint
                         : choice == BLOCK_SWAP     ? BlockStorage::kSwap
                                                    : BlockStorage::kKeep;
    }
    memory.persistent_chunks = memory.buffers = 0;
    const Result<ProTrainMemory> without_states = EstimatePeakMemory(memory);
    if (!without_states.ok()) return without_states.error();
    const double left =
        static_cast<double>(input_.gpu_memory_capacity_bytes) * (1 - kPlacementReserve) -
        without_states.value().peak_bytes();
    for (const std::int64_t persistent :
         axes_.persistent.empty() ? UpTo(out_.chunks) : axes_.persistent) {
      if (persistent > out_.chunks) continue;
      ResolvedPlan plan = base.value();
      plan.chunks.persistent = persistent;
      out_.estimates.push_back(
          Estimate(left - memory_.persistent_chunk_bytes * static_cast<double>(persistent),
                   checkpointed, &plan));
      out_.space.plans.push_back(std::move(plan));
    }
    return Unit{};
  }

  // `left`: bytes for buffers.
  PlanEstimate Estimate(double left, std::int64_t checkpointed, ResolvedPlan* plan) const {
    PlanEstimate estimate;
    const std::int64_t streaming = out_.chunks - plan->chunks.persistent;
    const std::int64_t least = std::min(kLeastBuffers, streaming);
    const double fitting = std::floor(left / memory_.buffer_bytes);
    if (left < 0 || fitting < static_cast<double>(least)) {
      const double lacking = static_cast<double>(least) * memory_.buffer_bytes - left;
      estimate.infeasible =
          Error{.code = ExitCode::kNo,
                .message = StrCat(plan->chunks.persistent, " persistent chunks and ", least,
                                  " buffers take ", Bytes(lacking),
                                  " more than there is beside activations (equation 11)"),
                .rule = "gpu-memory",
                .rank = 0,
                .pool = "gpu",
                .excess_bytes = static_cast<std::int64_t>(std::min(lacking, 0x1p62))};
      return estimate;
    }
    plan->chunks.buffers =
        streaming == 0
            ? kLeastBuffers
            : static_cast<std::int64_t>(std::min(fitting, static_cast<double>(streaming)));
    ProTrainPlan chunks = primitives_.plan;
    chunks.persistent_chunks = plan->chunks.persistent;
    chunks.buffers = plan->chunks.buffers;
    const double share = static_cast<double>(checkpointed) / static_cast<double>(layers_);
    for (std::size_t i = 0; i < chunks.chunks.size(); ++i) {
      chunks.chunks[i].recompute_s = share * all_recompute_s_[i];
    }
    const Result<ProTrainTime> time = EstimateTime(chunks, primitives_.rates);
    if (!time.ok()) {
      estimate.infeasible = time.error();
      return estimate;
    }
    estimate.expected_s = time.value().total_s();
    estimate.bound_ps = Bound(*plan, checkpointed, streaming);
    return estimate;
  }

  // Each lane runs one task at a time.
  Picoseconds Bound(const ResolvedPlan& plan, std::int64_t checkpointed,
                    std::int64_t streaming) const {
    const auto real = [](std::int64_t value) { return static_cast<double>(value); };
    const std::int64_t kept = std::min(plan.chunks.buffers, streaming);
    const double compute = lanes_->compute + real(checkpointed) * block_recompute_s_;
    const double uploads = real(2 * streaming - kept) * lanes_->upload;
    const double offloads = real(streaming) * lanes_->offload;
    const double host = real(streaming) * lanes_->host_adam;
    const double longest = std::max({compute, uploads, offloads, host});
    return static_cast<Picoseconds>(longest * kPicosecondsPerSecond * (1 - 1e-9));
  }

  const SimulateInput& input_;
  const ChunkAxes& axes_;
  const std::int64_t gpus_;
  const std::int64_t layers_;
  ProTrainPrimitives primitives_;
  std::optional<LaneSeconds> lanes_;
  std::vector<double> all_recompute_s_;  // By chunk, every block checkpointed.
  double block_recompute_s_ = 0;
  ProTrainMemoryInput memory_;
  ChunkSpace out_;
};

}  // namespace

Result<ChunkSpace> FindChunkSpace(const SimulateInput& input, const ChunkAxes& axes,
                                  std::int64_t gpus) {
  return Finder(input, axes, gpus).Run();
}

}  // namespace twinstep
