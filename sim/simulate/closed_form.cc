#include "sim/simulate/closed_form.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/estimate/kuaishou_memory.h"
#include "sim/estimate/kuaishou_primitives.h"
#include "sim/estimate/kuaishou_time.h"
#include "sim/estimate/protrain_primitives.h"
#include "sim/lower/local_shapes.h"
#include "sim/lower/lower.h"

namespace twinstep {
namespace {

Result<ClosedFormReport> PipelineForm(const Model& model, const ResolvedPlan& plan,
                                      const ReplayedPlan& replayed) {
  const KuaishouPrimitives x = MeasurePrimitives(replayed.graph, replayed.costs, model, plan);
  const Result<KuaishouTime> time = EstimateTime(model, plan, x);
  if (!time.ok()) return time.error();
  const Result<KuaishouMemory> memory = EstimateMemory(model, plan, 0);
  if (!memory.ok()) return memory.error();
  const KuaishouTime& t = time.value();
  const KuaishouMemory& m = memory.value();
  ClosedFormReport form;
  form.paper = "Yuan et al., ATC 2024";
  form.iteration_s = t.total_s();
  form.times = {
      {.name = "layer forward", .source = "T_F", .value = x.layer_forward_s},
      {.name = "layer backward", .source = "T_B", .value = x.layer_backward_s},
      {.name = "layer recompute", .source = "T_ckpt", .value = x.layer_recompute_s},
      {.name = "message", .source = "T_p2p", .value = x.p2p_s},
      {.name = "warm-up", .source = "eq 12", .value = t.warmup_s, .in_total = true},
      {.name = "steady", .source = "eq 13", .value = t.steady_s, .in_total = true},
      {.name = "cooldown", .source = "eq 14", .value = t.cooldown_s, .in_total = true},
      {.name = "optimizer", .source = "eq 15", .value = t.optimizer_s, .in_total = true},
      {.name = "offload", .source = "eq 9", .value = t.offload_s, .in_total = true},
      {.name = "slow-down", .source = "eq 16", .value = t.slowdown_s, .in_total = true},
  };
  form.peak_gpu_bytes = m.gpu_bytes();
  form.memory = {
      {.name = "weights", .source = "eq 2", .value = m.weights_bytes, .in_total = true},
      {.name = "gradients", .source = "eq 2", .value = m.gradients_bytes, .in_total = true},
      {.name = "optimizer", .source = "eq 3", .value = m.optimizer_bytes, .in_total = true},
      {.name = "activations", .source = "eq 7", .value = m.activations_bytes(), .in_total = true},
  };
  return form;
}

// What the replay of the first rank says of ProTrain's terms.
struct ReplayedTerms {
  double forward_s = 0, backward_s = 0;  // Until the last computation of each.
  double gpu_optimizer_s = 0, cpu_optimizer_s = 0;
  double forward_compute_s = 0, backward_compute_s = 0, recompute_s = 0;

  explicit ReplayedTerms(const ReplayedPlan& replayed) {
    const TaskGraph& graph = replayed.graph;
    double backward_end_s = 0;
    for (TaskId id = graph.rank_begin[0]; id < graph.rank_begin[1]; ++id) {
      const Task& task = graph.tasks[id];
      const double end_s = ToSeconds(replayed.replay.end_ps[id]);
      const double seconds = end_s - ToSeconds(replayed.replay.start_ps[id]);
      if (graph.shapes[task.shape].op == OpCode::kAdam) {
        (task.kind == TaskKind::kHost ? cpu_optimizer_s : gpu_optimizer_s) += seconds;
      }
      if (task.lane != Lane::kCompute) continue;
      if (task.phase == Phase::kForward) {
        forward_compute_s += seconds;
        forward_s = std::max(forward_s, end_s);
      } else if (task.phase == Phase::kBackward || task.phase == Phase::kRecompute) {
        (task.phase == Phase::kBackward ? backward_compute_s : recompute_s) += seconds;
        backward_end_s = std::max(backward_end_s, end_s);
      }
    }
    backward_s = backward_end_s - forward_s;
  }

 private:
  static double ToSeconds(Picoseconds ps) {
    return static_cast<double>(ps) / kPicosecondsPerSecond;
  }
};

// The same blocks, all kept, and no chunks: what the paper's profiler runs.
Result<TaskGraph> LowerPlain(const Model& model, const Cluster& cluster, ResolvedPlan plan) {
  plan.chunks = ChunkPlan{};
  plan.blocks.clear();
  if (plan.recompute == RECOMPUTE_FULL) plan.recompute = RECOMPUTE_NONE;
  return Lower(model, cluster, plan, {.fold = true});
}

// Measured workspaces by shape.
class Workspaces {
 public:
  explicit Workspaces(const Profile* profile) {
    if (profile == nullptr) return;
    for (const OperatorSample& sample : profile->operators()) Add(sample);
    for (const OperatorMemorySample& sample : profile->operator_memory()) Add(sample);
  }

  std::int64_t Of(const OpShape& shape) const {
    const auto found = bytes_.find({Name(shape.op), Name(shape.dtype), shape.flags,
                                    Trim({shape.dims.begin(), shape.dims.end()})});
    return found == bytes_.end() ? 0 : found->second;
  }

 private:
  using Dims = std::vector<std::int64_t>;

