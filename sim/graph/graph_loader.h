// From the columns of a stored task graph to the graph.
#pragma once

#include <optional>
#include <string>

#include "sim/graph/task_graph.h"
#include "sim/graph/task_graph.pb.h"

namespace twinstep {

// Fills the graph. Returns what is wrong with the columns, if anything ("tasks.lane[12] is 77,
// ..."); then the graph is of no use. Indices into other tables are CheckStructure's business, not
// checked here. The file is not changed.
std::optional<std::string> LoadGraph(TaskGraphFile& file, TaskGraph& graph);

}  // namespace twinstep
