#include "sim/lower/lower.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "sim/lower/block_template.h"
#include "sim/lower/chunk_layout.h"
#include "sim/lower/framework_memory.h"
#include "sim/lower/graph_writer.h"
#include "sim/lower/local_shapes.h"
#include "sim/lower/parameter_layout.h"
#include "sim/lower/pipeline_order.h"
#include "sim/lower/rank_context.h"
#include "sim/lower/rank_lowering.h"
#include "sim/plan/placement.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

using GroupKind = Placement::GroupKind;

// Communicators of point-to-point channels follow those of the groups. Between two ranks there
// are up to four: forward and backward, towards the higher and the lower stage (p = 2 wraps round).
int PipelineChannel(bool backward, std::int64_t from_stage_rank, std::int64_t to_stage_rank) {
  constexpr int kFirst = 16;
  return kFirst + 2 * (backward ? 1 : 0) + (from_stage_rank < to_stage_rank ? 0 : 1);
}

std::vector<std::uint32_t> ClassesOf(const std::vector<std::uint32_t>& ranks,
                                     const std::vector<std::uint32_t>& class_of) {
  std::vector<std::uint32_t> classes;
  classes.reserve(ranks.size());
  for (const std::uint32_t rank : ranks) classes.push_back(class_of[rank]);
  return classes;
}

std::optional<Error> CheckStoredTensors(const Model& model, const ResolvedPlan& plan) {
  if (plan.recompute != RECOMPUTE_CUSTOM) return std::nullopt;
  const std::vector<std::string> known = StorableTensors(model, plan);
  for (const std::string& name : plan.stored_tensors) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    return Error{.code = ExitCode::kBadInput,
                 .message = StrCat("stored_tensors: \"", name,
                                   "\" is no tensor of this layer; it has ", Joined(known)),
                 .rule = "stored-tensors"};
  }
  return std::nullopt;
}

}  // namespace

Result<TaskGraph> Lower(const Model& model, const Cluster& cluster, const ResolvedPlan& plan,
                        const LowerOptions& options) {
  if (const std::optional<Error> error = CheckStoredTensors(model, plan)) return *error;
  const Placement placement(plan, cluster.node().gpus());
  const LocalShapes shapes = MakeLocalShapes(model, plan);
  const bool head_copy = model.tied_embeddings() && plan.p > 1;
  const auto layout = [&](ChunkKind kind) {
    return MakeChunkLayout(kind, model, shapes, plan.t, plan.d * plan.c, head_copy);
  };
  const ChunkLayouts layouts{.block = layout(ChunkKind::kBlock),
                             .embedding = layout(ChunkKind::kEmbedding),
                             .head = layout(ChunkKind::kHead)};

  std::vector<RankChunks> chunks;  // By pipeline rank.
  if (plan.chunks.enabled) {
    Result<std::vector<RankChunks>> laid_out = LayOutChunks(model, plan, shapes, layouts);
    if (!laid_out.ok()) {
      Error error = laid_out.error();
      // The first global rank of a pipeline rank stands for it.
      if (error.rank >= 0) error.rank = placement.RankOf({.pp = error.rank});
      return error;
    }
    chunks = std::move(laid_out).value();
  }

  const std::vector<PipelineOrder> orders = PipelineOrders(plan.schedule, plan.p, plan.v, plan.m);

  RankClasses classes;
  if (options.fold) {
    classes = SymmetryClasses(placement, plan, cluster);
  } else {
    const auto gpus = static_cast<std::size_t>(plan.gpus);
    classes.class_of.resize(gpus);
    std::iota(classes.class_of.begin(), classes.class_of.end(), 0u);
    classes.representative = classes.class_of;
    classes.size.assign(gpus, 1);
  }

  TaskGraph graph;
  graph.rank_class = classes.class_of;
  GraphWriter writer(&graph);
  for (std::size_t i = 0; i < classes.representative.size(); ++i) {
    const std::uint32_t rank = classes.representative[i];
    RankContext context{.model = model,
                        .cluster = cluster,
                        .plan = plan,
                        .placement = placement,
                        .shapes = shapes,
                        .layouts = layouts,
                        .framework = options.framework != nullptr ? *options.framework
                                                                  : Framework::default_instance(),
                        .at = placement.CoordinatesOf(rank),
                        .global_rank = rank};
    const Coordinates& at = context.at;
    if (!chunks.empty()) context.chunks = &chunks[static_cast<std::size_t>(at.pp)];
    for (const GroupKind kind : {GroupKind::kTp, GroupKind::kCp, GroupKind::kDp, GroupKind::kDpCp,
                                 GroupKind::kWorld, GroupKind::kEmbedding}) {
      std::vector<std::uint32_t> members = placement.GroupOf(rank, kind);
      std::vector<std::uint32_t> member_classes = ClassesOf(members, classes.class_of);
      context.communicators[static_cast<std::size_t>(kind)] = writer.Communicator(
          static_cast<int>(kind), std::move(member_classes), std::move(members));
    }
    PipelineChannels channels;
    if (plan.p > 1) {
      const auto channel = [&](bool backward, std::int64_t from, std::int64_t to) {
        const auto rank_at = [&](std::int64_t pp) {
          return static_cast<std::uint32_t>(
              placement.RankOf({.tp = at.tp, .cp = at.cp, .dp = at.dp, .pp = pp}));
        };
        const std::vector<std::uint32_t> members{rank_at(from), rank_at(to)};
        return writer.Communicator(PipelineChannel(backward, from, to),
                                   ClassesOf(members, classes.class_of), members);
      };
      const std::int64_t next = (at.pp + 1) % plan.p;
      const std::int64_t previous = (at.pp + plan.p - 1) % plan.p;
      channels.send_fwd = channel(false, at.pp, next);
      channels.recv_fwd = channel(false, previous, at.pp);
      channels.send_bwd = channel(true, at.pp, previous);
      channels.recv_bwd = channel(true, next, at.pp);
    }
    writer.BeginRank({.global_rank = rank,
                      .tp = static_cast<std::uint16_t>(at.tp),
                      .cp = static_cast<std::uint16_t>(at.cp),
                      .dp = static_cast<std::uint16_t>(at.dp),
                      .pp = static_cast<std::uint16_t>(at.pp),
                      .class_size = classes.size[i]});
    LowerRank(context, channels, orders[static_cast<std::size_t>(at.pp)], &writer);
  }
  writer.Finish();
  if (options.framework != nullptr) ApplyFrameworkMemory(*options.framework, &graph);
  return graph;
}

}  // namespace twinstep
