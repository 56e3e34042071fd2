// A range of a profiler's timeline (Nsight Systems), named after an operation, from the thread that
// launches it.
//
//   const ProfilerRange range(OpCode::kAllReduce);  // Until the end of the block.
#pragma once

#include <nvtx3/nvToolsExt.h>

#include "sim/graph/op.h"

namespace twinstep::cuda {

class ProfilerRange {
 public:
  explicit ProfilerRange(OpCode op) { nvtxRangePushA(Name(op)); }
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;
  ~ProfilerRange() { nvtxRangePop(); }
};

}  // namespace twinstep::cuda
