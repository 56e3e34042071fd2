#include "exec/runtime/operand_addresses.h"

namespace twinstep {

std::vector<std::byte*> OperandAddresses(const TaskGraph& graph,
                                         const std::function<std::byte*(BufferId)>& address) {
  std::vector<std::byte*> operands;
  operands.reserve(graph.operands.size());
  for (const Operand& x : graph.operands) {
    std::byte* const buffer = address(x.buffer);
    operands.push_back(buffer == nullptr ? nullptr : buffer + graph.slices[x.slice].offset);
  }
  return operands;
}

std::vector<MemberBuffers> MemberAddresses(const Program& program,
                                           std::span<std::byte* const> operands) {
  std::vector<MemberBuffers> members;
  members.reserve(program.members.size());
  for (const TaskId id : program.members) {
    const Task& task = program.graph->tasks[id];
    const auto own = operands.subspan(task.operand_begin, task.read_count + task.write_count);
    members.push_back({.read = task.read_count > 0 ? own[0] : nullptr,
                       .write = task.write_count > 0 ? own[task.read_count] : nullptr});
  }
  return members;
}

}  // namespace twinstep
