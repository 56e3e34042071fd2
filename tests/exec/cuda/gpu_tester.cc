#include "tests/exec/cuda/gpu_tester.h"

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "exec/cuda/cuda_error.h"
#include "exec/cuda/memory.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

constexpr std::size_t kGuardBytes = 256;  // Behind each operand.
constexpr int kGuard = 0xa5;

// A buffer's copy in device memory.
struct DeviceCopy {
  cuda::DeviceMemory memory;
  std::size_t bytes = 0;
};

Result<DeviceCopy> CopyToDevice(const Buffer& buffer) {
  DeviceCopy copy{.memory = {}, .bytes = buffer.bytes().size()};
  Result<cuda::DeviceMemory> memory = cuda::AllocateDevice(copy.bytes + kGuardBytes);
  if (!memory.ok()) return memory.error();
  copy.memory = std::move(memory).value();
  cudaMemset(copy.memory.get() + copy.bytes, kGuard, kGuardBytes);
  const Status copied = CudaCall(
      cudaMemcpy(copy.memory.get(), buffer.bytes().data(), copy.bytes, cudaMemcpyHostToDevice),
      "copy to the device");
  if (!copied.ok()) return copied.error();
  return copy;
}

Status CopyBack(const DeviceCopy& copy, Buffer* buffer) {
  std::vector<std::byte> guard(kGuardBytes);
  cudaMemcpy(buffer->data(), copy.memory.get(), copy.bytes, cudaMemcpyDeviceToHost);
  const Status copied = CudaCall(
      cudaMemcpy(guard.data(), copy.memory.get() + copy.bytes, kGuardBytes, cudaMemcpyDeviceToHost),
      "copy from the device");
  if (!copied.ok()) return copied.error();
  for (const std::byte byte : guard) {
    if (byte != std::byte{kGuard}) return CudaError("bytes behind an operand were written");
  }
  return Unit{};
}

}  // namespace

GpuTester::GpuTester(const cuda::Operators::Options& options) {
  Result<std::unique_ptr<cuda::Operators>> operators = cuda::Operators::Create(options);
  if (!operators.ok()) {
    std::fprintf(stderr, "%s\n", operators.error().message.c_str());
    std::abort();
  }
  operators_ = std::move(operators).value();
}

Status GpuTester::Run(const Op& op, const std::vector<Buffer*>& reads,
                      const std::vector<Buffer*>& writes, Buffer* residual) {
  std::map<Buffer*, DeviceCopy> copies;
  const std::vector<Buffer*> residuals(residual == nullptr ? 0 : 1, residual);
  for (const auto* list : {&reads, &writes, &residuals}) {
    for (Buffer* buffer : *list) {
      if (copies.contains(buffer)) continue;
      Result<DeviceCopy> copy = CopyToDevice(*buffer);
      if (!copy.ok()) return copy.error();
      copies.emplace(buffer, std::move(copy).value());
    }
  }
  std::vector<const std::byte*> read_pointers;
  std::vector<std::byte*> write_pointers;
  for (Buffer* buffer : reads) read_pointers.push_back(copies[buffer].memory.get());
  for (Buffer* buffer : writes) write_pointers.push_back(copies[buffer].memory.get());

  if (const Status planned = operators_->Plan(op.shape); !planned.ok()) return planned;
  Result<cuda::DeviceMemory> workspace =
      cuda::AllocateDevice(operators_->WorkspaceBytes(op.shape) + 1);
  Result<cuda::DeviceMemory> step = cuda::AllocateDevice(sizeof(cuda::DeviceStep));
  if (!workspace.ok()) return workspace.error();
  if (!step.ok()) return step.error();
  const cuda::DeviceStep values = cuda::MakeDeviceStep(op.step);
  cudaMemcpy(step.value().get(), &values, sizeof values, cudaMemcpyHostToDevice);
  const cuda::KernelCall call{.shape = op.shape,
                              .gradient_dtype = op.gradient_dtype,
                              .reads = read_pointers,
                              .writes = write_pointers,
                              .place = op.place,
                              .step = reinterpret_cast<const cuda::DeviceStep*>(step.value().get()),
                              .workspace = workspace.value().get(),
                              .stream = nullptr};
  const std::byte* const added = residual == nullptr ? nullptr : copies[residual].memory.get();
  // Tuning overwrites the operands: they are copied once more.
  if (const Status tuned = operators_->Tune(call, added); !tuned.ok()) return tuned;
  for (auto& [buffer, copy] : copies) {
    cudaMemcpy(copy.memory.get(), buffer->bytes().data(), copy.bytes, cudaMemcpyHostToDevice);
  }
  if (const Status launched = operators_->Launch(call, added); !launched.ok()) return launched;
  const Status done = CudaCall(cudaDeviceSynchronize(), Name(op.shape.op));
  if (!done.ok()) return done;
  for (auto& [buffer, copy] : copies) {
    if (const Status copied = CopyBack(copy, buffer); !copied.ok()) return copied;
  }
  return Unit{};
}

double RelativeError(const Values& x, const Values& y) {
  if (x.size() != y.size()) return std::numeric_limits<double>::infinity();
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isinf(y[i]) && x[i] == y[i]) continue;
    if (!std::isfinite(x[i]) || !std::isfinite(y[i])) {
      return std::numeric_limits<double>::infinity();
    }
    error += (x[i] - y[i]) * (x[i] - y[i]);
    norm += y[i] * y[i];
  }
  if (norm == 0) return error == 0 ? 0 : std::numeric_limits<double>::infinity();
  return std::sqrt(error / norm);
}

}  // namespace twinstep
