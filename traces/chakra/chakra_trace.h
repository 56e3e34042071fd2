// Our traces as Chakra execution traces, one file a rank, for tools that read those (astra-sim),
// and back without loss.
//
//   Status written = WriteChakra(graph, trace, "step.et");   // step.0.et, step.1.et ...
//
// A node is a task, by its place among its rank's: COMP_NODE (is_cpu_op, num_ops: floating point
// operations, tensor_size: bytes of memory traffic), MEM_LOAD_NODE and MEM_STORE_NODE for copies
// from and to the host (tensor_size), COMM_SEND_NODE and COMM_RECV_NODE (comm_size, comm_src,
// comm_dst, comm_tag), COMM_COLL_NODE (comm_type, comm_size, pg_name: the group of
// step.groups.json). A ring shift is a send and a receive. Dependencies are the graph's edges and
// the order of lanes. Times are whole microseconds, at least one where a task takes any; what the
// format has no field for stands in attributes that begin with "twinstep.".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "sim/graph/task_graph.h"
#include "sim/result.h"
#include "traces/chakra/chakra_file.h"
#include "traces/trace.pb.h"

namespace twinstep {

// The trace is of the graph. An Error (kBadInput) names the file that cannot be written, or says
// that the graph is folded: its messages have no partners.
Status WriteChakra(const TaskGraph& graph, const Trace& trace, const std::string& path);

// Whether a name asks for Chakra files: it ends in ".et".
bool IsChakraName(const std::string& path);

// The file of a rank: "step.et" and 3 are "step.3.et".
std::string ChakraFileName(const std::string& path, std::uint32_t rank);

// The file beside them that says which ranks are in which group.
std::string ChakraGroupsName(const std::string& path);

// Whether files of a trace of so many ranks would stand alone. Those that one of more ranks has
// left under the same name would be read as if they were of this one: an Error (kBadInput) names
// them.
Status CheckChakraFiles(const std::string& path, std::int64_t ranks);

// The trace that WriteChakra wrote; nothing where another program wrote the files. An Error
// (kBadInput) names the file and the node that does not fit, or the rank that is missing or there
// twice.
Result<std::optional<Trace>> OwnTraceOf(std::span<const ChakraFile> files);

}  // namespace twinstep
