// The backend for speed: the ranks of a plan on the GPUs of this machine (placement.h). Lanes are
// streams, edges are events, and an iteration allocates nothing: a device arena and a pinned one a
// rank, as the arena pass placed them, and scratch of library kernels a lane
// (runtime_overhead_bytes, outside of the arenas).
//
//   Result<std::unique_ptr<Backend>> backend = MakeCudaBackend({.deterministic = true});
//
// GPUs reach each other's memory: collectives and messages among the ranks are copies and kernels,
// a part a member (group_operations.h), sums in group order. Groups that span several processes are
// NCCL's (nccl_group.h). Host tasks run on the CPU's cores, in the order of their stream. Copies
// and host tasks may be launched late, when what they wait for is done (CudaOptions::late_lanes).
//
// Of several processes each has the memory and runs the tasks of its own ranks; all are called
// alike, and Read gives all of them what one has.
//
// cuda_backend.cc makes it and its GPUs; backend_memory.cc, backend_streams.cc, backend_late.cc,
// backend_tasks.cc, backend_groups.cc and backend_processes.cc have the parts by which they are
// named.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "exec/cuda/cuda_options.h"
#include "exec/cuda/group_operations.h"
#include "exec/cuda/host_worker.h"
#include "exec/cuda/kernels/device_step.h"
#include "exec/cuda/late_lanes.h"
#include "exec/cuda/memory.h"
#include "exec/cuda/nccl_group.h"
#include "exec/cuda/operators.h"
#include "exec/cuda/task_events.h"
#include "exec/runtime/backend.h"

namespace twinstep::cuda {

class CudaBackend : public Backend, private LateDevice {
 public:
  // An Error if there is no GPU.
  static Result<std::unique_ptr<CudaBackend>> Create(const CudaOptions& options);
  ~CudaBackend() override;

  const char* name() const override { return "cuda"; }
  Status Prepare(std::shared_ptr<const Program> program) override;
  void Write(BufferId buffer, std::int64_t offset, std::span<const std::byte> bytes) override;
  void Read(BufferId buffer, std::int64_t offset, std::span<std::byte> bytes) const override;
  void WriteRepeated(BufferId buffer, std::int64_t offset, std::int64_t bytes,
                     std::span<const std::byte> block) override;
  // No lane has a choice: the seed changes nothing.
  void BeginIteration(const StepValues& step, std::optional<std::uint64_t> shuffle_seed,
                      double stall_limit_s) override;
  void Launch(TaskId task) override;
  void Exchange(RendezvousId rendezvous) override;
  void Record(EventId event, TaskId task) override;
  void Wait(EventId event, TaskId task) override;
  Outcome Synchronize() override;
  Error error() const override;
  bool Finished(TaskId task) const override;
  TaskTime Time(TaskId task) const override;
  std::optional<BackendMemory> Memory() const override;
  std::int64_t ScratchBytes(TaskId task) const override;

 private:
  explicit CudaBackend(const CudaOptions& options);

  // What ranks on the same GPU share.
  struct Gpu {
    int device = 0;
    Operators* operators = nullptr;      // The cache's.
    std::unique_ptr<HostWorker> worker;  // The driver calls host functions of a GPU one by one.
    cudaStream_t control = nullptr;
    DeviceMemory step;
  };
  // An in-order queue of one rank that has tasks.
  struct LaneStream {
    cudaStream_t stream = nullptr;
    cudaEvent_t end = nullptr;  // Of what was launched in this iteration.
    DeviceMemory scratch;
    std::size_t scratch_bytes = 0;
    bool is_late = false;
    TaskId launched_end = 0;  // Behind the last task launched in this iteration.
    // The task of this iteration that the next one follows at once; kNone if the lane waits first.
    TaskId follows = kNone;
  };
  struct HostCall {
    CudaBackend* backend;
    TaskId task;
  };

  // Through shared_ at a time.
  static constexpr std::size_t kSharedBytes = std::size_t{16} << 20;
  // Between looks at what may keep work from ending.
  static constexpr auto kLookInterval = std::chrono::seconds(1);

  // cuda_backend.cc
  Status MakeGpus();
  Status ConnectGpus();
  // A thread each, where it is the current one; the first one's error.
  Status OnEachGpu(const std::function<Status(Gpu&)>& work);
  const Gpu& GpuOf(TaskId task) const;
  // Makes the GPU of a task or rank the current one, which kernels and events need.
  void UseGpuOf(TaskId task);
  Status UseGpuOfRank(std::size_t rank) const;
  bool IsOwn(std::size_t rank) const { return rank >= ranks_.first && rank < ranks_.end; }
  bool IsOwnTask(TaskId task) const { return IsOwn(program_->graph->tasks[task].rank); }
  // After an error or a stall nothing more is launched.
  bool HasEnded() const { return stalled_ || error_.has_value(); }
  void Check(cudaError_t code, const char* what, TaskId task);
  void Check(const Status& status, TaskId task);

