#include "exec/profile/gpu_measurement.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "exec/profile/probe_graph.h"
#include "tests/exec/profile/small_gpus.h"
#include "tests/exec/runtime/small_models.h"
#include "tests/exec/runtime/training_run.h"

namespace twinstep {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20, kGiB = std::int64_t{1} << 30;

// Of GPUs and hosts of so many bytes.
std::int64_t Footprint(std::int64_t gpus, std::int64_t gpu_bytes, std::int64_t host_bytes) {
  const Model model = SmallModel("llama", FP32);
  Cluster cluster = SmallGpus(gpus);
  cluster.mutable_gpu()->set_memory_bytes(gpu_bytes);
  const ResolvedPlan plan = ResolvePlan(model, cluster, SmallPlan(1, 1, 1, gpus), gpus).value();
  const std::vector<GpuPlan> plans = {{&cluster, &plan}};
  const GpuMeasureOptions options{.make_backend = {}, .host_memory_bytes = host_bytes};
  return GpuMeasurement(model, plans, options).CopyFootprintBytes();
}

TEST(GpuMeasurement, CopiesLeaveRoomOnSmallGpusAndHosts) {
  EXPECT_EQ(Footprint(1, 0, 0), ProbeGraph::kFootprintBytes);
  EXPECT_EQ(Footprint(2, 140 * kGiB, 256 * kGiB), ProbeGraph::kFootprintBytes);
  EXPECT_EQ(Footprint(1, 16 * kGiB, 8 * kGiB), 512 * kMiB);
  EXPECT_EQ(Footprint(1, 8 * kGiB, 0), 256 * kMiB);
  EXPECT_EQ(Footprint(1, 0, 4 * kGiB), 256 * kMiB);
  EXPECT_EQ(Footprint(4, 80 * kGiB, 16 * kGiB), 256 * kMiB);
}

}  // namespace
}  // namespace twinstep
