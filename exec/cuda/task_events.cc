#include "exec/cuda/task_events.h"

#include <algorithm>
#include <cmath>

#include "exec/cuda/cuda_error.h"

namespace twinstep::cuda {

Result<std::unique_ptr<TaskEvents>> TaskEvents::Create(std::span<const int> device_of_task) {
  std::unique_ptr<TaskEvents> result(new TaskEvents());
  const std::size_t tasks = device_of_task.size();
  result->device_of_task_.assign(device_of_task.begin(), device_of_task.end());
  result->starts_.resize(tasks, nullptr);
  result->ends_.resize(tasks, nullptr);
  result->start_of_.resize(tasks, nullptr);
  for (std::size_t task = 0; task < tasks; ++task) {
    const auto device = static_cast<std::size_t>(device_of_task[task]);
    if (result->begins_.size() <= device) result->begins_.resize(device + 1, nullptr);
    cudaEvent_t& begin = result->begins_[device];
    Status made = CudaCall(cudaSetDevice(device_of_task[task]), "cudaSetDevice");
    for (cudaEvent_t* event : {&begin, &result->starts_[task], &result->ends_[task]}) {
      if (made.ok() && *event == nullptr)
        made = CudaCall(cudaEventCreate(event), "cudaEventCreate");
    }
    if (!made.ok()) return made.error();
  }
  return result;
}

TaskEvents::~TaskEvents() {
  for (const std::vector<cudaEvent_t>& events : {begins_, starts_, ends_}) {
    for (cudaEvent_t event : events) {
      if (event != nullptr) cudaEventDestroy(event);
    }
  }
}

std::int64_t TaskEvents::Since(std::size_t task, cudaEvent_t event) const {
  const cudaEvent_t begin = begins_[static_cast<std::size_t>(device_of_task_[task])];
  float milliseconds = 0;
  if (cudaEventElapsedTime(&milliseconds, begin, event) != cudaSuccess) return 0;
  return std::max<std::int64_t>(0, std::llround(static_cast<double>(milliseconds) * 1e6));
}

}  // namespace twinstep::cuda
