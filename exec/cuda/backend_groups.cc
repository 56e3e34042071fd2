// What ranks do together: which communicators they join, their collectives and messages.

#include <array>
#include <cstring>
#include <utility>

#include "exec/cuda/cuda_backend.h"
#include "exec/cuda/cuda_error.h"
#include "exec/cuda/nccl_plan.h"
#include "exec/cuda/profiler_range.h"

namespace twinstep::cuda {

Status CudaBackend::JoinGroups() {
  const TaskGraph& graph = *program_->graph;
  group_of_rendezvous_.resize(graph.rendezvous.size(), nullptr);
  std::vector<int> device_of_rank(graph.ranks.size());
  for (std::size_t rank = ranks_.first; rank < ranks_.end; ++rank) {
    device_of_rank[rank] = gpus_[gpu_of_rank_[rank]].device;
  }
  const Result<std::vector<NcclPlan>> plans =
      PlanNcclGroups(*program_, {.own = ranks_,
                                 .device_of_rank = std::move(device_of_rank),
                                 .peer_memory = options_.peer_memory,
                                 .deterministic = options_.deterministic});
  if (!plans.ok()) return plans.error();
  const std::vector<NcclPlan>& joined = plans.value();
  const int processes = place_.size;
  if (joined.empty() && processes == 1) return Unit{};
  // One more for all processes.
  std::vector<std::byte> bytes((joined.size() + 1) * sizeof(NcclId));
  for (std::size_t i = 0; place_.rank == 0 && i <= joined.size(); ++i) {
    const Result<NcclId> id = MakeNcclId();
    if (!id.ok()) return id.error();
    std::memcpy(bytes.data() + i * sizeof(NcclId), &id.value(), sizeof(NcclId));
  }
  if (processes > 1) {
    Result<std::vector<std::byte>> ids = options_.processes->ShareFirst(bytes);
    if (!ids.ok()) return ids.error();
    if (ids.value().size() != bytes.size()) {
      return Error{.message = "process 0 trains another plan", .rule = "processes"};
    }
    bytes = std::move(ids).value();
  }
  const auto join = [&](std::size_t i, std::span<const NcclMember> own, int size,
                        bool has_messages) {
    NcclId id;
    std::memcpy(&id, bytes.data() + i * sizeof id, sizeof id);
    return NcclGroup::Create(id, own, size, has_messages);
  };
  for (std::size_t i = 0; i < joined.size(); ++i) {
    if (joined[i].own.empty()) continue;
    Result<std::unique_ptr<NcclGroup>> group =
        join(i, joined[i].own, joined[i].size, joined[i].has_messages);
    if (!group.ok()) return group.error();
    for (const RendezvousId id : joined[i].rendezvous) {
      group_of_rendezvous_[id] = group.value().get();
    }
    groups_.push_back(std::move(group).value());
  }
  if (processes == 1) return Unit{};
  const std::array self{NcclMember{.index = place_.rank, .device = gpus_[0].device}};
  Result<std::unique_ptr<NcclGroup>> world =
      join(joined.size(), self, processes, /*has_messages=*/false);
  if (!world.ok()) return world.error();
  world_ = std::move(world).value();
  Result<DeviceMemory> memory = AllocateDevice(kSharedBytes);
  if (!memory.ok()) return memory.error();
  shared_ = std::move(memory).value();
  return Unit{};
}

void CudaBackend::Meet(std::span<const TaskId> tasks, std::uint32_t first_member,
                       const std::vector<cudaEvent_t>& events) {
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    Check(cudaEventRecord(events[first_member + i], StreamOf(tasks[i]).stream), "cudaEventRecord",
          tasks[i]);
  }
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    for (std::size_t other = 0; other < tasks.size(); ++other) {
      if (other == i) continue;
      Check(cudaStreamWaitEvent(StreamOf(tasks[i]).stream, events[first_member + other]),
            "cudaStreamWaitEvent", tasks[i]);
    }
  }
}

void CudaBackend::Exchange(RendezvousId rendezvous) {
  if (HasEnded()) return;
  if (group_of_rendezvous_[rendezvous] != nullptr) return ExchangeByNccl(rendezvous);
  const TaskGraph& graph = *program_->graph;
  const std::span<const TaskId> tasks = program_->Members(rendezvous);
  if (!IsOwnTask(tasks[0])) return;
  const std::uint32_t first_member = program_->member_begin[rendezvous];
  const OpShape& shape = graph.shapes[graph.tasks[tasks[0]].shape];
  const ProfilerRange range(shape.op);
  const auto members = std::span<const MemberBuffers>(members_).subspan(first_member, tasks.size());
  Meet(tasks, first_member, arrived_);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    LaneStream& lane = StreamOf(tasks[i]);
    UseGpuOf(tasks[i]);
    if (times_ != nullptr) Check(times_->Start(tasks[i], lane.stream), "cudaEventRecord", tasks[i]);
    Check(RunGroupPart(shape, shape.dims[0], members, i, lane.stream), Name(shape.op), tasks[i]);
    lane.follows = kNone;
    lane.launched_end = tasks[i] + 1;
  }
  // Until then a member's operands are read and written by the others.
  Meet(tasks, first_member, done_);
  if (times_ == nullptr) return;
  for (const TaskId id : tasks) Check(times_->End(id, StreamOf(id).stream), "cudaEventRecord", id);
}

void CudaBackend::ExchangeByNccl(RendezvousId rendezvous) {
  const TaskGraph& graph = *program_->graph;
  const std::span<const TaskId> tasks = program_->Members(rendezvous);
  const std::uint32_t first_member = program_->member_begin[rendezvous];
  const OpShape& shape = graph.shapes[graph.tasks[tasks[0]].shape];
  const ProfilerRange range(shape.op);
  // Times are recorded in one process only, which has all members.
  if (times_ != nullptr) Meet(tasks, first_member, arrived_);
  own_members_.clear();
  own_streams_.clear();
  TaskId own = tasks[0];
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (!IsOwnTask(tasks[i])) continue;
    own = tasks[i];
    LaneStream& lane = StreamOf(own);
    own_members_.push_back(members_[first_member + i]);
    own_streams_.push_back(lane.stream);
    lane.follows = kNone;
    lane.launched_end = own + 1;
    if (times_ != nullptr) Check(times_->Start(own, lane.stream), "cudaEventRecord", own);
  }
  Check(group_of_rendezvous_[rendezvous]->Run(shape, shape.dims[0], own_members_, own_streams_),
        own);
  if (times_ == nullptr) return;
  for (const TaskId id : tasks) Check(times_->End(id, StreamOf(id).stream), "cudaEventRecord", id);
}

}  // namespace twinstep::cuda
