// Whether two task graphs are the same program, however their shapes, slices, groups and rendezvous
// are numbered. Ranks, tasks, buffers and their order must be the same.
//
//   if (std::optional<std::string> text = FirstDifference(a, b)) std::puts(text->c_str());
#pragma once

#include <optional>
#include <string>

#include "sim/graph/task_graph.h"

namespace twinstep {

// Nothing, or what differs first: "task 17 (r0 compute gemm_forward mb0): shape". Expects graphs
// whose ids are in range.
std::optional<std::string> FirstDifference(const TaskGraph& a, const TaskGraph& b);

}  // namespace twinstep
