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
                                 std::optional<std::uint64_t> /*shuffle_seed*/) {
  step_ = step;
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
  for (LaneStream& lane : lanes_) lane.follows = kNone;
  if (times_ == nullptr) return;
  for (const Gpu& gpu : gpus_) {
    Check(times_->BeginIteration(gpu.device, gpu.control), "cudaEventRecord", 0);
  }
}

void CudaBackend::RecordStart(TaskId id) {
  if (times_ == nullptr) return;
  const LaneStream& lane = StreamOf(id);
  if (lane.follows == kNone) {
    Check(times_->Start(id, lane.stream), "cudaEventRecord", id);
  } else {
    times_->StartAtEndOf(lane.follows, id);
  }
}

void CudaBackend::RecordEnd(TaskId id) {
  if (times_ == nullptr) return;
  LaneStream& lane = StreamOf(id);
  Check(times_->End(id, lane.stream), "cudaEventRecord", id);
  lane.follows = id;
}

void CudaBackend::Record(EventId event, TaskId task) {
  if (!IsOwnTask(task)) return;
  Check(cudaEventRecord(events_[event], StreamOf(task).stream), "cudaEventRecord", task);
}

void CudaBackend::Wait(EventId event, TaskId task) {
  if (!IsOwnTask(task)) return;
  LaneStream& lane = StreamOf(task);
  Check(cudaStreamWaitEvent(lane.stream, events_[event]), "cudaStreamWaitEvent", task);
  lane.follows = kNone;
}

Outcome CudaBackend::Synchronize(double stall_limit_s) {
  using Clock = std::chrono::steady_clock;
  if (error_.has_value()) return Outcome::kFailed;
  std::vector<const LaneStream*> running;
  for (const LaneStream& lane : lanes_) {
    if (lane.stream == nullptr) continue;
    Check(cudaEventRecord(lane.end, lane.stream), "cudaEventRecord", 0);
    running.push_back(&lane);
  }
  // Progress is what the lanes' ends and events show.
  const auto finished = [this] {
    return std::count_if(events_.begin(), events_.end(), [](cudaEvent_t event) {
      return event != nullptr && cudaEventQuery(event) == cudaSuccess;
    });
  };
  auto last_progress = Clock::now();
  auto last_look = last_progress;
  std::int64_t progress = 0;
  while (!running.empty() && !error_.has_value()) {
    const cudaError_t code = cudaEventQuery(running.back()->end);
    if (code == cudaSuccess) {
      running.pop_back();
      last_progress = Clock::now();
      continue;
    }
    if (code != cudaErrorNotReady) {
      Check(code, "iteration", 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    const auto now = Clock::now();
    if (now - last_look < kLookInterval) continue;
    last_look = now;
    if (const Status others = CheckOthers(); !others.ok()) error_ = others.error();
    if (const std::int64_t done = finished(); done != progress) {
      progress = done;
      last_progress = now;
    }
    if (std::chrono::duration<double>(now - last_progress).count() > stall_limit_s) {
      stalled_ = true;
      return Outcome::kStalled;
    }
  }
  return error_.has_value() ? Outcome::kFailed : Outcome::kDone;
}

TaskTime CudaBackend::Time(TaskId task) const {
  if (times_ == nullptr) return {};
  return {times_->StartNs(task), times_->EndNs(task)};
}

}  // namespace twinstep::cuda
