#include "exec/cuda/task_events.h"

#include <algorithm>
#include <cmath>

#include "exec/cuda/cuda_error.h"

namespace twinstep::cuda {

Result<std::unique_ptr<TaskEvents>> TaskEvents::Create(std::size_t tasks) {
  std::unique_ptr<TaskEvents> result(new TaskEvents());
  result->starts_.resize(tasks, nullptr);
  result->ends_.resize(tasks, nullptr);
  result->start_of_.resize(tasks, nullptr);
  std::vector<cudaEvent_t*> all{&result->begin_};
  for (std::size_t i = 0; i < tasks; ++i) {
    all.push_back(&result->starts_[i]);
    all.push_back(&result->ends_[i]);
  }
  for (cudaEvent_t* event : all) {
    const Status made = CudaCall(cudaEventCreate(event), "cudaEventCreate");
    if (!made.ok()) return made.error();
  }
  return result;
}

TaskEvents::~TaskEvents() {
  if (begin_ != nullptr) cudaEventDestroy(begin_);
  for (const std::vector<cudaEvent_t>& events : {starts_, ends_}) {
    for (cudaEvent_t event : events) {
      if (event != nullptr) cudaEventDestroy(event);
    }
  }
}

std::int64_t TaskEvents::Since(cudaEvent_t event) const {
  float milliseconds = 0;
  if (cudaEventElapsedTime(&milliseconds, begin_, event) != cudaSuccess) return 0;
  return std::max<std::int64_t>(0, std::llround(static_cast<double>(milliseconds) * 1e6));
}

}  // namespace twinstep::cuda
