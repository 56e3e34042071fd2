// In place of the backend and its GPUs where this program was built without CUDA.

#include "exec/cuda/cuda_device.h"
#include "exec/cuda/cuda_options.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

Error Missing() {
  return {.code = ExitCode::kNo,
          .message = StrCat("this program was built without CUDA (missing: ", TWINSTEP_CUDA_MISSING,
                            "); build it where CUDA_HOME has these"),
          .rule = "cuda-missing"};
}

}  // namespace

Result<CudaDevice> DescribeCudaDevice(int /*device*/) { return Missing(); }

Result<std::unique_ptr<Backend>> MakeCudaBackend(const CudaOptions& /*options*/) {
  return Missing();
}

std::shared_ptr<cuda::OperatorCache> MakeOperatorCache() { return nullptr; }

std::vector<std::string> KernelNotes(const cuda::OperatorCache* /*operators*/) { return {}; }

std::vector<std::string> CudaVersions() { return {}; }

}  // namespace twinstep
