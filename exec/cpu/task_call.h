// What a CPU kernel is called with for a task of a prepared program.
//
//   RunKernel(CpuCallOf(program, id, operands, step));
#pragma once

#include <cstddef>
#include <span>

#include "exec/cpu/kernel.h"
#include "exec/runtime/program.h"
#include "exec/runtime/step_values.h"
#include "sim/graph/ids.h"

namespace twinstep {

// `operands` as of OperandAddresses. The call refers to them, to the program and to the step.
KernelCall CpuCallOf(const Program& program, TaskId id, std::span<std::byte* const> operands,
                     const StepValues& step);

}  // namespace twinstep
