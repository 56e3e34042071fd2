// What the lowering of one rank's concerns share: the plan, the rank's place and its
// communicators.
#pragma once

#include <array>
#include <cstdint>

#include "hw_specs/cluster.pb.h"
#include "hw_specs/frameworks/framework.pb.h"
#include "model_zoo/model.pb.h"
#include "sim/lower/chunk_layout.h"
#include "sim/lower/local_shapes.h"
#include "sim/lower/parameter_layout.h"
#include "sim/plan/placement.h"
#include "sim/plan/resolved_plan.h"

namespace twinstep {

struct RankContext {
  const Model& model;
  const Cluster& cluster;
  const ResolvedPlan& plan;
  const Placement& placement;
  const LocalShapes& shapes;
  const ChunkLayouts& layouts;
  const Framework& framework;
  const RankChunks* chunks = nullptr;  // Null where the plan has none.
  Coordinates at;
  std::uint32_t global_rank = 0;
  std::array<std::uint32_t, 6> communicators{};  // By Placement::GroupKind.

  // Ranks that model states are sharded over (data times context parallel), and this one's place.
  std::int64_t shard_count() const { return plan.d * plan.c; }
  std::int64_t shard_index() const { return at.dp * plan.c + at.cp; }
  std::uint32_t Communicator(Placement::GroupKind kind) const {
    return communicators[static_cast<std::size_t>(kind)];
  }
  bool first_stage_here() const { return at.pp == 0; }
  bool last_stage_here() const { return at.pp == plan.p - 1; }
  // Tags of blocks that are no layers.
  std::uint16_t head_tag() const { return static_cast<std::uint16_t>(model.layers()); }
  std::uint16_t embedding_tag() const { return static_cast<std::uint16_t>(model.layers() + 1); }
};

}  // namespace twinstep
