// Where the ranks of a plan lie: coordinates, groups, nodes, and which ranks are symmetric.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "hw_specs/cluster.pb.h"
#include "sim/plan/resolved_plan.h"

namespace twinstep {

struct Coordinates {
  std::int64_t tp = 0, cp = 0, dp = 0, pp = 0;
  bool operator==(const Coordinates&) const = default;
};

class Placement {
 public:
  Placement(const ResolvedPlan& plan, std::int64_t gpus_per_node);

  std::int64_t gpus() const { return gpus_; }
  Coordinates CoordinatesOf(std::int64_t global_rank) const;
  std::int64_t RankOf(const Coordinates& at) const;
  std::int64_t NodeOf(std::int64_t global_rank) const { return global_rank / gpus_per_node_; }
  std::int64_t LocalIndexOf(std::int64_t global_rank) const { return global_rank % gpus_per_node_; }

  // Members in group order (ascending coordinate; kDpCp: dp outer, cp inner).
  enum class GroupKind {
    kTp,
    kCp,
    kDp,
    kDpCp,
    kWorld,
    kEmbedding
  };  // kEmbedding: first and last pp.
  std::vector<std::uint32_t> GroupOf(std::int64_t global_rank, GroupKind kind) const;

 private:
  std::int64_t gpus_, gpus_per_node_;
  std::array<std::int64_t, 4> size_;    // tp, cp, dp, pp
  std::array<std::int64_t, 4> stride_;  // of global ranks
};

// The coarsest partition of global ranks in which the members of a class are indistinguishable:
// same pipeline coordinate, equal neighbours in every group and pipeline edge, equal sharing of
// every node resource (colour refinement until stable, so the quotient replays exactly).
// `class_of[rank]` counts classes from 0 in the order of their lowest rank, which represents them.
struct RankClasses {
  std::vector<std::uint32_t> class_of;
  std::vector<std::uint32_t> representative;
  std::vector<std::uint32_t> size;
};
RankClasses SymmetryClasses(const Placement& placement, const ResolvedPlan& plan,
                            const Cluster& cluster);

}  // namespace twinstep
