#include "exec/cuda/nccl_group.h"

#include <cstddef>
#include <utility>

#include "exec/cuda/cuda_error.h"
#include "sim/str_cat.h"

namespace twinstep::cuda {
namespace {

// Of the gradient's norm, of one member.
constexpr std::int64_t kAccumulatorBytes = 32;

bool IsExactSum(const OpShape& shape) {
  return shape.op == OpCode::kAllReduce && (shape.flags & kExactSum) != 0;
}

ncclDataType_t TypeOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBf16:
      return ncclBfloat16;
    case Dtype::kFp16:
      return ncclFloat16;
    case Dtype::kFp32:
      return ncclFloat32;
    case Dtype::kFp64:
      return ncclFloat64;
    case Dtype::kInt32:
      return ncclInt32;
    case Dtype::kUint8:
      break;
  }
  return ncclUint8;
}

Error NcclError(const Nccl& nccl, ncclResult_t code, const char* what) {
  return {
      .code = ExitCode::kInternal,
      .message = StrCat(what, ": ", nccl.GetErrorString(code), ": ", nccl.GetLastError(nullptr)),
      .rule = "nccl"};
}

}  // namespace

Result<NcclId> MakeNcclId() {
  const Result<const Nccl*> nccl = LoadNccl();
  if (!nccl.ok()) return nccl.error();
  NcclId id;
  const ncclResult_t made = nccl.value()->GetUniqueId(&id);
  if (made != ncclSuccess) return NcclError(*nccl.value(), made, "ncclGetUniqueId");
  return id;
}

Result<std::unique_ptr<NcclGroup>> NcclGroup::Create(const NcclId& id,
                                                     std::span<const NcclMember> own_members,
                                                     int size, bool has_messages) {
  const Result<const Nccl*> nccl = LoadNccl();
  if (!nccl.ok()) return nccl.error();
  std::unique_ptr<NcclGroup> group(new NcclGroup(nccl.value(), size));
  for (const NcclMember& member : own_members) {
    const Status set = CudaCall(cudaSetDevice(member.device), "cudaSetDevice");
    if (!set.ok()) return set.error();
    Result<DeviceMemory> accumulators =
        AllocateDevice(static_cast<std::size_t>(size * kAccumulatorBytes));
    if (!accumulators.ok()) return accumulators.error();
    group->own_.push_back({.member = member, .accumulators = std::move(accumulators).value()});
  }
  const Status connected = group->Together([&](std::size_t i) {
    Connected& own = group->own_[i];
    return group->nccl_->CommInitRank(&own.communicator, size, id, own.member.index);
  });
  if (!connected.ok()) return connected.error();
  if (!has_messages) return group;
  const Status met = group->ConnectNeighbours();
  if (!met.ok()) return met.error();
  return group;
}

// NCCL connects collectives at once (NCCL_RUNTIME_CONNECT), and a pair with its first message.
Status NcclGroup::ConnectNeighbours() {
  std::vector<cudaStream_t> streams(own_.size(), nullptr);
  Status status = Unit{};
  for (std::size_t i = 0; i < own_.size() && status.ok(); ++i) {
    status = CudaCall(cudaSetDevice(own_[i].member.device), "cudaSetDevice");
    if (status.ok()) {
      status = CudaCall(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking),
                        "cudaStreamCreate");
    }
  }
  if (status.ok()) {
    status = Together([&](std::size_t i) {
      std::byte* const bytes = own_[i].accumulators.get();
      return PassOn(own_[i], {.read = bytes, .write = bytes + 1}, 1, streams[i]);
    });
  }
  for (std::size_t i = 0; i < own_.size(); ++i) {
    if (streams[i] == nullptr) continue;
    cudaSetDevice(own_[i].member.device);
    const Status done = CudaCall(cudaStreamSynchronize(streams[i]), "NCCL");
    if (status.ok()) status = done;
    cudaStreamDestroy(streams[i]);
  }
  return status;
}

NcclGroup::~NcclGroup() {
  for (const Connected& own : own_) {
    if (own.communicator != nullptr) nccl_->CommDestroy(own.communicator);
  }
}

void NcclGroup::Abort() {
  for (Connected& own : own_) {
    if (own.communicator != nullptr) nccl_->CommAbort(own.communicator);
    own.communicator = nullptr;
  }
}

Status NcclGroup::CheckSound() const {
  for (const Connected& own : own_) {
    ncclResult_t noticed = ncclSuccess;
    const ncclResult_t asked = nccl_->CommGetAsyncError(own.communicator, &noticed);
    if (const Status sound = Check(asked == ncclSuccess ? noticed : asked, "NCCL"); !sound.ok()) {
      return sound;
    }
  }
  return Unit{};
}

