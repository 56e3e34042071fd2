// The GPU of this machine, as far as a plan is lowered differently for it.
#pragma once

#include "hw_specs/cluster.pb.h"
#include "model_zoo/model.pb.h"
#include "sim/result.h"

namespace twinstep {

// Fills in the GPU's name, memory and what its kernels need (`deterministic`: cuda_options.h). An
// Error says why there is no GPU.
Status DescribeGpu(const Recipe& recipe, bool deterministic, Cluster* cluster);

}  // namespace twinstep