  static Dims Trim(Dims dims) {
    while (!dims.empty() && dims.back() == 0) dims.pop_back();
    return dims;
  }

  template <typename Sample>
  void Add(const Sample& sample) {
    std::int64_t& bytes = bytes_[{sample.op(), sample.dtype(), sample.flags(),
                                  Trim({sample.dims().begin(), sample.dims().end()})}];
    bytes = std::max(bytes, sample.workspace_bytes());
  }

  std::map<std::tuple<std::string, std::string, std::uint32_t, Dims>, std::int64_t> bytes_;
};

std::vector<ClosedFormTerm> TimeTerms(const ProTrainTime& time, const ReplayedTerms& replay) {
  double prefetch_forward_s = 0, prefetch_backward_s = 0, reduce_offload_s = 0;
  for (const ProTrainChunkTime& chunk : time.chunks) {
    prefetch_forward_s += chunk.prefetch_forward_s;
    prefetch_backward_s += chunk.prefetch_backward_s;
    reduce_offload_s += chunk.reduce_offload_s;
  }
  // Of the optimizer only what does not hide adds up.
  const double after_forward_s = time.total_s() - time.forward_s;
  const double optimizer_s = after_forward_s - time.backward_s;
  return {
      {.name = "fetch, forward", .source = "eq 4, all chunks", .value = prefetch_forward_s},
      {.name = "fetch, backward", .source = "eq 7, all chunks", .value = prefetch_backward_s},
      {.name = "reduce, offload", .source = "eq 6, all chunks", .value = reduce_offload_s},
      {.name = "compute, forward",
       .source = "T_comp_fwd",
       .value = time.forward_compute_s,
       .replayed = replay.forward_compute_s},
      {.name = "compute, backward",
       .source = "T_comp_bwd",
       .value = time.backward_compute_s,
       .replayed = replay.backward_compute_s},
      {.name = "recompute",
       .source = "T_recomp",
       .value = time.recompute_s,
       .replayed = replay.recompute_s},
      {.name = "GPU optimizer",
       .source = "T_gpu_opt",
       .value = time.gpu_optimizer_s,
       .replayed = replay.gpu_optimizer_s},
      {.name = "CPU optimizer",
       .source = "T_cpu_opt",
       .value = time.cpu_optimizer_s,
       .replayed = replay.cpu_optimizer_s},
      {.name = "forward",
       .source = "T_fwd, eq 3",
       .value = time.forward_s,
       .replayed = replay.forward_s,
       .in_total = true},
      {.name = "backward",
       .source = "T_bwd, eq 5",
       .value = time.backward_s,
       .replayed = replay.backward_s,
       .in_total = true},
      {.name = "optimizer, exposed", .source = "eq 2", .value = optimizer_s, .in_total = true},
  };
}

Result<ClosedFormReport> ChunkForm(const Model& model, const ResolvedPlan& plan,
                                   const ReplayedPlan& replayed) {
  const Result<ProTrainPrimitives> x = MeasureChunks(replayed.graph, replayed.costs, plan);
  if (!x.ok()) return x.error();
  const Result<ProTrainTime> time = EstimateTime(x.value().plan, x.value().rates);
  if (!time.ok()) return time.error();
  const Result<TaskGraph> plain = LowerPlain(model, replayed.cluster, plan);
  if (!plain.ok()) return plain.error();
  const LocalShapes shapes = MakeLocalShapes(model, plan);
  const auto input_bytes =
      static_cast<double>(shapes.shard_tokens * shapes.hidden * DtypeBytes(shapes.dtype));
  const Workspaces workspaces(replayed.profile);
  ProTrainMemoryInput input =
      MeasureActivations(plain.value(), plan, model.layers(), input_bytes, [&](TaskId id) {
        return workspaces.Of(plain.value().shapes[plain.value().tasks[id].shape]);
      });
  AddModelStates(replayed.graph, x.value().plan, &input);
  const Result<ProTrainMemory> memory = EstimatePeakMemory(input);
  if (!memory.ok()) return memory.error();
  const ProTrainMemory& m = memory.value();
  ClosedFormReport form;
  form.paper = "ProTrain, MLSys 2026";
  form.iteration_s = time.value().total_s();
  form.times = TimeTerms(time.value(), ReplayedTerms(replayed));
  form.peak_gpu_bytes = m.peak_bytes();
  form.memory = {
      {.name = "begin of backward", .source = "eq 8", .value = m.backward_begin_bytes},
      {.name = "peak without deltas", .source = "eq 11", .value = m.peak_without_deltas_bytes},
      {.name = "activations, operators",
       .source = "eq 10",
       .value = m.backward_peak_bytes,
       .in_total = true},
      {.name = "persistent chunks",
       .source = "M_persist n_persist",
       .value = m.persistent_bytes,
       .in_total = true},
      {.name = "buffers", .source = "M_buffer n_buffer", .value = m.buffer_bytes, .in_total = true},
  };
  return form;
}

}  // namespace

Result<ClosedFormReport> ClosedForm(const Model& model, const ResolvedPlan& plan,
                                    const ReplayedPlan& replayed) {
  if (plan.chunks.enabled) return ChunkForm(model, plan, replayed);
  return PipelineForm(model, plan, replayed);
}

}  // namespace twinstep
