// Task graphs as protobuf binary (sim/graph/task_graph.proto).
//
//   Status written = WriteGraph(graph, "step.graph");
//   Result<TaskGraph> graph = ReadGraph("step.graph");
//
// What was written is read back exactly, and the same graph gives the same bytes. What is read is
// checked down to the last index (CheckStructure): any accessor is safe on it. Whether it is a
// correct program is Verify's question.
//
// Errors name the file and the column: kBadInput for bytes that are no graph, kInternal for a graph
// to be written that breaks the structure rule or exceeds protobuf's 2 GiB (about 80 M tasks).
#pragma once

#include <string>
#include <string_view>

#include "sim/graph/task_graph.h"
#include "sim/result.h"

namespace twinstep {

Result<std::string> SerializeGraph(const TaskGraph& graph);
// `name` stands for the file in errors.
Result<TaskGraph> ParseGraph(std::string_view bytes, std::string_view name);

Status WriteGraph(const TaskGraph& graph, const std::string& path);
Result<TaskGraph> ReadGraph(const std::string& path);

}  // namespace twinstep
