#include "tests/exec/cuda/kernels/device_case.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "exec/cuda/kernels/kernels.h"

namespace twinstep {
namespace {

constexpr std::int64_t kGuard = 1024;
constexpr int kPoison = 0xff, kGuardByte = 0xa5;

std::int64_t ElementBytes(const OperatorCase& of, const CaseBuffer& buffer) {
  return buffer.content == Content::kAccumulator ? 32 : DtypeBytes(DtypeOf(of, buffer.content));
}

}  // namespace

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s (%s)\n", what, cudaGetErrorString(error), cudaGetErrorName(error));
  std::abort();
}

bool HasGpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

void DeviceFree::operator()(std::byte* memory) const { Check(cudaFree(memory), "cudaFree"); }

DeviceMemory Allocate(std::size_t bytes) {
  void* memory = nullptr;
  Check(cudaMalloc(&memory, std::max<std::size_t>(bytes, 1)), "cudaMalloc");
  return DeviceMemory(static_cast<std::byte*>(memory));
}

DeviceCase::DeviceCase(const OperatorCase& of, std::int64_t shift)
    : case_(of), shift_(shift), workspace_bytes_(cuda::WorkspaceBytes(of.shape)) {
  for (std::size_t i = 0; i < of.buffers.size(); ++i) {
    const std::int64_t bytes = Bytes(i) + shift * ElementBytes(of, of.buffers[i]) + 2 * kGuard;
    buffers_.push_back(Allocate(static_cast<std::size_t>(bytes)));
    Check(cudaMemset(buffers_.back().get(), kGuardByte, static_cast<std::size_t>(bytes)), "guards");
    Poison(i);
  }
  workspace_ = Allocate(workspace_bytes_ + static_cast<std::size_t>(kGuard));
  Check(cudaMemset(workspace_.get(), kPoison, workspace_bytes_), "workspace");
  Check(cudaMemset(workspace_.get() + workspace_bytes_, kGuardByte, kGuard), "workspace's guard");
  const cuda::DeviceStep step = cuda::MakeDeviceStep(of.step);
  step_ = Allocate(sizeof step);
  Check(cudaMemcpy(step_.get(), &step, sizeof step, cudaMemcpyHostToDevice), "step");
}

std::int64_t DeviceCase::Bytes(std::size_t buffer) const {
  const CaseBuffer& x = case_.buffers[buffer];
  return x.elements * ElementBytes(case_, x);
}

std::byte* DeviceCase::data(std::size_t buffer) const {
  // Scalars and accumulators are never shifted off their alignment.
  return buffers_[buffer].get() + kGuard + shift_ * ElementBytes(case_, case_.buffers[buffer]);
}

void DeviceCase::Fill(std::size_t buffer, const std::byte* bytes) {
  Check(cudaMemcpy(data(buffer), bytes, static_cast<std::size_t>(Bytes(buffer)),
                   cudaMemcpyHostToDevice),
        "fill");
}

void DeviceCase::Poison(std::size_t buffer) {
  Check(cudaMemset(data(buffer), kPoison, static_cast<std::size_t>(Bytes(buffer))), "poison");
}

std::vector<std::byte> DeviceCase::Contents(std::size_t buffer) const {
  std::vector<std::byte> bytes(static_cast<std::size_t>(Bytes(buffer)));
  Check(cudaMemcpy(bytes.data(), data(buffer), bytes.size(), cudaMemcpyDeviceToHost), "read");
  return bytes;
}

cudaError_t DeviceCase::Launch(cudaStream_t stream) const {
  std::vector<const std::byte*> reads;
  std::vector<std::byte*> writes;
  for (const std::size_t i : case_.reads) reads.push_back(data(i));
  for (const std::size_t i : case_.writes) writes.push_back(data(i));
  return cuda::LaunchKernel({.shape = case_.shape,
                             .gradient_dtype = case_.gradient_dtype,
                             .reads = reads,
                             .writes = writes,
                             .place = case_.place,
                             .step = reinterpret_cast<const cuda::DeviceStep*>(step_.get()),
                             .workspace = workspace_.get(),
                             .stream = stream});
}

bool DeviceCase::GuardsHold() const {
  const auto intact = [](const std::byte* from, std::int64_t bytes) {
    std::vector<std::byte> guard(static_cast<std::size_t>(bytes));
    Check(cudaMemcpy(guard.data(), from, guard.size(), cudaMemcpyDeviceToHost), "guard");
    return std::all_of(guard.begin(), guard.end(),
                       [](std::byte x) { return x == static_cast<std::byte>(kGuardByte); });
  };
  bool hold = intact(workspace_.get() + workspace_bytes_, kGuard);
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    hold = hold && intact(buffers_[i].get(), data(i) - buffers_[i].get());
    hold = hold && intact(data(i) + Bytes(i), kGuard);
  }
  return hold;
}

}  // namespace twinstep
