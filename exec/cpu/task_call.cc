#include "exec/cpu/task_call.h"

namespace twinstep {

KernelCall CpuCallOf(const Program& program, TaskId id, std::span<std::byte* const> operands,
                     const StepValues& step) {
  const Task& task = program.graph->tasks[id];
  std::byte* const* const reads = operands.data() + task.operand_begin;
  return {.shape = program.graph->shapes[task.shape],
          .gradient_dtype = program.gradient_dtype,
          .state_dtype = program.state_dtype,
          .reads = {reads, task.read_count},
          .writes = {reads + task.read_count, task.write_count},
          .step = step,
          .place = program.places[id]};
}

}  // namespace twinstep
