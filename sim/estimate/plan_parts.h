// How long the parts of a plan take alone: layers, embedding, head, transfers, gathers, reductions
// and updates, from the costs of a pipeline of the same ranks with two layers a rank and two or
// three micro-batches. It is lowered and priced like the plan itself, so a part here costs what it
// costs in the plan's own graph.
//
//   const PlanParts parts = MeasureParts(model, cluster, profile, framework, plan).value();
//   const KuaishouTime time = EstimateTime(model, plan, parts.primitives).value();
//
// Passes are *chains*: the longest path of edges and lane order from one point of a rank's compute
// lane to another. No replay can be faster, because tasks only ever start later (waiting) and take
// longer (shared links, interference) than here; pipeline_bound.h builds on that.
#pragma once

#include <cstdint>
#include <vector>

#include "hw_specs/cluster.pb.h"
#include "hw_specs/frameworks/framework.pb.h"
#include "hw_specs/profile.pb.h"
#include "model_zoo/model.pb.h"
#include "sim/cost/graph_costs.h"
#include "sim/estimate/kuaishou_time.h"
#include "sim/plan/resolved_plan.h"
#include "sim/result.h"

namespace twinstep {

// Of the rank with coordinates (0, 0, 0, r). Picoseconds.
struct RankParts {
  // A pass through one layer, first compute task to last.
  Picoseconds forward_ps = 0;
  Picoseconds first_backward_ps = 0;  // Micro-batch 0 writes gradients, later ones add.
  Picoseconds backward_ps = 0;        // Rebuilding included.
  // The same behind another layer of the stage: from the end of its last compute task, so that
  // communication that waits for it counts.
  Picoseconds next_forward_ps = 0;
  Picoseconds first_next_backward_ps = 0, next_backward_ps = 0;
  // The same from the arrival of a message: rebuilding may come before it.
  Picoseconds received_forward_ps = 0, received_backward_ps = 0;
  Picoseconds recompute_ps = 0;  // What of a backward rebuilds activations.
  // First rank: before and behind its layers. Last rank: behind and before them. Else 0.
  Picoseconds embedding_forward_ps = 0, embedding_backward_ps = 0, first_embedding_backward_ps = 0;
  Picoseconds head_forward_ps = 0, head_backward_ps = 0, first_head_backward_ps = 0;
  // To the next and the previous rank; from the last to the first and back where stages wrap round.
  Picoseconds send_forward_ps = 0, send_backward_ps = 0;
  // Model states of a layer, and of embedding and head together. Gathers: ZeRO 1 and 2.
  Picoseconds layer_gather_ps = 0, other_gather_ps = 0;
  Picoseconds layer_reduce_ps = 0, other_reduce_ps = 0;
  Picoseconds layer_adam_ps = 0, other_adam_ps = 0;
  Picoseconds clip_ps = 0;  // All-reduce of the gradient norm.

  bool operator==(const RankParts&) const = default;
};

struct PlanParts {
  std::vector<RankParts> ranks;  // By pipeline rank.
  // What the closed form asks for (kuaishou_primitives.h); copies at what a GPU gets while all of
  // its node copy both ways.
  KuaishouPrimitives primitives;
  // GPU memory beside equation 7's classes (temporaries, messages, logits, norms, padding), most of
  // any rank, in issue order; 0 for recompute policies that equation 7 does not know.
  std::int64_t other_bytes = 0;
};

// The same for every v, l, m, B and offload ratio. Profile and framework may be null. Error as
// Lower and ComputeFrameworkCosts.
Result<PlanParts> MeasureParts(const Model& model, const Cluster& cluster, const Profile* profile,
                               const Framework* framework, const ResolvedPlan& plan);

}  // namespace twinstep
