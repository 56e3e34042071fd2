// The symbolic interpreter: proves of a lowering of any size that its plan changes time and memory,
// never the result. Every weight and optimizer state after the iteration, and the loss, must be
// those of the plain plan (one GPU; the same model, recipe, micro-batch size and global batch).
//
//   Status proof = ProveEqual(graph, plain_graph);
//   if (!proof.ok()) std::puts(proof.error().message.c_str());
//
// What it notices: sim/graph/symbolic_run.h, and beyond that whatever changes the mathematics:
// micro-batches left out or counted twice, weights or activations of another step, lost residuals.
#pragma once

#include "sim/graph/symbolic_run.h"
#include "sim/graph/task_graph.h"
#include "sim/result.h"

namespace twinstep {

// Runs both graphs and compares. Where they differ, the error (kNo, rule "symbolic") names the
// first task of `graph` that reads or computes what the plain plan never has, or the micro-batches
// that a gradient lacks or repeats.
Status ProveEqual(const TaskGraph& graph, const TaskGraph& plain);

}  // namespace twinstep
