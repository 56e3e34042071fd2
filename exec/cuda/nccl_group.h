// Collectives and messages among ranks whose GPUs do not reach each other's memory, because they
// belong to several processes or are not linked: by NCCL, sums in the order of its rings.
//
//   Result<NcclId> id = MakeNcclId();  // By one process, for all.
//   Result<std::unique_ptr<NcclGroup>> group =
//       NcclGroup::Create(id.value(), own_members, /*size=*/4, /*has_messages=*/false);
//   Status enqueued = group.value()->Run(shape, bytes, own_buffers, own_streams);
//
// A communicator each, so that groups and lanes do not wait for each other. All processes make and
// run groups in the same order.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "exec/cuda/group_operations.h"
#include "exec/cuda/libraries.h"
#include "exec/cuda/memory.h"
#include "exec/cuda/nccl_plan.h"
#include "sim/graph/op.h"
#include "sim/result.h"

namespace twinstep::cuda {

using NcclId = ncclUniqueId;

// An Error if NCCL is missing.
Result<NcclId> MakeNcclId();

class NcclGroup {
 public:
  // Returns once all processes with members have called it. Members connect now: while kernels wait
  // for their peers is no time for it.
  static Result<std::unique_ptr<NcclGroup>> Create(const NcclId& id,
                                                   std::span<const NcclMember> own_members,
                                                   int size, bool has_messages);
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  ~NcclGroup();

  // Each own member's work on its stream; `bytes` and operands as in group_operations.h.
  Status Run(const OpShape& shape, std::int64_t bytes, std::span<const MemberBuffers> own_members,
             std::span<const cudaStream_t> streams);

  // Gives up what is under way, which would otherwise wait for others for ever; the group is of no
  // use then.
  void Abort();

  // An Error if NCCL has noticed one, as of a peer that is gone.
  Status CheckSound() const;

  // Bytes in device memory, of member `root`, to the one own member's.
  Status Broadcast(std::byte* bytes, std::size_t count, int root, cudaStream_t stream);

 private:
  struct Connected {
    NcclMember member;
    ncclComm_t communicator = nullptr;
    DeviceMemory accumulators;  // All members', of exact sums.
  };

  NcclGroup(const Nccl* nccl, int size) : nccl_(nccl), size_(size) {}
  Status Check(ncclResult_t code, const char* what) const;
  // call(i) for each own member, as one.
  template <typename Call>
  Status Together(Call call);
  ncclResult_t PassOn(const Connected& own, const MemberBuffers& buffers, std::size_t bytes,
                      cudaStream_t stream) const;
  Status ConnectNeighbours();
  ncclResult_t Enqueue(const Connected& own, const OpShape& shape, std::int64_t bytes,
                       const MemberBuffers& buffers, cudaStream_t stream) const;
  Status SumExact(const Connected& own, const OpShape& shape, std::int64_t bytes,
                  const MemberBuffers& buffers, cudaStream_t stream) const;

  const Nccl* nccl_;
  int size_;
  std::vector<Connected> own_;
};

}  // namespace twinstep::cuda
