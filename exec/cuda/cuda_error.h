// CUDA's status codes as errors of this project.
//
//   if (Status done = CudaCall(cudaMalloc(&p, bytes), "cudaMalloc"); !done.ok()) return done;
#pragma once

#include <cuda_runtime.h>

#include <string>
#include <utility>

#include "sim/result.h"
#include "sim/str_cat.h"

namespace twinstep {

inline Error CudaError(std::string message) {
  return {.code = ExitCode::kInternal, .message = std::move(message), .rule = "cuda"};
}

inline Status CudaCall(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return Unit{};
  return CudaError(StrCat(what, ": ", cudaGetErrorString(code), " (", cudaGetErrorName(code), ")"));
}

}  // namespace twinstep
