#include "exec/cpu/cpu_backend.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "exec/cpu/task_call.h"
#include "exec/runtime/operand_addresses.h"
#include "sim/hardware_threads.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

// Pages, so that arenas share no cache line and huge pages are possible.
constexpr std::size_t kArenaAlignment = 4096;

std::int64_t ClockNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

void CpuBackend::FreeArena::operator()(std::byte* arena) const { std::free(arena); }

CpuBackend::CpuBackend(const CpuBackendOptions& options) : options_(options) {
  if (options_.threads <= 0) {
    options_.threads = HardwareThreads();
  }
  if (!options_.kernel) options_.kernel = [](TaskId, const KernelCall& call) { RunKernel(call); };
}

CpuBackend::~CpuBackend() = default;

Status CpuBackend::Prepare(std::shared_ptr<const Program> program) {
  program_ = std::move(program);
  const TaskGraph& graph = *program_->graph;
  if (std::optional<Error> error = Allocate()) return *std::move(error);
  BindOperands();
  times_.resize(graph.tasks.size());
  finished_ = std::make_unique<std::atomic<bool>[]>(graph.tasks.size());
  if (options_.poison) {
    AccessMonitor::ArenaBases bases(arenas_.size());
    for (std::size_t rank = 0; rank < arenas_.size(); ++rank) {
      for (std::size_t pool = 0; pool < kPoolCount; ++pool) {
        bases[rank][pool] = arenas_[rank][pool].get();
      }
    }
    monitor_ = std::make_unique<AccessMonitor>(graph, *program_->arena, std::move(bases));
  }
  MakeScheduler();
  return Unit{};
}

std::optional<Error> CpuBackend::Allocate() {
  const TaskGraph& graph = *program_->graph;
  arenas_.resize(graph.ranks.size());
  for (std::size_t rank = 0; rank < arenas_.size(); ++rank) {
    for (std::size_t pool = 0; pool < kPoolCount; ++pool) {
      const auto bytes = static_cast<std::size_t>(program_->arena->arena_bytes[rank][pool]);
      if (bytes == 0) continue;
      const std::size_t rounded = (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
      auto* const arena = static_cast<std::byte*>(std::aligned_alloc(kArenaAlignment, rounded));
      if (arena == nullptr) {
        const std::uint32_t global_rank = graph.ranks[rank].global_rank;
        const char* const name = Name(static_cast<Pool>(pool));
        return Error{.code = ExitCode::kNo,
                     .message = StrCat("out of memory: ", bytes, " bytes for rank ", global_rank,
                                       "'s arena of pool ", name),
                     .rule = "arena-memory",
                     .rank = global_rank,
                     .pool = name,
                     .excess_bytes = static_cast<std::int64_t>(bytes)};
      }
      arenas_[rank][pool].reset(arena);
      std::memset(arena, 0, rounded);
    }
  }
  return std::nullopt;
}

std::byte* CpuBackend::Address(BufferId buffer) const {
  const Buffer& x = program_->graph->buffers[buffer];
  return arenas_[x.rank][static_cast<std::size_t>(x.pool)].get() + program_->arena->offset[buffer];
}

void CpuBackend::BindOperands() {
  operands_ =
      OperandAddresses(*program_->graph, [this](BufferId buffer) { return Address(buffer); });
  members_ = MemberAddresses(*program_, operands_);
}

void CpuBackend::MakeScheduler() {
  const TaskGraph& graph = *program_->graph;
  LaneScheduler::Sizes sizes;
  sizes.threads = options_.threads;
  sizes.events = program_->event_count;
  sizes.lane_commands.assign(graph.ranks.size() * kLaneCount, 0);
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    sizes.lane_commands[LaneOf(id)] +=
        1 + program_->Waits(id).size() + (program_->event[id] == kNone ? 0 : 1);
  }
  std::size_t largest = 0;
  for (RendezvousId id = 0; id < graph.rendezvous.size(); ++id) {
    const std::size_t members = program_->Members(id).size();
    sizes.meeting_members.push_back(static_cast<std::uint32_t>(members));
    largest = std::max(largest, members);
  }
  parts_.resize(static_cast<std::size_t>(options_.threads));
  for (std::vector<const std::byte*>& parts : parts_) parts.reserve(largest);
  scheduler_ = std::make_unique<LaneScheduler>(std::move(sizes), static_cast<LaneWorker*>(this));
}

