// Lanes of copies and of host tasks, whose tasks a thread of each GPU launches late.

#include <sys/prctl.h>

#include <chrono>

#include "exec/cuda/cuda_backend.h"
#include "exec/cuda/cuda_error.h"
#include "exec/cuda/late_plan.h"

namespace twinstep::cuda {

Status CudaBackend::MakeLateLanes() {
  if (!options_.late_lanes.value_or(!RendezvousWaitForCopies(*program_->graph))) return Unit{};
  const LateLanes::Sizes sizes = PlanLateLanes(*program_, ranks_, gpu_of_rank_);
  bool is_any_late = false;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    lanes_[lane].is_late = sizes.lane_commands[lane] > 0;
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
  // Linux lets a sleep last 50 us longer by default, which each step of a chain of copies would
  // pay. Where the system refuses, it is only later.
  prctl(PR_SET_TIMERSLACK, 1000UL);
  return CudaCall(cudaSetDevice(gpus_[gpu].device), "cudaSetDevice");
}

Result<bool> CudaBackend::Happened(EventId event) {
  const cudaError_t code = cudaEventQuery(events_[event]);
  if (code == cudaErrorNotReady) return false;
  // The error may be of any kernel before it.
  const Status sound = CudaCall(code, "cudaEventQuery, of what this task waits for");
  if (!sound.ok()) return sound.error();
  return true;
}

Status CudaBackend::RecordNow(EventId event, TaskId task) {
  return CudaCall(cudaEventRecord(events_[event], StreamOf(task).stream), "cudaEventRecord");
}

}  // namespace twinstep::cuda