  // backend_memory.cc
  Status Allocate();
  Status AllocateArena(std::size_t rank, Pool pool);
  Status AllocateScratch();
  Status CheckMemoryLimit() const;
  Status ZeroArenas();
  std::byte* Address(BufferId buffer) const;
  BackendMemory MemoryOfRank(std::size_t rank) const;  // Arena and scratch.

  // backend_streams.cc
  Status MakeLanes();
  Status MakeTimes();
  std::size_t LaneOf(TaskId task) const;
  LaneStream& StreamOf(TaskId task) { return lanes_[LaneOf(task)]; }
  Status RecordStart(TaskId task);
  Status RecordEnd(TaskId task);
  // False once the iteration cannot go on: others have ended, or nothing has finished for too long.
  bool GoesOn();

  // backend_late.cc: late lanes, if there are any; the overrides are called by their threads.
  Status MakeLateLanes();
  bool IsLate(TaskId task) const { return lanes_[LaneOf(task)].is_late; }
  // Until streams can wait for the event; false if that never comes.
  bool AwaitRecorded(EventId event);
  bool AwaitLateLanes();  // All is launched.
  void TakeLateFailure();
  Status StartThread(std::size_t gpu) override;
  Result<bool> Happened(EventId event) override;
  Status LaunchNow(TaskId task) override;
  Status RecordNow(EventId event, TaskId task) override;

  // backend_tasks.cc
  void BindOperands();
  Status TuneOperators();
  KernelCall CallOf(TaskId task);
  KernelCall GemmCallOf(TaskId task, const std::byte** residual);
  void RunOnHost(TaskId task);
  Status LaunchOperator(TaskId task);

  // backend_groups.cc
  Status JoinGroups();
  // The lanes of the tasks, which are members of a rendezvous from `first_member` on, wait for the
  // events of all of them.
  void Meet(std::span<const TaskId> tasks, std::uint32_t first_member,
            const std::vector<cudaEvent_t>& events);
  void ExchangeByNccl(RendezvousId rendezvous);

  // backend_processes.cc
  Status ReadForAll(BufferId buffer, std::int64_t offset, std::span<std::byte> bytes) const;
  Status WaitFor(cudaStream_t stream) const;
  // An Error where another process has ended, or NCCL knows of one.
  Status CheckOthers() const;

  CudaOptions options_;
  int host_threads_;
  ProcessPlace place_;
  std::shared_ptr<const Program> program_;
  std::shared_ptr<OperatorCache> operators_;
  std::vector<Gpu> gpus_;
  RankRange ranks_;                       // Of this process.
  std::vector<std::size_t> gpu_of_rank_;  // Into gpus_; of own ranks.
  std::vector<std::unique_ptr<NcclGroup>> groups_;
  std::vector<NcclGroup*> group_of_rendezvous_;  // Null: not NCCL's.
  std::unique_ptr<NcclGroup> world_;             // A member a process, if there are several.
  DeviceMemory shared_;                          // Passes through world_, kSharedBytes.
  std::vector<MemberBuffers> own_members_;       // Scratch of ExchangeByNccl.
  std::vector<cudaStream_t> own_streams_;
  std::vector<DeviceMemory> device_arenas_;                      // By rank.
  std::vector<std::array<HostMemory, kPoolCount>> host_arenas_;  // By rank.
  std::vector<LaneStream> lanes_;                                // By rank and lane.
  std::vector<std::byte*> operands_;                             // By TaskGraph::operands.
  std::vector<MemberBuffers> members_;                           // By Program::members.
  FusedPairs pairs_;
  std::vector<HostCall> host_calls_;  // By task.
  std::vector<cudaEvent_t> events_;   // By EventId.
  // By Program::members: the member has come, its part is done.
  std::vector<cudaEvent_t> arrived_, done_;
  std::unique_ptr<TaskEvents> times_;  // If times are recorded.
  HostMemory staged_step_;             // Pinned.
  StepValues step_;
  mutable std::optional<Error> error_;  // The first one; of reading, too.
  bool stalled_ = false;
  double stall_limit_s_ = 0;
  // What had finished when last looked at, and when that was more than before.
  std::int64_t finished_ = 0;
  std::chrono::steady_clock::time_point last_progress_;
  std::unique_ptr<LateLanes> late_;  // Null: no lane is late.
};

}  // namespace twinstep::cuda
