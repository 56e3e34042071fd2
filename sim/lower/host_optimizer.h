// Adam on the host, for chunks whose states live there: each as soon as its gradients have arrived,
// beside the backward, or after it where the plan or a clipping norm says so.
//
//   HostOptimizer host(context, &writer);
//   host.GradientsArrived(shard);                        // For every chunk.
//   host.Finish(coefficient, last_compute);
#pragma once

#include <cstdint>
#include <vector>

#include "sim/lower/chunk_layout.h"
#include "sim/lower/graph_writer.h"
#include "sim/lower/rank_context.h"

namespace twinstep {

// This rank's shard of a chunk in host memory. The gradients may be where the parameters were.
struct HostShard {
  std::uint16_t tag = kNoTag;
  const StateChunk* chunk = nullptr;
  BufferId parameters = kNone, gradients = kNone;
  BufferId master = kNone, moment1 = kNone, moment2 = kNone;
};

class HostOptimizer {
 public:
  HostOptimizer(const RankContext& context, GraphWriter* writer)
      : context_(context), writer_(writer) {}

  // The iteration's gradients of the shard are there once the tasks added so far have run.
  void GradientsArrived(const HostShard& shard);
  // Squared norm of what has arrived, in pinned memory; none without clipping or shards.
  BufferId norm() const { return norm_; }
  // Updates what is left. `coefficient`: in host memory, none without clipping.
  void Finish(BufferId coefficient, TaskId last_compute);

 private:
  void AddNorm(const HostShard& shard);
  void Update(const HostShard& shard, BufferId coefficient, TaskId after);

  const RankContext& context_;
  GraphWriter* writer_;
  std::vector<HostShard> waiting_;
  BufferId norm_ = kNone;
};

}  // namespace twinstep
