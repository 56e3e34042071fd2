// What a profile has an entry for: the work of a task without its place in the graph. Tasks with
// equal primitives cost the same.
//
//   std::map<Primitive, Samples> samples;
//   for (TaskId id = 0; id < graph.TaskCount(); ++id) {
//     if (const auto primitive = PrimitiveOf(graph, id)) samples[*primitive].Add(seconds[id]);
//   }
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/graph/fused_pairs.h"
#include "sim/graph/task_graph.h"

namespace twinstep {

struct Primitive {
  OpShape shape;                 // A work shape (sim/graph/op.h).
  bool on_host = false;          // A HOST task.
  std::uint32_t group_size = 0;  // Members of a collective, 2 of a message; 0 = no rendezvous.
  Fusion fusion = Fusion::kAlone;
  bool in_place = false;  // An all-gather whose shard lies at its place (sim/graph/in_place.h).
  bool operator==(const Primitive&) const = default;
};

// Operators before copies before what groups do, each by name and size: the order of a profile's
// entries.
bool operator<(const Primitive& a, const Primitive& b);

// Whether an operation of groups adds numbers, so that it matters of what type they are. What only
// moves bytes has dtype kUint8 in a primitive.
bool Sums(OpCode op);

// Nothing for a RECV: the SEND stands for the message. `pairs` are the graph's that the backend
// fuses; by default none.
std::optional<Primitive> PrimitiveOf(const TaskGraph& graph, TaskId id,
                                     const FusedPairs& pairs = {});

// Each once, in their order.
std::vector<Primitive> PrimitivesOf(const TaskGraph& graph, const FusedPairs& pairs = {});

}  // namespace twinstep
