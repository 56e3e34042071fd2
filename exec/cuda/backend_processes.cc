// What processes that train together share besides their groups: reading, and who has ended.

#include <algorithm>
#include <chrono>
#include <thread>

#include "exec/cuda/cuda_backend.h"
#include "exec/cuda/cuda_error.h"

namespace twinstep::cuda {

Status CudaBackend::ReadForAll(BufferId buffer, std::int64_t offset,
                               std::span<std::byte> bytes) const {
  const RankId rank = program_->graph->buffers[buffer].rank;
  const auto owner = static_cast<int>(rank / (ranks_.end - ranks_.first));
  const Gpu& gpu = gpus_[0];
  for (std::size_t at = 0; at < bytes.size(); at += kSharedBytes) {
    const std::span<std::byte> piece = bytes.subspan(at, std::min(kSharedBytes, bytes.size() - at));
    Status status = CudaCall(cudaSetDevice(gpu.device), "cudaSetDevice");
    if (status.ok() && IsOwn(rank)) {
      const std::byte* const from = Address(buffer) + offset + static_cast<std::int64_t>(at);
      status = CudaCall(
          cudaMemcpyAsync(shared_.get(), from, piece.size(), cudaMemcpyDefault, gpu.control),
          "reading");
    }
    if (status.ok()) status = world_->Broadcast(shared_.get(), piece.size(), owner, gpu.control);
    if (status.ok()) status = WaitFor(gpu.control);
    if (status.ok()) {
      status = CudaCall(cudaMemcpy(piece.data(), shared_.get(), piece.size(), cudaMemcpyDefault),
                        "reading");
    }
    if (!status.ok()) return status;
  }
  return Unit{};
}

Status CudaBackend::WaitFor(cudaStream_t stream) const {
  using Clock = std::chrono::steady_clock;
  auto last_look = Clock::now();
  while (true) {
    const cudaError_t code = cudaStreamQuery(stream);
    if (code != cudaErrorNotReady) return CudaCall(code, "reading");
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    if (Clock::now() - last_look < kLookInterval) continue;
    last_look = Clock::now();
    if (const Status others = CheckOthers(); !others.ok()) return others;
  }
}

Status CudaBackend::CheckOthers() const {
  if (options_.processes != nullptr) {
    if (const Status alive = options_.processes->CheckAlive(); !alive.ok()) return alive;
  }
  for (const std::unique_ptr<NcclGroup>& group : groups_) {
    if (const Status sound = group->CheckSound(); !sound.ok()) return sound;
  }
  return world_ == nullptr ? Unit{} : world_->CheckSound();
}

}  // namespace twinstep::cuda
