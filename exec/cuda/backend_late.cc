// Lanes of copies and of host tasks, whose tasks a thread of each GPU launches late.

#include <chrono>
#include <utility>

#include "exec/cuda/cuda_backend.h"
#include "exec/cuda/cuda_error.h"

namespace twinstep::cuda {

Status CudaBackend::MakeLateLanes() {
  if (!options_.late_lanes) return Unit{};
  const TaskGraph& graph = *program_->graph;
  LateLanes::Sizes sizes{.lane_commands = std::vector<std::size_t>(lanes_.size(), 0),
                         .thread_of_lane = std::vector<std::size_t>(lanes_.size(), 0),
                         .events = events_.size()};
  // A lane is late if all of its tasks may be: those of a rendezvous are launched together.
  std::vector<bool> has_others(lanes_.size(), false);
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    if (!IsOwnTask(id)) continue;
    const Task& task = graph.tasks[id];
    const std::size_t lane = LaneOf(id);
    const bool may_be = task.kind == TaskKind::kHost || IsCopy(graph.shapes[task.shape].op);
    if (!may_be || task.rendezvous != kNone) has_others[lane] = true;
    sizes.thread_of_lane[lane] = gpu_of_rank_[task.rank];
    sizes.lane_commands[lane] +=
        program_->Waits(id).size() + 1 + (program_->event[id] != kNone ? 1 : 0);
  }
  bool is_any_late = false;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    lanes_[lane].is_late = sizes.lane_commands[lane] > 0 && !has_others[lane];
    if (!lanes_[lane].is_late) sizes.lane_commands[lane] = 0;
    is_any_late = is_any_late || lanes_[lane].is_late;
  }
  if (is_any_late) late_ = std::make_unique<LateLanes>(sizes, static_cast<LateDevice*>(this));
  return Unit{};
}

bool CudaBackend::AwaitRecorded(EventId event) {
  using std::chrono::steady_clock;
  if (late_ == nullptr) return true;
  LateLanes::State state = late_->AwaitRecorded(event, std::chrono::nanoseconds(0));
  if (state == LateLanes::State::kNotYet) {
    // What is launched next may begin long after the task before it on its lane has ended.
    for (LaneStream& lane : lanes_) {
      if (!lane.is_late) lane.follows = kNone;
    }
    last_progress_ = steady_clock::now();
    do {
      state = late_->AwaitRecorded(event, kLookInterval);
    } while (state == LateLanes::State::kNotYet && GoesOn());
  }
  if (state == LateLanes::State::kFailed) TakeLateFailure();
  return !HasEnded();
}

bool CudaBackend::AwaitLateLanes() {
  if (late_ == nullptr) return !HasEnded();
  last_progress_ = std::chrono::steady_clock::now();
  LateLanes::State state = LateLanes::State::kNotYet;
  while (!HasEnded() && state == LateLanes::State::kNotYet) {
    state = late_->AwaitDrained(kLookInterval);
    if (state == LateLanes::State::kNotYet) GoesOn();
  }
  if (state == LateLanes::State::kFailed) TakeLateFailure();
  if (HasEnded()) late_->Stop();  // What has been launched is final.
  return !HasEnded();
}

void CudaBackend::TakeLateFailure() {
  const std::optional<LateLanes::Failure> failure = late_->failure();
  if (!failure.has_value() || error_.has_value()) return;
  if (failure->task == kNone) {
    error_ = failure->error;
  } else {
    Check(Status(failure->error), failure->task);
  }
}

Status CudaBackend::StartThread(std::size_t gpu) {
  return CudaCall(cudaSetDevice(gpus_[gpu].device), "cudaSetDevice");
}

Result<bool> CudaBackend::Happened(EventId event) {
  const cudaError_t code = cudaEventQuery(events_[event]);
  if (code == cudaErrorNotReady) return false;
  if (const Status sound = CudaCall(code, "cudaEventQuery"); !sound.ok()) return sound.error();
  return true;
}

Status CudaBackend::RecordNow(EventId event, TaskId task) {
  return CudaCall(cudaEventRecord(events_[event], StreamOf(task).stream), "cudaEventRecord");
}

}  // namespace twinstep::cuda
