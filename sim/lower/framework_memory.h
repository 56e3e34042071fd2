// What a training framework does to the memory of a plan: tensors that it keeps wider than the
// graph does, views that keep what they look into, scratch of unfused kernels, parameters in fp32.
//
//   TaskGraph graph = Lower(model, cluster, plan, {.framework = &framework}).value();
//
// Only the sizes and lives of buffers change, so that such a graph is for memory and time, not for
// execution: operands no longer have the sizes that op.h says.
#pragma once

#include "hw_specs/frameworks/framework.pb.h"
#include "sim/graph/task_graph.h"

namespace twinstep {

// Applies OperationKernels' output_bytes, kept_input and scratch, and Framework's fp32_parameters
// and optimizer_segment_bytes_per_param to the buffers of a finished graph. Parts of larger buffers
// (slots of offloaded and swapped activations) keep their sizes.
void ApplyFrameworkMemory(const Framework& framework, TaskGraph* graph);

}  // namespace twinstep
