// The arenas of ranks and the scratch of lanes: what they take, where a buffer is, what is in it.

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "exec/cuda/cuda_backend.h"
#include "exec/cuda/cuda_error.h"
#include "sim/str_cat.h"

namespace twinstep::cuda {
namespace {

Error OutOfMemory(const std::string& what, std::size_t bytes, std::uint32_t rank, const char* pool,
                  const std::string& reason) {
  return {.code = ExitCode::kNo,
          .message =
              StrCat("out of memory: ", bytes, " bytes for rank ", rank, "'s ", what, ": ", reason),
          .rule = "arena-memory",
          .rank = rank,
          .pool = pool,
          .excess_bytes = static_cast<std::int64_t>(bytes)};
}

}  // namespace

Status CudaBackend::Allocate() {
  const std::size_t ranks = program_->graph->ranks.size();
  device_arenas_.resize(ranks);
  host_arenas_.resize(ranks);
  for (std::size_t rank = ranks_.first; rank < ranks_.end; ++rank) {
    if (const Status used = UseGpuOfRank(rank); !used.ok()) return used;
    for (const Pool pool : {Pool::kGpu, Pool::kPinnedHost, Pool::kHost}) {
      if (const Status done = AllocateArena(rank, pool); !done.ok()) return done;
    }
  }
  Result<HostMemory> staged = HostMemory::Allocate(sizeof(DeviceStep), /*pinned=*/true, 1);
  if (!staged.ok()) return staged.error();
  staged_step_ = std::move(staged).value();
  return Unit{};
}

Status CudaBackend::AllocateArena(std::size_t rank, Pool pool) {
  const auto p = static_cast<std::size_t>(pool);
  const auto bytes = static_cast<std::size_t>(program_->arena->arena_bytes[rank][p]);
  const std::string what = StrCat("arena of pool ", Name(pool));
  const std::uint32_t global_rank = program_->graph->ranks[rank].global_rank;
  if (pool == Pool::kGpu) {
    Result<DeviceMemory> arena = AllocateDevice(bytes);
    if (!arena.ok()) {
      return OutOfMemory(what, bytes, global_rank, Name(pool), arena.error().message);
    }
    device_arenas_[rank] = std::move(arena).value();
    return Unit{};
  }
  Result<HostMemory> arena = HostMemory::Allocate(bytes, pool == Pool::kPinnedHost, host_threads_);
  if (!arena.ok()) return OutOfMemory(what, bytes, global_rank, Name(pool), arena.error().message);
  host_arenas_[rank][p] = std::move(arena).value();
  return Unit{};
}

Status CudaBackend::AllocateScratch() {
  const TaskGraph& graph = *program_->graph;
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    const Task& task = graph.tasks[id];
    if (task.kind == TaskKind::kHost || !IsOwn(task.rank)) continue;
    LaneStream& lane = StreamOf(id);
    lane.scratch_bytes =
        std::max(lane.scratch_bytes, GpuOf(id).operators->WorkspaceBytes(graph.shapes[task.shape]));
  }
  for (std::size_t i = ranks_.first * kLaneCount; i < ranks_.end * kLaneCount; ++i) {
    LaneStream& lane = lanes_[i];
    if (const Status used = UseGpuOfRank(i / kLaneCount); !used.ok()) return used;
    Result<DeviceMemory> scratch = AllocateDevice(lane.scratch_bytes);
    if (!scratch.ok()) {
      return OutOfMemory("scratch of library kernels", lane.scratch_bytes,
                         graph.ranks[i / kLaneCount].global_rank, Name(Pool::kGpu),
                         scratch.error().message);
    }
    lane.scratch = std::move(scratch).value();
  }
  return CheckMemoryLimit();
}

Status CudaBackend::CheckMemoryLimit() const {
  if (options_.memory_limit_bytes == 0) return Unit{};
  std::vector<std::int64_t> totals(gpus_.size(), 0);
  for (std::size_t rank = ranks_.first; rank < ranks_.end; ++rank) {
    std::int64_t& total = totals[gpu_of_rank_[rank]];
    const BackendMemory memory = MemoryOfRank(rank);
    total += memory.arena_bytes + memory.scratch_bytes;
    if (total <= options_.memory_limit_bytes) continue;
    return Error{.code = ExitCode::kNo,
                 .message = StrCat("arenas and scratch of the ranks up to ", rank, " take ", total,
                                   " bytes of GPU ", gpus_[gpu_of_rank_[rank]].device, ", ",
                                   options_.memory_limit_bytes, " are allowed"),
                 .rule = "gpu-memory",
                 .rank = program_->graph->ranks[rank].global_rank,
                 .pool = Name(Pool::kGpu),
                 .excess_bytes = total - options_.memory_limit_bytes};
  }
  return Unit{};
}

