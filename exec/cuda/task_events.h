// When tasks begin and end, by pairs of CUDA events.
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
    return cudaEventRecord(starts_[task], stream);
  }
  cudaError_t End(std::size_t task, cudaStream_t stream) {
    return cudaEventRecord(ends_[task], stream);
  }
  bool Ended(std::size_t task) const { return cudaEventQuery(ends_[task]) == cudaSuccess; }
  // Nanoseconds since the iteration began; the events' resolution is half a microsecond.
  std::int64_t StartNs(std::size_t task) const { return Since(starts_[task]); }
  std::int64_t EndNs(std::size_t task) const { return Since(ends_[task]); }

 private:
  TaskEvents() = default;
  std::int64_t Since(cudaEvent_t event) const;

  cudaEvent_t begin_ = nullptr;
  std::vector<cudaEvent_t> starts_, ends_;
};

}  // namespace twinstep::cuda
