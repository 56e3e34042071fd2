// When tasks begin and end, by CUDA events: one behind each task, and one before it where its lane
// or the dispatcher has waited since the task before. Elsewhere a task begins when that one ends,
// so that what passes between them counts as the later one's.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sim/result.h"

namespace twinstep::cuda {

class TaskEvents {
 public:
  // The device that each task runs on.
  static Result<std::unique_ptr<TaskEvents>> Create(std::span<const int> device_of_task);
  TaskEvents(const TaskEvents&) = delete;
  TaskEvents& operator=(const TaskEvents&) = delete;
  ~TaskEvents();

  // On an idle stream of each device; devices' clocks then differ by the time between the calls.
  cudaError_t BeginIteration(int device, cudaStream_t stream) {
    return cudaEventRecord(begins_[static_cast<std::size_t>(device)], stream);
  }
  cudaError_t Start(std::size_t task, cudaStream_t stream) {
    start_of_[task] = starts_[task];
    return cudaEventRecord(starts_[task], stream);
  }
  void StartAtEndOf(std::size_t previous, std::size_t task) { start_of_[task] = ends_[previous]; }
  cudaError_t End(std::size_t task, cudaStream_t stream) {
    return cudaEventRecord(ends_[task], stream);
  }
  bool Ended(std::size_t task) const { return cudaEventQuery(ends_[task]) == cudaSuccess; }
  // Nanoseconds since the iteration began; the events' resolution is half a microsecond.
  std::int64_t StartNs(std::size_t task) const { return Since(task, start_of_[task]); }
  std::int64_t EndNs(std::size_t task) const { return Since(task, ends_[task]); }

 private:
  TaskEvents() = default;
  std::int64_t Since(std::size_t task, cudaEvent_t event) const;

  std::vector<int> device_of_task_;
  std::vector<cudaEvent_t> begins_;  // By device.
  std::vector<cudaEvent_t> starts_, ends_;
  std::vector<cudaEvent_t> start_of_;  // By task: its own or another task's end.
};

}  // namespace twinstep::cuda
