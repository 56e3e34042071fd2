#include "exec/cuda/memory.h"

#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "exec/cuda/cuda_error.h"
#include "sim/str_cat.h"

namespace twinstep::cuda {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Pages come into being where they are first written; each thread makes its share.
void Touch(std::byte* memory, std::size_t bytes, int most_threads) {
  constexpr std::size_t kLeastBytes = std::size_t{64} << 20;  // Of a thread.
  const std::size_t threads = std::clamp<std::size_t>(
      bytes / kLeastBytes, 1, static_cast<std::size_t>(std::max(1, most_threads)));
  const std::size_t share = (bytes / threads + kHugePage - 1) / kHugePage * kHugePage;
  std::vector<std::jthread> workers;
  for (std::size_t begin = 0; begin < bytes; begin += share) {
    workers.emplace_back([memory, begin, size = std::min(share, bytes - begin)] {
      std::memset(memory + begin, 0, size);
    });
  }
}

}  // namespace

void FreeDevice::operator()(std::byte* memory) const { cudaFree(memory); }

Result<DeviceMemory> AllocateDevice(std::size_t bytes) {
  if (bytes == 0) return DeviceMemory();
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes);
  if (error != cudaSuccess) {
    cudaGetLastError();  // Or the next launch would report it again.
    return CudaCall(error, "cudaMalloc").error();
  }
  return DeviceMemory(static_cast<std::byte*>(memory));
}

Result<HostMemory> HostMemory::Allocate(std::size_t bytes, bool pinned, int threads) {
  HostMemory result;
  if (bytes == 0) return result;
  const std::size_t rounded = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* const memory =
      mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return Error{.code = ExitCode::kNo, .message = StrCat("mmap: ", std::strerror(errno))};
  }
  result.memory_ = static_cast<std::byte*>(memory);
  result.bytes_ = rounded;
  madvise(memory, rounded, MADV_HUGEPAGE);  // Refused where the kernel has none: slower, not wrong.
  Touch(result.memory_, rounded, threads);
  if (pinned) {
    const Status registered =
        CudaCall(cudaHostRegister(memory, rounded, cudaHostRegisterPortable), "cudaHostRegister");
    if (!registered.ok()) return registered.error();
    result.pinned_ = true;
  }
  return result;
}

HostMemory::HostMemory(HostMemory&& other) noexcept { *this = std::move(other); }

HostMemory& HostMemory::operator=(HostMemory&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  std::swap(pinned_, other.pinned_);
  return *this;
}

HostMemory::~HostMemory() {
  if (memory_ == nullptr) return;
  if (pinned_) cudaHostUnregister(memory_);
  munmap(memory_, bytes_);
}

}  // namespace twinstep::cuda
