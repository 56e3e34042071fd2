#include "exec/cuda/cuda_device.h"

#include <cuda_runtime_api.h>

#include <fstream>

#include "exec/cuda/cuda_error.h"
#include "exec/cuda/libraries.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

std::string WhyNone(cudaError_t code) {
  if (code == cudaSuccess) return "the driver shows none";
  // CUDA's own words speak of a version where there is no driver at all.
  if (code == cudaErrorInsufficientDriver) {
    return "there is no NVIDIA driver, or one that is too old for this CUDA";
  }
  return cudaGetErrorString(code);
}

}  // namespace

Result<CudaDevice> DescribeCudaDevice(int device) {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess || count == 0) {
    return Error{
        .code = ExitCode::kNo, .message = StrCat("no GPU: ", WhyNone(code)), .rule = "cuda-device"};
  }
  if (device >= count) {
    return Error{.code = ExitCode::kNo,
                 .message = StrCat("there is no GPU ", device, ": the driver shows ", count),
                 .rule = "cuda-device"};
  }
  cudaDeviceProp properties{};
  const Status asked =
      CudaCall(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  if (!asked.ok()) return asked.error();
  return CudaDevice{.name = properties.name,
                    .memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem),
                    .multiprocessors = properties.multiProcessorCount,
                    .l2_bytes = properties.l2CacheSize};
}

std::vector<std::string> CudaVersions() {
  std::vector<std::string> versions;
  // "NVRM version: NVIDIA UNIX ... Kernel Module for x86_64  580.159.04  Release Build ..."
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;) {
    if (word.find_first_not_of("0123456789.") != std::string::npos ||
        word.find('.') == std::string::npos) {
      continue;
    }
    versions.push_back("driver " + word);
    break;
  }
  const auto of_thousands = [](auto version) {
    return StrCat(version / 1000, ".", version % 1000 / 10);
  };
  if (int runtime = 0; cudaRuntimeGetVersion(&runtime) == cudaSuccess) {
    versions.push_back("CUDA " + of_thousands(runtime));
  }
  // cublasLtGetVersion: 10000 major + 100 minor + patch, as cuDNN 9 counts.
  const auto of_ten_thousands = [](auto version) {
    return StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100);
  };
  if (const auto blas = LoadCublasLt(); blas.ok()) {
    versions.push_back("cuBLASLt " + of_ten_thousands(blas.value()->Version()));
  }
  if (const auto dnn = LoadCudnn(); dnn.ok()) {
    versions.push_back("cuDNN " + of_ten_thousands(dnn.value()->Version()));
  }
  return versions;
}

}  // namespace twinstep
