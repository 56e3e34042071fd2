// The backend that needs no GPU: any number of ranks in one process, their lanes served by a fixed
// pool of threads, their pools as separate arenas, so that H2D and D2H are real copies. It is the
// reference for correctness: the same bits for any number of threads and any dispatch order.
//
//   CpuBackend backend({.threads = 2});
//
// Work begins when Synchronize is called.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "exec/cpu/access_monitor.h"
#include "exec/cpu/group_operations.h"
#include "exec/cpu/kernel.h"
#include "exec/cpu/lane_scheduler.h"
#include "exec/runtime/backend.h"

namespace twinstep {

struct CpuBackendOptions {
  int threads = 0;  // 0 = one for each core.
  // Checks accesses and fills dead bytes with NaN (exec/cpu/access_monitor.h).
  bool poison = false;
  // What computes a task in place of RunKernel, for tests.
  std::function<void(TaskId task, const KernelCall& call)> kernel = {};
};

class CpuBackend : public Backend, private LaneWorker {
 public:
  explicit CpuBackend(const CpuBackendOptions& options);
  ~CpuBackend() override;

  const char* name() const override { return "cpu"; }
  Status Prepare(std::shared_ptr<const Program> program) override;
  void Write(BufferId buffer, std::int64_t offset, std::span<const std::byte> bytes) override;
  void Read(BufferId buffer, std::int64_t offset, std::span<std::byte> bytes) const override;
  void BeginIteration(const StepValues& step, std::optional<std::uint64_t> shuffle_seed,
                      double stall_limit_s) override;
  void Launch(TaskId task) override;
  void Exchange(RendezvousId rendezvous) override;
  void Record(EventId event, TaskId task) override;
  void Wait(EventId event, TaskId task) override;
  Outcome Synchronize() override;
  Error error() const override;
  bool Finished(TaskId task) const override;
  TaskTime Time(TaskId task) const override { return times_[task]; }

  // Poison mode: bytes up to the last one that was ever touched, by rank and pool.
  std::vector<std::array<std::int64_t, kPoolCount>> touched_bytes() const;

 private:
  struct FreeArena {
    void operator()(std::byte* arena) const;
  };
  using Arena = std::unique_ptr<std::byte[], FreeArena>;

  void StartThread(std::size_t thread) override;
  bool Run(std::uint32_t task, std::size_t thread) override;
  bool Meet(std::uint32_t rendezvous, std::size_t thread) override;

  std::optional<Error> Allocate();
  void BindOperands();
  void MakeScheduler();
  std::byte* Address(BufferId buffer) const;
  std::size_t LaneOf(TaskId task) const;
  std::int64_t Now() const;

  CpuBackendOptions options_;
  std::shared_ptr<const Program> program_;
  std::vector<std::array<Arena, kPoolCount>> arenas_;  // By rank.
  std::vector<std::byte*> operands_;                   // By TaskGraph::operands.
  std::vector<MemberBuffers> members_;                 // By Program::members.
  std::vector<std::vector<const std::byte*>> parts_;   // Scratch of each thread.
  StepValues step_;
  std::optional<std::uint64_t> shuffle_seed_;
  double stall_limit_s_ = 0;
  std::int64_t begin_ns_ = 0;
  std::vector<TaskTime> times_;
  std::unique_ptr<std::atomic<bool>[]> finished_;  // By task.
  std::unique_ptr<AccessMonitor> monitor_;
  std::unique_ptr<LaneScheduler> scheduler_;  // Last: its threads use the others.
};

}  // namespace twinstep