void CpuBackend::Write(BufferId buffer, std::int64_t offset, std::span<const std::byte> bytes) {
  std::memcpy(Address(buffer) + offset, bytes.data(), bytes.size());
}

void CpuBackend::Read(BufferId buffer, std::int64_t offset, std::span<std::byte> bytes) const {
  std::memcpy(bytes.data(), Address(buffer) + offset, bytes.size());
}

std::size_t CpuBackend::LaneOf(TaskId id) const {
  const Task& task = program_->graph->tasks[id];
  return task.rank * std::size_t{kLaneCount} + static_cast<std::size_t>(task.lane);
}

std::int64_t CpuBackend::Now() const { return ClockNs() - begin_ns_; }

void CpuBackend::BeginIteration(const StepValues& step, std::optional<std::uint64_t> shuffle_seed,
                                double stall_limit_s) {
  step_ = step;
  shuffle_seed_ = shuffle_seed;
  stall_limit_s_ = stall_limit_s;
  for (TaskId id = 0; id < program_->graph->TaskCount(); ++id) {
    finished_[id].store(false, std::memory_order_relaxed);
  }
  if (monitor_ != nullptr) monitor_->BeginIteration();
}

void CpuBackend::Launch(TaskId task) { scheduler_->Push(LaneOf(task), {LaneCommand::kRun, task}); }

void CpuBackend::Exchange(RendezvousId rendezvous) {
  for (const TaskId id : program_->Members(rendezvous)) {
    scheduler_->Push(LaneOf(id), {LaneCommand::kMeet, rendezvous});
  }
}

void CpuBackend::Record(EventId event, TaskId task) {
  scheduler_->Push(LaneOf(task), {LaneCommand::kRecord, event});
}

void CpuBackend::Wait(EventId event, TaskId task) {
  scheduler_->Push(LaneOf(task), {LaneCommand::kWait, event, scheduler_->Rounds(event)});
}

Outcome CpuBackend::Synchronize() {
  begin_ns_ = ClockNs();
  return scheduler_->Drain(shuffle_seed_, stall_limit_s_);
}

Error CpuBackend::error() const {
  return {.code = ExitCode::kInternal,
          .message = monitor_ == nullptr ? std::string() : monitor_->violation(),
          .rule = "poison"};
}

bool CpuBackend::Finished(TaskId task) const {
  return finished_[task].load(std::memory_order_acquire);
}

std::vector<std::array<std::int64_t, kPoolCount>> CpuBackend::touched_bytes() const {
  if (monitor_ == nullptr) return {};
  return monitor_->touched_bytes();
}

void CpuBackend::StartThread(std::size_t /*thread*/) { ReserveScratch(program_->graph->shapes); }

bool CpuBackend::Run(std::uint32_t id, std::size_t /*thread*/) {
  const TaskGraph& graph = *program_->graph;
  const Task& task = graph.tasks[id];
  const OpShape& shape = graph.shapes[task.shape];
  if (monitor_ != nullptr && !monitor_->Start(id)) return false;
  times_[id].start_ns = Now();
  if (IsCopy(shape.op)) {
    std::byte* const* operands = operands_.data() + task.operand_begin;
    std::memcpy(operands[1], operands[0], static_cast<std::size_t>(shape.dims[0]));
  } else {
    options_.kernel(id, CpuCallOf(*program_, id, operands_, step_));
  }
  times_[id].end_ns = Now();
  finished_[id].store(true, std::memory_order_release);
  return monitor_ == nullptr || monitor_->End(id);
}

bool CpuBackend::Meet(std::uint32_t rendezvous, std::size_t thread) {
  const TaskGraph& graph = *program_->graph;
  const std::span<const TaskId> tasks = program_->Members(rendezvous);
  if (monitor_ != nullptr) {
    for (const TaskId id : tasks) {
      if (!monitor_->Start(id)) return false;
    }
  }
  const std::int64_t start_ns = Now();
  const OpShape& shape = graph.shapes[graph.tasks[tasks[0]].shape];
  RunGroupOperation(shape, shape.dims[0],
                    std::span<const MemberBuffers>(members_).subspan(
                        program_->member_begin[rendezvous], tasks.size()),
                    &parts_[thread]);
  const std::int64_t end_ns = Now();
  for (const TaskId id : tasks) {
    times_[id] = {start_ns, end_ns};
    finished_[id].store(true, std::memory_order_release);
    if (monitor_ != nullptr && !monitor_->End(id)) return false;
  }
  return true;
}

}  // namespace twinstep
