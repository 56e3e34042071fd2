// Lanes as streams, edges as events: an iteration begins, waits, ends, and when tasks ran.

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "exec/cuda/cuda_backend.h"
#include "exec/cuda/cuda_error.h"

namespace twinstep::cuda {

Status CudaBackend::MakeLanes() {
  const TaskGraph& graph = *program_->graph;
  lanes_.resize(graph.ranks.size() * kLaneCount);
  events_.resize(program_->event_count, nullptr);
  arrived_.resize(program_->members.size(), nullptr);
  done_.resize(program_->members.size(), nullptr);
  // An event belongs to the GPU that is current when it is made.
  const auto make_event = [](cudaEvent_t* event) {
    return CudaCall(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "cudaEventCreate");
  };
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    if (!IsOwnTask(id)) continue;
    Status made = UseGpuOfRank(graph.tasks[id].rank);
    LaneStream& lane = StreamOf(id);
    if (made.ok() && lane.stream == nullptr) {
      made = CudaCall(cudaStreamCreateWithFlags(&lane.stream, cudaStreamNonBlocking),
                      "cudaStreamCreate");
      if (made.ok()) made = make_event(&lane.end);
    }
    if (made.ok() && program_->event[id] != kNone) made = make_event(&events_[program_->event[id]]);
    if (!made.ok()) return made;
  }
  for (std::size_t i = 0; i < program_->members.size(); ++i) {
    if (!IsOwnTask(program_->members[i])) continue;
    Status made = UseGpuOfRank(graph.tasks[program_->members[i]].rank);
    if (made.ok()) made = make_event(&arrived_[i]);
    if (made.ok()) made = make_event(&done_[i]);
    if (!made.ok()) return made;
  }
  return Unit{};
}

Status CudaBackend::MakeTimes() {
  if (!options_.record_times) return Unit{};
  std::vector<int> device_of_task;
  for (TaskId id = 0; id < program_->graph->TaskCount(); ++id) {
    device_of_task.push_back(GpuOf(id).device);
  }
  Result<std::unique_ptr<TaskEvents>> times = TaskEvents::Create(device_of_task);
  if (!times.ok()) return times.error();
  times_ = std::move(times).value();
  return Unit{};
}

std::size_t CudaBackend::LaneOf(TaskId id) const {
  const Task& task = program_->graph->tasks[id];
  return task.rank * std::size_t{kLaneCount} + static_cast<std::size_t>(task.lane);
}

void CudaBackend::BeginIteration(const StepValues& step,
                                 std::optional<std::uint64_t> /*shuffle_seed*/,
                                 double stall_limit_s) {
  step_ = step;
  stall_limit_s_ = stall_limit_s;
  const DeviceStep values = MakeDeviceStep(step);
  std::memcpy(staged_step_.get(), &values, sizeof values);
  for (const Gpu& gpu : gpus_) {
    Check(cudaSetDevice(gpu.device), "cudaSetDevice", 0);
    Check(cudaMemcpyAsync(gpu.step.get(), staged_step_.get(), sizeof values, cudaMemcpyHostToDevice,
                          gpu.control),
          "values of the step", 0);
  }
  // No lane waits for these copies, nor for those of Write, so they must be done.
  for (const Gpu& gpu : gpus_) {
    Check(cudaSetDevice(gpu.device), "cudaSetDevice", 0);
    Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize", 0);
  }
  for (LaneStream& lane : lanes_) {
    lane.follows = kNone;
    lane.launched_end = 0;
  }
  if (late_ != nullptr) late_->BeginIteration();
  if (times_ == nullptr) return;
  for (const Gpu& gpu : gpus_) {
    Check(times_->BeginIteration(gpu.device, gpu.control), "cudaEventRecord", 0);
  }
}

Status CudaBackend::RecordStart(TaskId id) {
  if (times_ == nullptr) return Unit{};
  const LaneStream& lane = StreamOf(id);
  // A late lane may have been idle since.
  if (lane.follows == kNone || lane.is_late) {
    return CudaCall(times_->Start(id, lane.stream), "cudaEventRecord");
  }
  times_->StartAtEndOf(lane.follows, id);
  return Unit{};
}

Status CudaBackend::RecordEnd(TaskId id) {
  if (times_ == nullptr) return Unit{};
  LaneStream& lane = StreamOf(id);
  lane.follows = id;
  return CudaCall(times_->End(id, lane.stream), "cudaEventRecord");
}

void CudaBackend::Record(EventId event, TaskId task) {
  if (!IsOwnTask(task) || HasEnded()) return;
  if (IsLate(task)) return late_->Record(LaneOf(task), event, task);
  Check(RecordNow(event, task), task);
}

void CudaBackend::Wait(EventId event, TaskId task) {
  if (!IsOwnTask(task) || HasEnded()) return;
  if (IsLate(task)) return late_->Wait(LaneOf(task), event, task);
  if (!AwaitRecorded(event)) return;
  LaneStream& lane = StreamOf(task);
  Check(cudaStreamWaitEvent(lane.stream, events_[event]), "cudaStreamWaitEvent", task);
  lane.follows = kNone;
}

bool CudaBackend::GoesOn() {
  if (const Status others = CheckOthers(); !others.ok()) error_ = others.error();
  // Progress is what the events show, and how far late lanes are.
  std::int64_t finished = std::count_if(events_.begin(), events_.end(), [](cudaEvent_t event) {
    return event != nullptr && cudaEventQuery(event) == cudaSuccess;
  });
  if (late_ != nullptr) finished += static_cast<std::int64_t>(late_->commands_done());
  const auto now = std::chrono::steady_clock::now();
  if (finished != finished_) {
    finished_ = finished;
    last_progress_ = now;
  }
  stalled_ = std::chrono::duration<double>(now - last_progress_).count() > stall_limit_s_;
  return !HasEnded();
}

Outcome CudaBackend::Synchronize() {
  using Clock = std::chrono::steady_clock;
  const bool launched = AwaitLateLanes();
  if (error_.has_value()) return Outcome::kFailed;
  std::vector<const LaneStream*> running;
  for (const LaneStream& lane : lanes_) {
    if (lane.stream == nullptr) continue;
    Check(cudaEventRecord(lane.end, lane.stream), "cudaEventRecord", 0);
    running.push_back(&lane);
  }
  if (!launched) return Outcome::kStalled;
  last_progress_ = Clock::now();
  auto last_look = last_progress_;
  while (!running.empty() && !HasEnded()) {
    const cudaError_t code = cudaEventQuery(running.back()->end);
    if (code == cudaSuccess) {
      running.pop_back();
      last_progress_ = Clock::now();
      continue;
    }
    if (code != cudaErrorNotReady) {
      Check(code, "iteration", 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    if (Clock::now() - last_look < kLookInterval) continue;
    last_look = Clock::now();
    if (!GoesOn()) break;
  }
  if (error_.has_value()) return Outcome::kFailed;
  return stalled_ ? Outcome::kStalled : Outcome::kDone;
}

TaskTime CudaBackend::Time(TaskId task) const {
  if (times_ == nullptr) return {};
  return {times_->StartNs(task), times_->EndNs(task)};
}

}  // namespace twinstep::cuda
