// When tasks begin and end, by CUDA events: one behind each task, and one before it where its lane
// has waited since the task before. Elsewhere a task begins when that one ends, so that what passes
// between them counts as the later one's.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "sim/result.h"

namespace twinstep::cuda {

class TaskEvents {
 public:
  static Result<std::unique_ptr<TaskEvents>> Create(std::size_t tasks);
  TaskEvents(const TaskEvents&) = delete;
  TaskEvents& operator=(const TaskEvents&) = delete;
  ~TaskEvents();

  cudaError_t BeginIteration(cudaStream_t stream) { return cudaEventRecord(begin_, stream); }
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
  std::int64_t StartNs(std::size_t task) const { return Since(start_of_[task]); }
  std::int64_t EndNs(std::size_t task) const { return Since(ends_[task]); }

 private:
  TaskEvents() = default;
  std::int64_t Since(cudaEvent_t event) const;

  cudaEvent_t begin_ = nullptr;
  std::vector<cudaEvent_t> starts_, ends_;
  std::vector<cudaEvent_t> start_of_;  // By task: its own or another task's end.
};

}  // namespace twinstep::cuda
