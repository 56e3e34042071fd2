// Where a program's operands lie once a backend has its arenas: looked up once, for all iterations.
//
//   operands_ = OperandAddresses(graph, [this](BufferId buffer) { return Address(buffer); });
//   members_ = MemberAddresses(program, operands_);
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "exec/runtime/member_buffers.h"
#include "exec/runtime/program.h"
#include "sim/graph/ids.h"
#include "sim/graph/task_graph.h"

namespace twinstep {

// By TaskGraph::operands. `address` is that of a buffer, null where another process has it, as its
// operands then are.
std::vector<std::byte*> OperandAddresses(const TaskGraph& graph,
                                         const std::function<std::byte*(BufferId)>& address);

// By Program::members: of each task that meets others its first read and its first write.
std::vector<MemberBuffers> MemberAddresses(const Program& program,
                                           std::span<std::byte* const> operands);

}  // namespace twinstep
