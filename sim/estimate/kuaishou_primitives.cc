#include "sim/estimate/kuaishou_primitives.h"

#include <algorithm>
#include <cstdint>

#include "sim/estimate/alone_times.h"
#include "sim/estimate/kuaishou_memory.h"
#include "sim/estimate/model_size.h"

namespace twinstep {
namespace {

bool Computes(Lane lane) {
  return lane == Lane::kCompute || lane == Lane::kTp || lane == Lane::kCp;
}

class Measurement {
 public:
  Measurement(const TaskGraph& graph, const GraphCosts& costs, const Model& model,
              const ResolvedPlan& plan)
      : graph_(graph),
        costs_(costs),
        plan_(plan),
        alone_(graph, costs),
        micro_batch_(plan.m > 1 ? 1 : 0),  // The first does not add up gradients.
        head_tag_(static_cast<std::uint16_t>(model.layers())),
        embedding_tag_(static_cast<std::uint16_t>(model.layers() + 1)) {}

  KuaishouPrimitives Run(double parameters, double reduced_bytes_per_parameter) const {
    const RankId first = RankAt(0);
    const RankId last = RankAt(plan_.p - 1);
    KuaishouPrimitives x;
    constexpr std::uint16_t kLayer = 0;
    x.layer_forward_s = Path(first, kLayer, false, false);
    x.layer_recompute_s = Path(first, kLayer, false, true);
    x.layer_backward_s = Path(first, kLayer, true, true) - x.layer_recompute_s;
    x.embedding_forward_s = Path(first, embedding_tag_, false, false);
    x.embedding_backward_s = Path(first, embedding_tag_, true, true);
    x.head_forward_s = Path(last, head_tag_, false, false);
    x.head_backward_s = Path(last, head_tag_, true, true);
    x.p2p_s = First(first, OpCode::kSend, false).seconds;
    x.d2h_bytes_per_s = First(first, OpCode::kCopyD2H, true).BytesPerSecond();
    x.h2d_bytes_per_s = First(first, OpCode::kCopyH2D, true).BytesPerSecond();

    const double shards = static_cast<double>(plan_.c * plan_.d);
    const double adam_s = alone_.SumSeconds(
        first, [this](const Task& task) { return graph_.shapes[task.shape].op == OpCode::kAdam; });
    if (adam_s > 0) x.adam_params_per_s = parameters / (shards * adam_s);
    const double reduce_s =
        alone_.SumSeconds(first, [](const Task& task) { return task.lane == Lane::kDp; });
    if (reduce_s > 0) x.optimizer_bytes_per_s = reduced_bytes_per_parameter * parameters / reduce_s;

    const Interference& slower = costs_.interference;
    x.p2p_slowdown = MeanFactor(first, slower.compute_beside_collective()) - 1;
    // A copy slows computation down for as long as it lasts; eq 16 counts a block's two copies.
    x.offload_slowdown_s_per_byte = 0;
    if (x.d2h_bytes_per_s > 0) {
      const double factor = MeanFactor(first, slower.compute_beside_copy());
      x.offload_slowdown_s_per_byte = (1 - 1 / factor) / (2 * x.d2h_bytes_per_s);
    }
    return x;
  }

 private:
  struct Movement {
    double seconds = 0, bytes = 0;
    double BytesPerSecond() const { return seconds > 0 ? bytes / seconds : 0; }
  };

  RankId RankAt(std::int64_t pp) const {
    for (RankId r = 0; r < graph_.ranks.size(); ++r) {
      if (graph_.ranks[r].pp == pp) return r;
    }
    return 0;
  }

  // A block's forward, or its backward and recomputation, or one of these two.
  double Path(RankId rank, std::uint16_t block, bool backward, bool recompute) const {
    return alone_.PathSeconds(rank, [&](const Task& task) {
      if (task.block != block || task.micro_batch != micro_batch_ || !Computes(task.lane)) {
        return false;
      }
      if (!backward && !recompute) return task.phase == Phase::kForward;
      return (backward && task.phase == Phase::kBackward) ||
             (recompute && task.phase == Phase::kRecompute);
    });
  }

  Movement First(RankId rank, OpCode op, bool both_ways) const {
    for (TaskId id = graph_.rank_begin[rank]; id < graph_.rank_begin[rank + 1]; ++id) {
      const OpShape& shape = graph_.shapes[graph_.tasks[id].shape];
      if (shape.op != op) continue;
      return {both_ways ? alone_.BothWaysSeconds(id) : alone_.Seconds(id),
              static_cast<double>(shape.dims[0])};
    }
    return {};
  }

  // An interference factor over the computation of a rank.
  double MeanFactor(RankId rank, double factor) const {
    double alone_s = 0, slowed_s = 0;
    for (TaskId id = graph_.rank_begin[rank]; id < graph_.rank_begin[rank + 1]; ++id) {
      if (graph_.tasks[id].lane != Lane::kCompute) continue;
      const double seconds = alone_.Seconds(id);
      alone_s += seconds;
      slowed_s += seconds * (1 + costs_.Of(id).interference_sensitivity * (factor - 1));
    }
    return alone_s > 0 ? slowed_s / alone_s : 1;
  }

  const TaskGraph& graph_;
  const GraphCosts& costs_;
  const ResolvedPlan& plan_;
  const AloneTimes alone_;
  const std::uint16_t micro_batch_, head_tag_, embedding_tag_;
};

}  // namespace

KuaishouPrimitives MeasurePrimitives(const TaskGraph& graph, const GraphCosts& costs,
                                     const Model& model, const ResolvedPlan& plan) {
  const auto bytes =
      static_cast<double>(GradientBytes(model.recipe()) + WeightBytes(model.recipe()));
  return Measurement(graph, costs, model, plan).Run(DeviceParameters(model, plan, 0), bytes);
}

}  // namespace twinstep
