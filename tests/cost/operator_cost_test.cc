// Closed forms and bounds of the roofline; against measured kernels: calibration_test.cc.
#include "sim/cost/operator_cost.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "tests/cost/test_clusters.h"

namespace twinstep {
namespace {

OpShape Shape(OpCode op, std::array<std::int64_t, 6> dims, Dtype dtype = Dtype::kBf16,
              std::uint16_t flags = 0) {
  return {.op = op, .dtype = dtype, .flags = flags, .dims = dims};
}

OpShape Cube(std::int64_t n) { return Shape(OpCode::kGemmForward, {n, n, n}); }

TEST(RooflineTest, PlainClusterIsFlopsOverPeakOrBytesOverBandwidth) {
  const OperatorRoofline roofline(PlainCluster(), 4);
  EXPECT_DOUBLE_EQ(roofline.Of(Cube(8192)).seconds, 2.0 * std::pow(8192.0, 3) / 100e12);
  // One row: the weights' bytes decide.
  EXPECT_DOUBLE_EQ(roofline.Of(Shape(OpCode::kGemmForward, {1, 8192, 8192})).seconds,
                   2.0 * (8192.0 * 8192 + 2 * 8192) / 1e12);
  EXPECT_DOUBLE_EQ(roofline.Of(Shape(OpCode::kMulForward, {1000, 1000})).seconds, 6e6 / 1e12);
  EXPECT_DOUBLE_EQ(roofline.Of(Shape(OpCode::kAttentionForward, {1, 2, 2, 512, 512, 64})).compute_s,
                   2.0 * 2 * 512 * 512 * 64 / 100e12);
}

TEST(RooflineTest, DtypesHaveTheirOwnPeaks) {
  const OperatorRoofline roofline(PlainCluster(), 4);
  const auto seconds = [&](Dtype dtype) {
    return roofline.Of(Shape(OpCode::kGemmForward, {4096, 4096, 4096}, dtype)).compute_s;
  };
  EXPECT_DOUBLE_EQ(seconds(Dtype::kFp16), seconds(Dtype::kBf16));
  EXPECT_DOUBLE_EQ(seconds(Dtype::kFp32), 10 * seconds(Dtype::kBf16));
  EXPECT_DOUBLE_EQ(seconds(Dtype::kFp64), 20 * seconds(Dtype::kBf16));
}

TEST(RooflineTest, LaunchAndHalfWorkAreAdded) {
  Cluster cluster = PlainCluster();
  cluster.mutable_gpu()->set_kernel_launch_s(3e-6);
  cluster.mutable_gpu()->mutable_memory_bound()->set_max_efficiency(0.5);
  cluster.mutable_gpu()->mutable_memory_bound()->set_half_work(1e6);
  // 6 MB and a start-up of 1 MB at half the bandwidth.
  EXPECT_DOUBLE_EQ(
      OperatorRoofline(cluster, 4).Of(Shape(OpCode::kMulForward, {1000, 1000})).seconds,
      3e-6 + 7e6 / 0.5e12);
}

TEST(RooflineTest, WaveQuantisation) {
  Cluster cluster = PlainCluster();
  Gpu& gpu = *cluster.mutable_gpu();
  gpu.set_streaming_multiprocessors(4);
  gpu.set_gemm_tile_m(128);
  gpu.set_gemm_tile_n(128);
  const OperatorRoofline roofline(cluster, 4);
  const auto waves = [&](std::int64_t tiles) {
    // Long k, so that compute decides; a wave is 4 tiles.
    const double wave = 2.0 * 128 * 128 * 4 * 65536 / 100e12;
    return roofline.Of(Shape(OpCode::kGemmForward, {128 * tiles, 128, 65536})).compute_s / wave;
  };
  EXPECT_DOUBLE_EQ(waves(4), 1);
  EXPECT_DOUBLE_EQ(waves(3), 1);
  EXPECT_DOUBLE_EQ(waves(5), 1.7);  // A quarter of a wave costs 0.7.
  EXPECT_DOUBLE_EQ(waves(7), 1.75);
  EXPECT_DOUBLE_EQ(waves(8), 2);
  // Tiles of 2 and 1 are split over k; their partial sums are a few per cent.
  EXPECT_NEAR(waves(2), 0.5, 0.02);
  EXPECT_NEAR(waves(1), 0.25, 0.02);
}

TEST(RooflineTest, TileEdgesAreWaste) {
  Cluster cluster = PlainCluster();
  Gpu& gpu = *cluster.mutable_gpu();
  gpu.set_streaming_multiprocessors(1);
  gpu.set_gemm_tile_m(128);
  gpu.set_gemm_tile_n(256);
  const OperatorRoofline roofline(cluster, 4);
  const auto seconds = [&](std::int64_t m, std::int64_t n) {
    return roofline.Of(Shape(OpCode::kGemmForward, {m, n, 8192})).compute_s;
  };
  EXPECT_DOUBLE_EQ(seconds(257, 256), 1.5 * seconds(256, 256));
  // The tile turns to the better side, and shrinks to a small matrix in steps of 64.
  EXPECT_DOUBLE_EQ(seconds(256, 128), seconds(128, 256));
  EXPECT_DOUBLE_EQ(seconds(128, 64), seconds(128, 256) / 4);
}

TEST(RooflineTest, TheThreeGemmsOfALayerTurnTheirDimensions) {
  const OperatorRoofline roofline(H200Node(), 2);
  const double forward = roofline.Of(Shape(OpCode::kGemmForward, {4096, 2048, 1024})).compute_s;
  EXPECT_DOUBLE_EQ(roofline.Of(Shape(OpCode::kGemmDgrad, {4096, 1024, 2048})).compute_s, forward);
  EXPECT_DOUBLE_EQ(roofline.Of(Shape(OpCode::kGemmWgrad, {1024, 4096, 2048})).compute_s, forward);
}

TEST(RooflineTest, SustainedRateIsAFractionOfTheBenchmarks) {
  Cluster cluster = PlainCluster();
  cluster.mutable_gpu()->set_sustained_fraction(0.8);
  EXPECT_DOUBLE_EQ(OperatorRoofline(cluster, 4).Of(Cube(8192)).compute_s,
                   OperatorRoofline(PlainCluster(), 4).Of(Cube(8192)).compute_s / 0.8);
}

TEST(RooflineTest, WideOutputsArePartlyWaitedFor) {
  Cluster cluster = PlainCluster();
  Gpu& gpu = *cluster.mutable_gpu();
  gpu.set_streaming_multiprocessors(4);
  gpu.set_gemm_tile_m(128);
  gpu.set_gemm_tile_n(128);
  const auto seconds = [&](int gradient_bytes, std::uint16_t flags) {
    const OpShape shape = Shape(OpCode::kGemmWgrad, {4096, 512, 128}, Dtype::kBf16, flags);
    return OperatorRoofline(cluster, gradient_bytes).Of(shape).compute_s;
  };
  // One wave of four tiles. Each SM has a quarter of 1 TB/s for its tile.
  const double tile = 128 * 128 / (1e12 / 4);
  EXPECT_NEAR(seconds(4, 0) - seconds(2, 0), 0.43 * 2 * tile, 1e-12);
  EXPECT_NEAR(seconds(4, kAccumulateGradient) - seconds(2, 0), 0.43 * 6 * tile, 1e-12);
}

TEST(RooflineTest, OddHeadSizesMissTheTensorCores) {
  const OperatorRoofline roofline(PlainCluster(), 4);
  const auto seconds = [&](std::int64_t head_dim) {
    return roofline.Of(Shape(OpCode::kAttentionScores, {1, 8, 8, 2048, 2048, head_dim})).compute_s;
  };
  EXPECT_DOUBLE_EQ(seconds(150), 10 * seconds(144) * 150 / 144);
}

TEST(RooflineTest, FrameworksRunMoreKernels) {
  Cluster cluster = PlainCluster();
  cluster.mutable_gpu()->set_kernel_launch_s(3e-6);
  Framework framework;
  OperationKernels& kernels = *framework.add_kernels();
  kernels.set_op("mul_forward");
  kernels.set_traffic(2);
  kernels.set_launches(3);
  OperationKernels& slow = *framework.add_kernels();
  slow.set_op("gemm_forward");
  slow.set_arithmetic(1.5);
  framework.set_separate_bias_gradient(true);
  framework.set_separate_accumulation(true);
  framework.set_optimizer_bytes_per_param(24);
  const OperatorRoofline plain(cluster, 4), with(cluster, 4, &framework);
  const OpShape mul = Shape(OpCode::kMulForward, {1000, 1000});
  EXPECT_NEAR(with.Of(mul).seconds, 9e-6 + 12e6 / 1e12, 1e-15);
  EXPECT_DOUBLE_EQ(with.Of(Cube(4096)).compute_s, 1.5 * plain.Of(Cube(4096)).compute_s);
  const OpShape adam = Shape(OpCode::kAdam, {1'000'000});
  EXPECT_NEAR(with.Of(adam).seconds - plain.Of(adam).seconds, 3e-6 + 24e6 / 1e12, 1e-15);
  // The bias: one read of the output's gradient. The sum: 2 read, 4 read and written.
  const OpShape wgrad =
      Shape(OpCode::kGemmWgrad, {8192, 1024, 512}, Dtype::kBf16, kHasBias | kAccumulateGradient);
  EXPECT_NEAR(with.Of(wgrad).seconds - plain.Of(wgrad).seconds,
              6e-6 + (2 * 8192.0 * 1024 + 10 * 1024.0 * 512) / 1e12, 1e-15);
  framework.set_dispatch_s(1e-3);
  EXPECT_DOUBLE_EQ(OperatorRoofline(cluster, 4, &framework).Of(mul).seconds, 3e-3);
}

TEST(RooflineTest, AdamFromBandwidthOrFromItsOwnRate) {
  Cluster cluster = PlainCluster();
  const OpShape adam = Shape(OpCode::kAdam, {1'000'000});
  // 28 bytes a parameter, 30 with fp32 gradients.
  EXPECT_DOUBLE_EQ(OperatorRoofline(cluster, 2).Of(adam).seconds, 28e6 / 1e12);
  EXPECT_DOUBLE_EQ(OperatorRoofline(cluster, 4).Of(adam).seconds, 30e6 / 1e12);
  cluster.set_gpu_adam_params_per_s(53.4e9);
  EXPECT_DOUBLE_EQ(OperatorRoofline(cluster, 4).Of(adam).seconds, 1e6 / 53.4e9);
}

TEST(RooflineTest, WideGradientsAreTraffic) {
  const OpShape wgrad =
      Shape(OpCode::kGemmWgrad, {8, 1000, 2000}, Dtype::kBf16, kAccumulateGradient);
  EXPECT_EQ(TrafficBytes(wgrad, 2), MemoryBytes(wgrad));
  EXPECT_EQ(TrafficBytes(wgrad, 4), MemoryBytes(wgrad) + 2 * 2 * 2e6);
  EXPECT_EQ(TrafficBytes(Shape(OpCode::kAdam, {100}), 4), 3000);
  const OpShape embedding = Shape(OpCode::kEmbeddingBackward, {10, 7, 50, 1, 0, 1});
  EXPECT_EQ(TrafficBytes(embedding, 4), MemoryBytes(embedding) + 2 * 350);
  EXPECT_EQ(TrafficBytes(Cube(64), 4), MemoryBytes(Cube(64)));
}

TEST(RooflineTest, MissingConstantsAreInfiniteAndNamed) {
  Cluster cluster;
  EXPECT_TRUE(std::isinf(OperatorRoofline(cluster, 4).Of(Cube(64)).seconds));
  EXPECT_EQ(OperatorRoofline(cluster, 4).MissingField(Cube(64)), "gpu.memory_bytes_per_s");
  cluster.mutable_gpu()->set_memory_bytes_per_s(1e12);
  const OperatorRoofline roofline(cluster, 4);
  const auto gemm = [](Dtype dtype) { return Shape(OpCode::kGemmForward, {8, 8, 8}, dtype); };
  EXPECT_TRUE(std::isinf(roofline.Of(gemm(Dtype::kBf16)).seconds));
  EXPECT_EQ(roofline.MissingField(gemm(Dtype::kBf16)), "gpu.bf16_flops_per_s");
  EXPECT_EQ(roofline.MissingField(gemm(Dtype::kFp32)), "gpu.fp32_flops_per_s");
  EXPECT_EQ(roofline.MissingField(gemm(Dtype::kFp64)), "gpu.fp64_flops_per_s");
  EXPECT_EQ(roofline.MissingField(Shape(OpCode::kAdd, {8, 8})), "");
}

TEST(RooflineTest, ExpectedMaximum) {
  EXPECT_EQ(ExpectedMaximum(1), 0);
  EXPECT_NEAR(ExpectedMaximum(2), 0.5642, 0.03);
  EXPECT_NEAR(ExpectedMaximum(10), 1.5388, 0.01);
  EXPECT_NEAR(ExpectedMaximum(100), 2.5076, 0.01);
  EXPECT_NEAR(ExpectedMaximum(1000), 3.2414, 0.02);
}

TEST(RooflineTest, SensitivityToCopies) {
  const OperatorRoofline roofline(H200Node(), 4);
  EXPECT_EQ(roofline.Of(Shape(OpCode::kMulForward, {8192, 22016})).sensitivity, 1);
  // Measured beside a copy with a factor of about 1.16: 12 % and 0.3 % (M9).
  EXPECT_NEAR(0.16 * roofline.Of(Cube(8192)).sensitivity, 0.12, 0.02);
  EXPECT_LT(0.16 * roofline.Of(Cube(4096)).sensitivity, 0.03);
}

RC_GTEST_PROP(RooflineProperty, MoreWorkNeverTakesLess, ()) {
  // More of m, with all else equal. (Half a wave is the least that a ragged wave costs, so more
  // columns may cost nothing, never less.)
  const OperatorRoofline roofline(H200Node(), 4);
  const auto size = [] { return *rc::gen::inRange<std::int64_t>(1, 20000); };
  std::int64_t m = size(), n = size(), k = size();
  const OpCode op = *rc::gen::element(OpCode::kMulForward, OpCode::kNormForward, OpCode::kAdd);
  RC_ASSERT(roofline.Of(Shape(op, {m, n})).seconds <= roofline.Of(Shape(op, {m + k, n})).seconds);
  const double short_k = roofline.Of(Shape(OpCode::kGemmForward, {m, n, k})).compute_s;
  const double long_k = roofline.Of(Shape(OpCode::kGemmForward, {m, n, k + size()})).compute_s;
  RC_ASSERT(short_k <= long_k);
}

RC_GTEST_PROP(RooflineProperty, NeverFasterThanThePeaks, ()) {
  const Cluster cluster = H200Node();
  const auto size = [] { return *rc::gen::inRange<std::int64_t>(1, 20000); };
  const OpShape shape =
      Shape(*rc::gen::element(OpCode::kGemmForward, OpCode::kGemmDgrad, OpCode::kGemmWgrad),
            {size(), size(), size()});
  const OperatorTime time = OperatorRoofline(cluster, 2).Of(shape);
  RC_ASSERT(time.seconds >= Flops(shape) / cluster.gpu().bf16_flops_per_s());
  RC_ASSERT(time.seconds >= MemoryBytes(shape) / cluster.gpu().memory_bytes_per_s());
  RC_ASSERT(time.sensitivity >= 0 && time.sensitivity <= 1);
}

}  // namespace
}  // namespace twinstep
