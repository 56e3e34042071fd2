// Operations beside a graph, such as copies and collectives beside the layers of a model.
//
//   const TaskGraph both = Beside(std::move(copies).Finish(), layers);
//
//   ProbeGraph sums(/*ranks=*/2);
//   sums.AddGroupOperation(reduce_scatter, 1);   // Rendezvous 0.
//   sums.AddGroupOperation(all_reduce, 1);       // Rendezvous 1.
//   const TaskGraph mixed =
//       Interleaved(std::move(sums).Finish(), layers, {{{.operation = 0, .behind = 4},
//                                                       {.operation = 1, .behind = 9}}});
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/graph/task_graph.h"

namespace twinstep {

// Both graphs at once: of each rank first the tasks of `first`, from the begin of the iteration on
// as far as its lanes are free, then those of `graph`. Both are of as many ranks; `first` has no
// edges, as a ProbeGraph's.
TaskGraph Beside(const TaskGraph& first, const TaskGraph& graph);

struct Placement {
  RendezvousId operation = 0;
  // COMPUTE tasks of each rank that are issued before it; it begins once the last of them has
  // ended. At least one.
  std::uint32_t behind = 1;
  bool operator==(const Placement&) const = default;
};

// `graph` with operations of a ProbeGraph between its tasks, where the placements (by `behind`)
// say: issued in time, however long the host takes for all, and begun where an operator ends, as
// those of a training are. Each rendezvous of `operations` is of all ranks and once in it, and may
// be placed several times. A placement behind more tasks than some rank has is left out.
TaskGraph Interleaved(const TaskGraph& operations, const TaskGraph& graph,
                      std::span<const Placement> placements);

// A COMPUTE task as PlaceApart sees it.
struct ComputeTime {
  double seconds = 0;
  bool is_one_with_next = false;  // One kernel computes both: nothing may begin between.
};

// Where the operations, one after the other and again and again, each are alone and behind an
// operator that runs meanwhile: the next one begins when the last one, which may have to wait for
// an operator, has long ended. `operators`: a rank's COMPUTE tasks, in their order.
std::vector<Placement> PlaceApart(std::span<const ComputeTime> operators,
                                  std::span<const double> operation_s);

}  // namespace twinstep