Status NcclGroup::Check(ncclResult_t code, const char* what) const {
  if (code == ncclSuccess) return Unit{};
  return NcclError(*nccl_, code, what);
}

template <typename Call>
Status NcclGroup::Together(Call call) {
  Status status = Check(nccl_->GroupStart(), "ncclGroupStart");
  if (!status.ok()) return status;
  for (std::size_t i = 0; i < own_.size() && status.ok(); ++i) {
    status = CudaCall(cudaSetDevice(own_[i].member.device), "cudaSetDevice");
    if (status.ok()) status = Check(call(i), "NCCL");
  }
  const Status ended = Check(nccl_->GroupEnd(), "ncclGroupEnd");
  return status.ok() ? ended : status;
}

ncclResult_t NcclGroup::Enqueue(const Connected& own, const OpShape& shape, std::int64_t bytes,
                                const MemberBuffers& buffers, cudaStream_t stream) const {
  const auto whole = static_cast<std::size_t>(bytes), size = static_cast<std::size_t>(size_);
  const std::size_t elements = whole / static_cast<std::size_t>(DtypeBytes(shape.dtype));
  switch (shape.op) {
    case OpCode::kAllReduce:
      if (IsExactSum(shape)) {
        return nccl_->AllGather(buffers.read, own.accumulators.get(), whole, ncclUint8,
                                own.communicator, stream);
      }
      return nccl_->AllReduce(buffers.read, buffers.write, elements, TypeOf(shape.dtype), ncclSum,
                              own.communicator, stream);
    case OpCode::kReduceScatter:
      return nccl_->ReduceScatter(buffers.read, buffers.write, elements / size, TypeOf(shape.dtype),
                                  ncclSum, own.communicator, stream);
    case OpCode::kAllGather:
      return nccl_->AllGather(buffers.read, buffers.write, whole / size, ncclUint8,
                              own.communicator, stream);
    default:
      break;
  }
  return PassOn(own, buffers, whole, stream);
}

// Of a ring to the next, of a pair from the one that reads to the one that writes.
ncclResult_t NcclGroup::PassOn(const Connected& own, const MemberBuffers& buffers,
                               std::size_t bytes, cudaStream_t stream) const {
  const int next = (own.member.index + 1) % size_;
  const int previous = (own.member.index + size_ - 1) % size_;
  if (buffers.read != nullptr) {
    const ncclResult_t sent =
        nccl_->Send(buffers.read, bytes, ncclUint8, next, own.communicator, stream);
    if (sent != ncclSuccess) return sent;
  }
  if (buffers.write == nullptr) return ncclSuccess;
  return nccl_->Recv(buffers.write, bytes, ncclUint8, previous, own.communicator, stream);
}

Status NcclGroup::SumExact(const Connected& own, const OpShape& shape, std::int64_t bytes,
                           const MemberBuffers& buffers, cudaStream_t stream) const {
  const Status set = CudaCall(cudaSetDevice(own.member.device), "cudaSetDevice");
  if (!set.ok()) return set;
  std::vector<MemberBuffers> parts(static_cast<std::size_t>(size_), buffers);
  const std::byte* part = own.accumulators.get();
  for (MemberBuffers& each : parts) each.read = std::exchange(part, part + bytes);
  // The first part is all of so few bytes.
  return CudaCall(RunGroupPart(shape, bytes, parts, 0, stream), Name(shape.op));
}

Status NcclGroup::Run(const OpShape& shape, std::int64_t bytes,
                      std::span<const MemberBuffers> own_members,
                      std::span<const cudaStream_t> streams) {
  if (IsExactSum(shape) && bytes != kAccumulatorBytes) {
    return CudaError(StrCat(Name(shape.op), " of ", bytes, " bytes of accumulators"));
  }
  Status status = Together(
      [&](std::size_t i) { return Enqueue(own_[i], shape, bytes, own_members[i], streams[i]); });
  if (!IsExactSum(shape)) return status;
  for (std::size_t i = 0; i < own_.size() && status.ok(); ++i) {
    status = SumExact(own_[i], shape, bytes, own_members[i], streams[i]);
  }
  return status;
}

Status NcclGroup::Broadcast(std::byte* bytes, std::size_t count, int root, cudaStream_t stream) {
  return Together([&](std::size_t i) {
    return nccl_->Broadcast(bytes, bytes, count, ncclUint8, root, own_[i].communicator, stream);
  });
}

}  // namespace twinstep::cuda
