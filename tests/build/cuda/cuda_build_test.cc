// The rules of third_party/cuda: a kernel compiles, links, and runs where there is a GPU.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/build/cuda/kernel.h"

namespace twinstep {
namespace {

TEST(CudaBuildTest, KernelRuns) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no GPU";
  constexpr int kElements = 1000;
  const std::vector<std::uint16_t> x(kElements, 0x3fc0);  // 1.5
  void* device_x = nullptr;
  float* device_y = nullptr;
  ASSERT_EQ(cudaMalloc(&device_x, kElements * sizeof(std::uint16_t)), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&device_y, kElements * sizeof(float)), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(device_x, x.data(), kElements * sizeof(std::uint16_t), cudaMemcpyDefault),
            cudaSuccess);
  ASSERT_EQ(LaunchTwice(device_x, device_y, kElements, nullptr), cudaSuccess);
  std::vector<float> y(kElements);
  ASSERT_EQ(cudaMemcpy(y.data(), device_y, kElements * sizeof(float), cudaMemcpyDefault),
            cudaSuccess);
  EXPECT_EQ(y, std::vector<float>(kElements, 3));
}

}  // namespace
}  // namespace twinstep
