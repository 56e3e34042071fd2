// A task that reads and writes nothing.
//
//   const GraphBuilder::Handle copy = AddTask(builder, 0, TaskKind::kH2D, Lane::kH2D);
#pragma once

#include "tests/graph/graph_builder.h"

namespace twinstep {

inline GraphBuilder::Handle AddTask(GraphBuilder& builder, RankId rank, TaskKind kind, Lane lane,
                                    RendezvousId rendezvous = kNone) {
  GraphBuilder::TaskSpec spec;
  spec.rank = rank;
  spec.kind = kind;
  spec.lane = lane;
  spec.rendezvous = rendezvous;
  spec.shape = {.op = kind == TaskKind::kCompute ? OpCode::kAdd : OpCode::kCopyH2D};
  return builder.Add(spec);
}

}  // namespace twinstep
