// Runs one operator on the GPU, on copies of a test's buffers.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "exec/cuda/operators.h"
#include "sim/result.h"
#include "tests/exec/cpu/kernel_tester.h"

namespace twinstep {

class GpuTester {
 public:
  // Dies where there is no GPU.
  explicit GpuTester(const cuda::Operators::Options& options = {});

  // As RunOn of kernel_tester.h. An Error too if bytes outside of the operands were written.
  // `residual` as of Operators::Launch.
  Status Run(const Op& op, const std::vector<Buffer*>& reads, const std::vector<Buffer*>& writes,
             Buffer* residual = nullptr);
  // Of a shape that has run.
  std::size_t WorkspaceBytes(const OpShape& shape) const {
    return operators_->WorkspaceBytes(shape);
  }

 private:
  std::unique_ptr<cuda::Operators> operators_;
};

// ||x - y|| / ||y||, infinite if a number of x is no number or infinite where y's is none. Equal
// infinities count as equal.
double RelativeError(const Values& x, const Values& y);

}  // namespace twinstep
