#include "exec/cuda/libraries.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "sim/str_cat.h"

namespace twinstep {
namespace {

class SharedObject {
 public:
  explicit SharedObject(const std::string& name) : name_(name) {
    std::vector<std::string> paths{name};
    if (const char* home = std::getenv("CUDA_HOME")) paths.push_back(StrCat(home, "/lib64/", name));
    paths.push_back(StrCat(TWINSTEP_CUDA_HOME, "/lib64/", name));
    for (const std::string& path : paths) {
      handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) return;
      const char* const reason = dlerror();
      if (tried_.empty()) tried_ = reason == nullptr ? path : std::string(reason);
    }
  }

  template <typename Function>
  void Find(const char* symbol, Function* function) {
    if (handle_ == nullptr) return;
    *function = reinterpret_cast<Function>(dlsym(handle_, symbol));
    if (*function == nullptr && missing_.empty()) missing_ = symbol;
  }

  // `functions` if all were found.
  template <typename Functions>
  Result<Functions> Checked(const Functions& functions) const {
    if (handle_ == nullptr) {
      return Error{.code = ExitCode::kNo,
                   .message = StrCat("the CUDA backend needs ", name_,
                                     ", which was found neither by "
                                     "the dynamic linker (",
                                     tried_, ") nor in ", TWINSTEP_CUDA_HOME,
                                     "/lib64; set LD_LIBRARY_PATH or CUDA_HOME"),
                   .rule = "cuda-library"};
    }
    if (missing_.empty()) return functions;
    return Error{.code = ExitCode::kNo,
                 .message = StrCat(name_, " has no ", missing_, ": another version is needed"),
                 .rule = "cuda-library"};
  }

 private:
  std::string name_;
  std::string tried_;
  std::string missing_;
  void* handle_ = nullptr;
};

Result<CublasLt> FindCublasLt() {
  SharedObject object("libcublasLt.so.13");
  CublasLt functions;
  object.Find("cublasLtCreate", &functions.Create);
  object.Find("cublasLtDestroy", &functions.Destroy);
  object.Find("cublasLtMatmul", &functions.Matmul);
  object.Find("cublasLtMatmulAlgoGetHeuristic", &functions.GetHeuristic);
  object.Find("cublasLtMatmulDescCreate", &functions.DescCreate);
  object.Find("cublasLtMatmulDescDestroy", &functions.DescDestroy);
  object.Find("cublasLtMatmulDescSetAttribute", &functions.DescSet);
  object.Find("cublasLtMatrixLayoutCreate", &functions.LayoutCreate);
  object.Find("cublasLtMatrixLayoutDestroy", &functions.LayoutDestroy);
  object.Find("cublasLtMatmulPreferenceCreate", &functions.PreferenceCreate);
  object.Find("cublasLtMatmulPreferenceDestroy", &functions.PreferenceDestroy);
  object.Find("cublasLtMatmulPreferenceSetAttribute", &functions.PreferenceSet);
  object.Find("cublasLtGetStatusString", &functions.StatusString);
  object.Find("cublasLtGetVersion", &functions.Version);
  return object.Checked(functions);
}

Result<Cudnn> FindCudnn() {
  SharedObject object("libcudnn.so.9");
  Cudnn functions;
  object.Find("cudnnCreate", &functions.Create);
  object.Find("cudnnDestroy", &functions.Destroy);
  object.Find("cudnnSetStream", &functions.SetStream);
  object.Find("cudnnGetErrorString", &functions.ErrorString);
  object.Find("cudnnGetLastErrorString", &functions.LastErrorString);
  object.Find("cudnnGetVersion", &functions.Version);
  object.Find("cudnnBackendCreateDescriptor", &functions.CreateDescriptor);
  object.Find("cudnnBackendDestroyDescriptor", &functions.DestroyDescriptor);
  object.Find("cudnnBackendSetAttribute", &functions.SetAttribute);
  object.Find("cudnnBackendGetAttribute", &functions.GetAttribute);
  object.Find("cudnnBackendFinalize", &functions.Finalize);
  object.Find("cudnnBackendExecute", &functions.Execute);
  return object.Checked(functions);
}

Result<Nccl> FindNccl() {
  // Read when NCCL starts. With one launch order for all communicators of a GPU, no two kernels
  // that wait for their peers keep each other from starting.
  setenv("NCCL_NVLS_ENABLE", "0", /*replace=*/1);
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", /*replace=*/0);
  // What collectives need is there when a communicator is made, not when they first run.
  setenv("NCCL_RUNTIME_CONNECT", "0", /*replace=*/0);
  SharedObject object("libnccl.so.2");
  Nccl functions;
  object.Find("ncclGetUniqueId", &functions.GetUniqueId);
  object.Find("ncclCommInitRank", &functions.CommInitRank);
  object.Find("ncclCommDestroy", &functions.CommDestroy);
  object.Find("ncclCommAbort", &functions.CommAbort);
  object.Find("ncclGroupStart", &functions.GroupStart);
  object.Find("ncclGroupEnd", &functions.GroupEnd);
  object.Find("ncclAllReduce", &functions.AllReduce);
  object.Find("ncclReduceScatter", &functions.ReduceScatter);
  object.Find("ncclAllGather", &functions.AllGather);
  object.Find("ncclBroadcast", &functions.Broadcast);
  object.Find("ncclSend", &functions.Send);
  object.Find("ncclRecv", &functions.Recv);
  object.Find("ncclCommGetAsyncError", &functions.CommGetAsyncError);
  object.Find("ncclGetErrorString", &functions.GetErrorString);
  object.Find("ncclGetLastError", &functions.GetLastError);
  return object.Checked(functions);
}

template <typename Functions>
Result<const Functions*> PointerTo(const Result<Functions>& found) {
  if (!found.ok()) return found.error();
  return &found.value();
}

}  // namespace

Result<const CublasLt*> LoadCublasLt() {
  static const Result<CublasLt> found = FindCublasLt();
  return PointerTo(found);
}

Result<const Cudnn*> LoadCudnn() {
  static const Result<Cudnn> found = FindCudnn();
  return PointerTo(found);
}

Result<const Nccl*> LoadNccl() {
  static const Result<Nccl> found = FindNccl();
  return PointerTo(found);
}

}  // namespace twinstep
