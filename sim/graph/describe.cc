#include "sim/graph/describe.h"

namespace twinstep {

std::string DescribeTask(const TaskGraph& graph, TaskId id) {
  return "\"" + graph.TaskName(id) + "\" (task " + std::to_string(id) + ")";
}

std::string DescribeBuffer(const TaskGraph& graph, BufferId id) {
  const Buffer& buffer = graph.buffers[id];
  return "buffer " + std::to_string(id) + " (" + Name(buffer.pool) + " " + Name(buffer.role) +
         ", " + std::to_string(buffer.bytes) + " bytes)";
}

}  // namespace twinstep