Status CudaBackend::ZeroArenas() {
  for (std::size_t rank = ranks_.first; rank < ranks_.end; ++rank) {
    const auto bytes = static_cast<std::size_t>(
        program_->arena->arena_bytes[rank][static_cast<std::size_t>(Pool::kGpu)]);
    if (bytes == 0) continue;
    const cudaStream_t control = gpus_[gpu_of_rank_[rank]].control;
    Status zeroed = UseGpuOfRank(rank);
    if (zeroed.ok()) {
      zeroed =
          CudaCall(cudaMemsetAsync(device_arenas_[rank].get(), 0, bytes, control), "cudaMemset");
    }
    if (zeroed.ok()) zeroed = CudaCall(cudaStreamSynchronize(control), "cudaStreamSynchronize");
    if (!zeroed.ok()) return zeroed;
  }
  return Unit{};
}

std::byte* CudaBackend::Address(BufferId buffer) const {
  const Buffer& x = program_->graph->buffers[buffer];
  std::byte* const arena = x.pool == Pool::kGpu
                               ? device_arenas_[x.rank].get()
                               : host_arenas_[x.rank][static_cast<std::size_t>(x.pool)].get();
  return arena + program_->arena->offset[buffer];
}

void CudaBackend::Write(BufferId buffer, std::int64_t offset, std::span<const std::byte> bytes) {
  if (bytes.empty() || !IsOwn(program_->graph->buffers[buffer].rank)) return;
  const cudaError_t code =
      cudaMemcpy(Address(buffer) + offset, bytes.data(), bytes.size(), cudaMemcpyDefault);
  if (code != cudaSuccess && !error_.has_value()) error_ = CudaCall(code, "writing").error();
}

void CudaBackend::WriteRepeated(BufferId buffer, std::int64_t offset, std::int64_t bytes,
                                std::span<const std::byte> block) {
  const Buffer& to = program_->graph->buffers[buffer];
  if (to.pool != Pool::kGpu) return Backend::WriteRepeated(buffer, offset, bytes, block);
  if (bytes <= 0 || !IsOwn(to.rank)) return;
  // Only the first block comes from the host; what is there is then copied behind itself.
  const auto all = static_cast<std::size_t>(bytes);
  std::size_t written = std::min(all, block.size());
  Write(buffer, offset, block.first(written));
  std::byte* const begin = Address(buffer) + offset;
  Status status = UseGpuOfRank(to.rank);
  while (status.ok() && written < all) {
    const std::size_t more = std::min(written, all - written);
    status = CudaCall(cudaMemcpy(begin + written, begin, more, cudaMemcpyDefault), "writing");
    written += more;
  }
  if (!status.ok() && !error_.has_value()) error_ = status.error();
}

void CudaBackend::Read(BufferId buffer, std::int64_t offset, std::span<std::byte> bytes) const {
  if (bytes.empty()) return;
  const Status read = world_ != nullptr
                          ? ReadForAll(buffer, offset, bytes)
                          : CudaCall(cudaMemcpy(bytes.data(), Address(buffer) + offset,
                                                bytes.size(), cudaMemcpyDefault),
                                     "reading");
  if (read.ok()) return;
  if (!error_.has_value()) error_ = read.error();
  std::memset(bytes.data(), 0xff, bytes.size());  // No numbers.
}

std::int64_t CudaBackend::ScratchBytes(TaskId id) const {
  const Task& task = program_->graph->tasks[id];
  if (task.kind == TaskKind::kHost) return 0;
  return static_cast<std::int64_t>(
      GpuOf(id).operators->WorkspaceBytes(program_->graph->shapes[task.shape]));
}

BackendMemory CudaBackend::MemoryOfRank(std::size_t rank) const {
  BackendMemory memory;
  memory.arena_bytes = program_->arena->arena_bytes[rank][static_cast<std::size_t>(Pool::kGpu)];
  for (std::size_t lane = 0; lane < kLaneCount; ++lane) {
    memory.scratch_bytes +=
        static_cast<std::int64_t>(lanes_[rank * kLaneCount + lane].scratch_bytes);
  }
  return memory;
}

std::optional<BackendMemory> CudaBackend::Memory() const {
  std::optional<BackendMemory> fullest;
  for (std::size_t gpu = 0; gpu < gpus_.size(); ++gpu) {
    std::size_t free = 0, total = 0;
    if (cudaSetDevice(gpus_[gpu].device) != cudaSuccess ||
        cudaMemGetInfo(&free, &total) != cudaSuccess) {
      return std::nullopt;
    }
    BackendMemory memory{.used_bytes = static_cast<std::int64_t>(total - free),
                         .total_bytes = static_cast<std::int64_t>(total)};
    for (std::size_t rank = ranks_.first; rank < ranks_.end; ++rank) {
      if (gpu_of_rank_[rank] != gpu) continue;
      const BackendMemory of_rank = MemoryOfRank(rank);
      memory.arena_bytes += of_rank.arena_bytes;
      memory.scratch_bytes += of_rank.scratch_bytes;
    }
    if (!fullest.has_value() || memory.used_bytes > fullest->used_bytes) fullest = memory;
  }
  return fullest;
}

}  // namespace twinstep::cuda
