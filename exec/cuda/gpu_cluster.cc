#include "exec/cuda/gpu_cluster.h"

#include "exec/cuda/cuda_device.h"

namespace twinstep {

Status DescribeGpu(const Recipe& recipe, bool deterministic, Cluster* cluster) {
  const Result<CudaDevice> device = DescribeCudaDevice(0);
  if (!device.ok()) return device.error();
  Gpu* const gpu = cluster->mutable_gpu();
  gpu->set_name(device.value().name);
  gpu->set_memory_bytes(device.value().memory_bytes);
  gpu->set_streaming_multiprocessors(device.value().multiprocessors);
  gpu->set_l2_bytes(device.value().l2_bytes);
  const bool half = recipe.precision() != FP32 && recipe.precision() != FP64;
  gpu->set_attention_backward_fp32_dq(half && !deterministic);
  return Unit{};
}

}  // namespace twinstep
