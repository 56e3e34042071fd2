#include "sim/search/chunk_space.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "sim/cost/framework_costs.h"
#include "sim/cost/profile_pairs.h"
#include "sim/estimate/alone_times.h"
#include "sim/estimate/protrain_memory.h"
#include "sim/estimate/protrain_primitives.h"
#include "sim/estimate/protrain_time.h"
#include "sim/format.h"
#include "sim/lower/chunk_layout.h"
#include "sim/lower/local_shapes.h"
#include "sim/lower/lower.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

// Chunks or blocks of which every count is tried; of more only some counts, evenly apart: the
// space grows with the square.
constexpr std::int64_t kMostCounts = 128;
constexpr std::int64_t kSomeCounts = 64;

// 0 to `most`: all of them, or some evenly apart and `most`.
std::vector<std::int64_t> CountsUpTo(std::int64_t most) {
  const std::int64_t step = most <= kMostCounts ? 1 : (most + kSomeCounts - 1) / kSomeCounts;
  std::vector<std::int64_t> values;
  for (std::int64_t value = 0; value < most; value += step) values.push_back(value);
  values.push_back(most);
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

// A plan lowered and priced.
struct Sample {
  TaskGraph graph;
  GraphCosts costs;
};

class Finder {
 public:
  Finder(const SimulateInput& input, const ChunkAxes& axes, std::int64_t gpus)
      : input_(input), axes_(axes), gpus_(gpus), layers_(input.model.layers()) {
    if (input.profile) profile_ = CheapestParts(*input.profile);
  }

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
    const Result<ResolvedPlan> kept = Resolve(sizes, 0, 0, 0);
    if (!kept.ok()) return kept.error();
    const Result<ResolvedPlan> rebuilt = Resolve(sizes, 0, 0, layers_);
    if (!rebuilt.ok()) return rebuilt.error();
    if (Status status = Measure(kept.value(), rebuilt.value()); !status.ok()) return status;
    for (const std::int64_t swapped :
         axes_.swapped.empty() ? PowersUpTo(MostSwapped()) : axes_.swapped) {
      for (const std::int64_t checkpointed : CheckpointedBeside(swapped)) {
        if (swapped + checkpointed > layers_) continue;
        if (Status status = OfBlocks(sizes, swapped, checkpointed); !status.ok()) return status;
      }
    }
    return Unit{};
  }

  std::vector<std::int64_t> CheckpointedBeside(std::int64_t swapped) const {
    const std::vector<std::int64_t>& asked = axes_.checkpointed;
    const std::int64_t most = std::max<std::int64_t>(layers_ - swapped, 0);
    if (!axes_.least_memory) return asked.empty() ? CountsUpTo(most) : asked;
    if (asked.empty()) return {most};
    const auto over = std::upper_bound(asked.begin(), asked.end(), most);
    return {over == asked.begin() ? asked.front() : *(over - 1)};
  }

  const Framework* FrameworkOf() const { return input_.framework ? &*input_.framework : nullptr; }

  Result<TaskGraph> LowerPlan(const ResolvedPlan& plan) const {
    return Lower(input_.model, input_.cluster, plan, {.framework = FrameworkOf()});
  }

  Result<Sample> Price(const ResolvedPlan& plan) const {
    const Profile* profile = profile_ ? &*profile_ : nullptr;
    Result<TaskGraph> graph = LowerPlan(plan);
    if (!graph.ok()) return graph.error();
    Result<GraphCosts> costs =
        ComputeFrameworkCosts(graph.value(), input_.model, input_.cluster, profile, FrameworkOf());
    if (!costs.ok()) return costs.error();
    return Sample{std::move(graph).value(), std::move(costs).value()};
  }

  // On examples in which every chunk streams, but one in which the first persists.
  Status Measure(ResolvedPlan kept, ResolvedPlan rebuilt) {
    constexpr std::int64_t kBuffersForAny = 4;
    kept.chunks.buffers = rebuilt.chunks.buffers = kBuffersForAny;
    const LocalShapes shapes = MakeLocalShapes(input_.model, kept);
    needs_tied_buffer_ = input_.model.tied_embeddings() && GradientsInPlace(kept, shapes);
    const Result<Sample> streaming = Price(kept);
    if (!streaming.ok()) return streaming.error();
    const auto& [graph, costs] = streaming.value();
    Result<ProTrainPrimitives> measured = MeasureChunks(graph, costs, kept);
    if (!measured.ok()) return measured.error();
    primitives_ = std::move(measured).value();
    out_.chunks = static_cast<std::int64_t>(primitives_.plan.chunks.size());
    lanes_.emplace(graph, costs);

    ResolvedPlan first_persists = kept;
    first_persists.chunks.persistent = 1;
    const Result<Sample> persistent = Price(first_persists);
    if (!persistent.ok()) return persistent.error();
    const Result<ProTrainPrimitives> with_persistent =
        MeasureChunks(persistent.value().graph, persistent.value().costs, first_persists);
    if (!with_persistent.ok()) return with_persistent.error();
    primitives_.rates.gpu_adam_params_per_s = with_persistent.value().rates.gpu_adam_params_per_s;
    if (Status status = MeasureMemory(kept, shapes, graph, persistent.value().graph);
        !status.ok()) {
      return status;
    }

    const Result<Sample> all = Price(rebuilt);
    if (!all.ok()) return all.error();
    block_recompute_s_ =
        LaneSeconds(all.value().graph, all.value().costs).recompute / static_cast<double>(layers_);
    const Result<ProTrainPrimitives> with_recompute =
        MeasureChunks(all.value().graph, all.value().costs, rebuilt);
    if (!with_recompute.ok()) return with_recompute.error();
    all_recompute_s_.clear();
    for (const ProTrainChunk& chunk : with_recompute.value().plan.chunks) {
      all_recompute_s_.push_back(chunk.recompute_s);
    }
    times_.assign(static_cast<std::size_t>(layers_) + 1, std::nullopt);
    return Unit{};
  }

  Status MeasureMemory(const ResolvedPlan& kept, const LocalShapes& shapes,
                       const TaskGraph& streaming, const TaskGraph& first_persists) {
    ResolvedPlan plain = kept;
    plain.chunks = ChunkPlan{};
    plain.blocks.clear();
    plain.dp_overlap = false;
    const Result<TaskGraph> plain_graph = LowerPlan(plain);
    if (!plain_graph.ok()) return plain_graph.error();
    memory_ = MeasureActivations(
        plain_graph.value(), kept, layers_,
        static_cast<double>(shapes.shard_tokens * shapes.hidden * DtypeBytes(shapes.dtype)));
    // A persistent chunk takes what the first one adds: its gradients too.
    ProTrainMemoryInput with_one = memory_;
    ProTrainPlan chunks = primitives_.plan;
    AddModelStates(streaming, chunks, &memory_);
    chunks.persistent_chunks = 1;
    AddModelStates(first_persists, chunks, &with_one);
    memory_.persistent_chunk_bytes =
        with_one.forward_bytes + with_one.persistent_chunk_bytes - memory_.forward_bytes;
    gradient_bytes_ = GradientBytesOf(streaming);
    persistent_gradient_bytes_ = GradientBytesOf(first_persists) - gradient_bytes_;

    std::int64_t host_bytes = 0;
    for (const Buffer& buffer : streaming.buffers) {
      const bool on_host = buffer.pool != Pool::kGpu;
      if (buffer.rank == 0 && on_host && buffer.persistent) host_bytes += buffer.bytes;
    }
    host_chunk_bytes_ = host_bytes / out_.chunks;
    return Unit{};
  }

  // Of buffers for gradients alone, which equation 11 counts from begin to end, and which live only
  // while they hold some.
  static double GradientBytesOf(const TaskGraph& graph) {
    double bytes = 0;
    for (const Buffer& buffer : graph.buffers) {
      const bool on_gpu = buffer.rank == 0 && buffer.pool == Pool::kGpu;
      const bool is_gradient = buffer.role == Role::kGradient && !buffer.persistent;
      if (on_gpu && is_gradient) bytes += static_cast<double>(buffer.bytes);
    }
    return bytes;
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
    std::optional<ProTrainTimes>& times = times_[static_cast<std::size_t>(checkpointed)];
    if (!times) {
      Result<ProTrainTimes> of = TimesOf(checkpointed);
      if (!of.ok()) return of.error();
      times = std::move(of).value();
    }
    const Blocks blocks{.checkpointed = checkpointed,
                        .activation_bytes = without_states.value().peak_bytes(),
                        .host_bytes = static_cast<double>(swapped) * memory_.swap_saving_bytes,
                        .times = &*times};
    for (const std::int64_t persistent : Persistent(blocks)) {
      ResolvedPlan plan = base.value();
      plan.chunks.persistent = persistent;
      out_.estimates.push_back(Estimate(blocks, &plan));
      out_.space.plans.push_back(std::move(plan));
    }
    return Unit{};
  }

  // What plans with the same choices of blocks share.
  struct Blocks {
    std::int64_t checkpointed = 0;
    double activation_bytes = 0;  // With all that is not model states.
    double host_bytes = 0;        // Of a rank's swapped blocks.
    const ProTrainTimes* times = nullptr;
  };

  Result<ProTrainTimes> TimesOf(std::int64_t checkpointed) const {
    ProTrainPlan chunks = primitives_.plan;
    const double share = static_cast<double>(checkpointed) / static_cast<double>(layers_);
    for (std::size_t i = 0; i < chunks.chunks.size(); ++i) {
      chunks.chunks[i].recompute_s = share * all_recompute_s_[i];
    }
    return ProTrainTimes::Of(chunks, primitives_.rates);
  }

  // How many chunks persist.
  std::vector<std::int64_t> Persistent(const Blocks& blocks) const {
    if (axes_.least_memory) return LeastPersistent(blocks);
    std::vector<std::int64_t> counts = axes_.persistent;
    if (counts.empty()) {
      counts = CountsUpTo(out_.chunks);
      // Where some are left out, what needs least memory is not.
      for (const std::int64_t count : LeastPersistent(blocks)) {
        const auto at = std::lower_bound(counts.begin(), counts.end(), count);
        if (at == counts.end() || *at != count) counts.insert(at, count);
      }
    }
    std::erase_if(counts, [this](std::int64_t count) { return count > out_.chunks; });
    return counts;
  }

  // The fewest that the host admits, which take least of the GPU; where that is too many for the
  // GPU, also the most that it admits.
  std::vector<std::int64_t> LeastPersistent(const Blocks& blocks) const {
    std::vector<std::int64_t> all = axes_.persistent;
    if (all.empty()) {
      all.resize(static_cast<std::size_t>(out_.chunks) + 1);
      std::iota(all.begin(), all.end(), std::int64_t{0});
    }
    std::erase_if(all, [this](std::int64_t count) { return count > out_.chunks; });
    if (all.empty()) return {};
    // Memory grows with the count on the GPU, and falls on the host.
    const auto on_host = std::partition_point(all.begin(), all.end(), [&](std::int64_t persistent) {
      return HostBytesLacking(blocks, persistent) > 0;
    });
    const std::int64_t fewest = on_host == all.end() ? all.back() : *on_host;
    if (GpuBytesLeftWithoutGradients(blocks, fewest) >= 0) return {fewest};
    const auto over = std::partition_point(all.begin(), all.end(), [&](std::int64_t persistent) {
      return GpuBytesLeftWithoutGradients(blocks, persistent) >= 0;
    });
    if (over == all.begin()) return {fewest};
    return {*(over - 1), fewest};
  }

  // One computes, one arrives, one leaves; in a fourth a tied embedding's gradient waits, where the
  // embedding streams and gradients take the parameters' place.
  std::int64_t LeastBuffers(std::int64_t persistent) const {
    const std::int64_t least = 3 + (needs_tied_buffer_ && persistent == 0 ? 1 : 0);
    return std::min(least, out_.chunks - persistent);
  }

  // Beside activations, persistent chunks and as few buffers as can be; equation 11.
  double GpuBytesLeft(const Blocks& blocks, std::int64_t persistent) const {
    return static_cast<double>(input_.gpu_memory_capacity_bytes) - blocks.activation_bytes -
           memory_.persistent_chunk_bytes * static_cast<double>(persistent) -
           memory_.buffer_bytes * static_cast<double>(LeastBuffers(persistent));
  }

  // Where not even that is left, nothing can help.
  double GpuBytesLeftWithoutGradients(const Blocks& blocks, std::int64_t persistent) const {
    return GpuBytesLeft(blocks, persistent) + gradient_bytes_ +
           persistent_gradient_bytes_ * static_cast<double>(persistent);
  }

  // Of the fullest node: its ranks' chunks and swapped blocks against the budget.
  double HostBytesLacking(const Blocks& blocks, std::int64_t persistent) const {
    const std::int64_t ranks = std::min<std::int64_t>(gpus_, input_.cluster.node().gpus());
    const double streaming = static_cast<double>(out_.chunks - persistent);
    return static_cast<double>(ranks) *
               (static_cast<double>(host_chunk_bytes_) * streaming + blocks.host_bytes) -
           static_cast<double>(input_.host_memory_budget_bytes);
  }

  PlanEstimate Estimate(const Blocks& blocks, ResolvedPlan* plan) const {
    PlanEstimate estimate;
    const std::int64_t persistent = plan->chunks.persistent;
    const std::int64_t streaming = out_.chunks - persistent;
    const std::int64_t least = LeastBuffers(persistent);
    const double most_left = GpuBytesLeftWithoutGradients(blocks, persistent);
    if (most_left < 0) {
      estimate.infeasible =
          Lacks("gpu", -most_left,
                StrCat(persistent, " persistent chunks and ", least,
                       " buffers take more GPU memory than there is beside activations (equation "
                       "11), by "));
      return estimate;
    }
    if (const double lacking = HostBytesLacking(blocks, persistent); lacking > 0) {
      estimate.infeasible =
          Lacks("host", lacking,
                StrCat(streaming,
                       " streaming chunks and the swapped blocks take more host memory "
                       "than a node has, by "));
      return estimate;
    }
    // Buffers leave room for what the placement may waste; the least of them try without.
    const double reserve =
        kPlacementReserve * static_cast<double>(input_.gpu_memory_capacity_bytes);
    const double more = std::max(
        0.0, std::floor((GpuBytesLeft(blocks, persistent) - reserve) / memory_.buffer_bytes));
    plan->chunks.buffers =
        least + static_cast<std::int64_t>(std::min(more, static_cast<double>(streaming - least)));
    estimate.expected_s = blocks.times->total_s(persistent, plan->chunks.buffers);
    estimate.bound_ps = Bound(*plan, blocks.checkpointed, streaming);
    return estimate;
  }

  static Error Lacks(const char* pool, double bytes, std::string what) {
    return Error{.code = ExitCode::kNo,
                 .message = std::move(what) + Bytes(bytes),
                 .rule = StrCat(pool, "-memory"),
                 .rank = 0,
                 .pool = pool,
                 .excess_bytes = static_cast<std::int64_t>(std::min(bytes, 0x1p62))};
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
  std::optional<Profile> profile_;  // Bounds'.
  const ChunkAxes& axes_;
  const std::int64_t gpus_;
  const std::int64_t layers_;
  ProTrainPrimitives primitives_;
  std::optional<LaneSeconds> lanes_;
  std::vector<double> all_recompute_s_;  // By chunk, every block checkpointed.
  double block_recompute_s_ = 0;
  ProTrainMemoryInput memory_;
  double gradient_bytes_ = 0;             // Of memory_.forward_bytes,
  double persistent_gradient_bytes_ = 0;  // and of memory_.persistent_chunk_bytes.
  std::int64_t host_chunk_bytes_ = 0;     // Of a rank.
  bool needs_tied_buffer_ = false;
  std::vector<std::optional<ProTrainTimes>> times_;  // By checkpointed blocks.
  ChunkSpace out_;
};

}  // namespace

Result<ChunkSpace> FindChunkSpace(const SimulateInput& input, const ChunkAxes& axes,
                                  std::int64_t gpus) {
  return Finder(input, axes, gpus).Run();
}

}  // namespace twinstep
