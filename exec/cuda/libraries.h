// The CUDA libraries that exist only as shared objects, loaded when they are needed: a binary with
// the CUDA backend starts as fast as one without, and also where they are missing.
//
//   Result<const CublasLt*> blas = LoadCublasLt();
//   if (!blas.ok()) return blas.error();
//   blas.value()->Create(&handle);
//
// Looked for by the dynamic linker's rules (LD_LIBRARY_PATH), then in $CUDA_HOME/lib64, then where
// CUDA was when this program was built.
#pragma once

#include <cublasLt.h>
#include <cudnn.h>
#include <nccl.h>

#include "sim/result.h"

namespace twinstep {

struct CublasLt {
  decltype(&cublasLtCreate) Create = nullptr;
  decltype(&cublasLtDestroy) Destroy = nullptr;
  decltype(&cublasLtMatmul) Matmul = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) GetHeuristic = nullptr;
  decltype(&cublasLtMatmulDescCreate) DescCreate = nullptr;
  decltype(&cublasLtMatmulDescDestroy) DescDestroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) DescSet = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) LayoutCreate = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) LayoutDestroy = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) PreferenceCreate = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) PreferenceDestroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) PreferenceSet = nullptr;
  decltype(&cublasLtGetStatusString) StatusString = nullptr;
  decltype(&cublasLtGetVersion) Version = nullptr;
};

struct Cudnn {
  decltype(&cudnnCreate) Create = nullptr;
  decltype(&cudnnDestroy) Destroy = nullptr;
  decltype(&cudnnSetStream) SetStream = nullptr;
  decltype(&cudnnGetErrorString) ErrorString = nullptr;
  decltype(&cudnnGetLastErrorString) LastErrorString = nullptr;
  decltype(&cudnnGetVersion) Version = nullptr;
  decltype(&cudnnBackendCreateDescriptor) CreateDescriptor = nullptr;
  decltype(&cudnnBackendDestroyDescriptor) DestroyDescriptor = nullptr;
  decltype(&cudnnBackendSetAttribute) SetAttribute = nullptr;
  decltype(&cudnnBackendGetAttribute) GetAttribute = nullptr;
  decltype(&cudnnBackendFinalize) Finalize = nullptr;
  decltype(&cudnnBackendExecute) Execute = nullptr;
};

struct Nccl {
  decltype(&ncclGetUniqueId) GetUniqueId = nullptr;
  decltype(&ncclCommInitRank) CommInitRank = nullptr;
  decltype(&ncclCommDestroy) CommDestroy = nullptr;
  decltype(&ncclCommAbort) CommAbort = nullptr;
  decltype(&ncclGroupStart) GroupStart = nullptr;
  decltype(&ncclGroupEnd) GroupEnd = nullptr;
  decltype(&ncclAllReduce) AllReduce = nullptr;
  decltype(&ncclReduceScatter) ReduceScatter = nullptr;
  decltype(&ncclAllGather) AllGather = nullptr;
  decltype(&ncclBroadcast) Broadcast = nullptr;
  decltype(&ncclSend) Send = nullptr;
  decltype(&ncclRecv) Recv = nullptr;
  decltype(&ncclCommGetAsyncError) CommGetAsyncError = nullptr;
  decltype(&ncclGetErrorString) GetErrorString = nullptr;
  decltype(&ncclGetLastError) GetLastError = nullptr;
};

// Loaded once a process and never unloaded. An Error (kNo) names what was not found and where it
// was looked for.
Result<const CublasLt*> LoadCublasLt();
Result<const Cudnn*> LoadCudnn();
// NVLink multicast stays off: NCCL_NVLS_ENABLE=0 is set in the process.
Result<const Nccl*> LoadNccl();

}  // namespace twinstep
