// Folds symmetric ranks of an unfolded graph into one representative a class, and proves on the way
// that they are symmetric.
//
//   const RankClasses classes = SymmetryClasses(placement, plan, cluster);
//   Result<TaskGraph> folded = Fold(graph, classes.class_of);
//
// Collectives keep their group; a rendezvous of the folded graph joins the representatives of the
// classes that meet in it. The search does not fold: its lowering emits folded graphs directly
// (LowerOptions::fold). This pass exists to prove that both are the same.
//
// Symmetric: the members of a class run the same tasks (kind, lane, tags, work, sizes of operands,
// edges), use their own buffers alike, and meet members of the same classes at the same places of
// their programs. What may differ is what tells a rank its place: a shard's
// OpShape::index, which part of a
// buffer a slice is (not its size), the positions of a context-parallel rank's tokens and the range
// that its gradient norm counts; none of them changes how long a task takes.
#pragma once

#include <cstdint>
#include <span>

#include "sim/graph/task_graph.h"
#include "sim/result.h"

namespace twinstep {

// `class_of`: class of every global rank, counted from 0 in the order of their lowest ranks, which
// represent them. Errors: kBadInput where the graph is folded or the classes are not so numbered;
// kNo (rule "not-symmetric", with the rank) names two ranks and the first task that tells them
// apart. Expects a graph that the verifier accepts.
Result<TaskGraph> Fold(const TaskGraph& graph, std::span<const std::uint32_t> class_of);

}  // namespace twinstep
