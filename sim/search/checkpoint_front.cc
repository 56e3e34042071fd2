#include "sim/search/checkpoint_front.h"

#include <algorithm>
#include <utility>

#include "sim/cost/gpu_speeds.h"
#include "sim/cost/graph_costs.h"
#include "sim/estimate/alone_times.h"
#include "sim/lower/block_template.h"
#include "sim/lower/graph_writer.h"
#include "sim/lower/local_shapes.h"
#include "sim/lower/lower.h"

namespace twinstep {
namespace {

// A layer alone on its tensor- and context-parallel ranks.
class OneLayer {
 public:
  OneLayer(const SimulateInput& input, ResolvedPlan plan)
      : input_(input), plan_(std::move(plan)), model_(input.model) {
    model_.set_layers(1);
    plan_.p = plan_.v = plan_.l = plan_.m = plan_.d = 1;
    plan_.gpus = plan_.t * plan_.c;
    plan_.global_batch = plan_.b;
    plan_.schedule = ONE_F_ONE_B;
    plan_.offload_ratio = 0;
    plan_.zero_stage = 0;
    plan_.dp_overlap = false;
    plan_.chunks = ChunkPlan{};
    plan_.blocks.clear();
  }

  std::vector<std::string> Storable() const { return StorableTensors(model_, plan_); }

  struct Measured {
    std::int64_t bytes = 0;
    double seconds = 0;  // Forward and backward.
  };
  Result<Measured> Measure(Recompute recompute, const std::vector<std::string>& stored) {
    plan_.recompute = recompute;
    plan_.stored_tensors = stored;
    const Profile* profile = input_.profile ? &*input_.profile : nullptr;
    const bool fold = !RanksDiffer(profile, input_.cluster, plan_.gpus);
    const Result<TaskGraph> graph = Lower(model_, input_.cluster, plan_, {.fold = fold});
    if (!graph.ok()) return graph.error();
    const Result<GraphCosts> costs = ComputeCosts(graph.value(), model_, input_.cluster, profile);
    if (!costs.ok()) return costs.error();
    Measured measured;
    measured.bytes = StoredBytes();
    const AloneTimes alone(graph.value(), costs.value());
    measured.seconds = alone.PathSeconds(0, [](const Task& task) {
      return task.block == 0 && (task.phase == Phase::kForward || task.phase == Phase::kBackward ||
                                 task.phase == Phase::kRecompute);
    });
    return measured;
  }

 private:
  std::int64_t StoredBytes() const {
    TaskGraph scratch;
    GraphWriter writer(&scratch);
    const LocalShapes shapes = MakeLocalShapes(model_, plan_);
    const TemplateContext context{
        .model = model_,
        .plan = plan_,
        .shapes = shapes,
        .at = {},
        .attention_fp32_dq = input_.cluster.gpu().attention_backward_fp32_dq(),
        .writer = &writer};
    return MakeLayerTemplate(context).SavedBytes();
  }

  const SimulateInput& input_;
  ResolvedPlan plan_;
  Model model_;
};

// Keeps what no other set beats.
void KeepFront(std::vector<CheckpointSet>* sets) {
  // Less memory first; of equals the faster, then that which stores fewer tensors.
  std::stable_sort(sets->begin(), sets->end(), [](const CheckpointSet& a, const CheckpointSet& b) {
    if (a.bytes != b.bytes) return a.bytes < b.bytes;
    if (a.recompute_s != b.recompute_s) return a.recompute_s < b.recompute_s;
    return a.stored.size() < b.stored.size();
  });
  std::vector<CheckpointSet> front;
  for (CheckpointSet& set : *sets) {
    if (front.empty() || set.recompute_s < front.back().recompute_s) {
      front.push_back(std::move(set));
    }
  }
  std::reverse(front.begin(), front.end());
  *sets = std::move(front);
}

std::size_t FindKnee(const std::vector<CheckpointSet>& sets) {
  const CheckpointSet& most = sets.front();
  const CheckpointSet& least = sets.back();
  const auto bytes = static_cast<double>(most.bytes - least.bytes);
  const double seconds = least.recompute_s - most.recompute_s;
  std::size_t knee = 0;
  double farthest = 0;
  for (std::size_t i = 0; i < sets.size() && bytes > 0 && seconds > 0; ++i) {
    const double below = 1 - static_cast<double>(sets[i].bytes - least.bytes) / bytes -
                         (sets[i].recompute_s - most.recompute_s) / seconds;
    if (below > farthest) {
      farthest = below;
      knee = i;
    }
  }
  return knee;
}

}  // namespace

bool CheckpointFront::FullIsOnFront() const {
  return std::none_of(sets.begin(), sets.end(), [this](const CheckpointSet& set) {
    return set.bytes <= full.bytes && set.recompute_s < full.recompute_s;
  });
}

Result<CheckpointFront> FindCheckpointFront(const SimulateInput& input, const ResolvedPlan& plan) {
  OneLayer layer(input, plan);
  const Result<OneLayer::Measured> everything = layer.Measure(RECOMPUTE_NONE, {});
  if (!everything.ok()) return everything.error();
  CheckpointFront front;
  front.forward_backward_s = everything.value().seconds;

  const std::vector<std::string> names = layer.Storable();
  front.tried = std::size_t{1} << names.size();
  for (std::size_t bits = 0; bits < front.tried; ++bits) {
    CheckpointSet set;
    for (std::size_t i = 0; i < names.size(); ++i) {
      ((bits >> i & 1) != 0 ? set.stored : set.dropped).push_back(names[i]);
    }
    const Result<OneLayer::Measured> measured = layer.Measure(RECOMPUTE_CUSTOM, set.stored);
    if (!measured.ok()) return measured.error();
    set.bytes = measured.value().bytes;
    set.recompute_s = std::max(0.0, measured.value().seconds - front.forward_backward_s);
    front.sets.push_back(std::move(set));
  }
  KeepFront(&front.sets);
  front.knee = FindKnee(front.sets);

  const Result<OneLayer::Measured> full = layer.Measure(RECOMPUTE_FULL, {});
  if (!full.ok()) return full.error();
  front.full = {.stored = {},
                .dropped = names,
                .bytes = full.value().bytes,
                .recompute_s = full.value().seconds - front.forward_backward_s};
  return front;
}

}  // namespace twinstep
