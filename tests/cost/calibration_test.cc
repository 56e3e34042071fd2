// The record of how near the constants of hw_specs come to measured kernels, collectives and
// copies (hw_specs/SOURCES.md M6, M7, M9): one set of constants a
// cluster serves every row of its machine. Tolerances are what holds today; a change of a constant
// that breaks a row shows here.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "hw_specs/find_cluster.h"
#include "sim/cost/collective_cost.h"
#include "sim/cost/operator_cost.h"

namespace twinstep {
namespace {

constexpr double kMiB = 1 << 20;

Cluster Find(const std::string& name) {
  Result<Cluster> cluster = FindCluster(name);
  if (!cluster.ok()) {
    ADD_FAILURE() << cluster.error().message;
    return {};
  }
  return std::move(cluster).value();
}

// The GPU and the host of two H200; the NVLink of eight, which the H100 and H200 share.
Cluster TwoH200() { return Find("h200-x2"); }
Cluster EightH200() { return Find("dgx-h100"); }

// Without the limits of power that hours of training meet.
Cluster ShortBenchmark(Cluster cluster) {
  cluster.mutable_gpu()->clear_sustained_fraction();
  return cluster;
}

OpShape Shape(OpCode op, std::array<std::int64_t, 6> dims) { return {.op = op, .dims = dims}; }
OpShape Cube(std::int64_t n) { return Shape(OpCode::kGemmForward, {n, n, n}); }

GroupShape InNode(std::int64_t members) { return {members, 1, members, members}; }
GroupShape OverNodes(std::int64_t nodes, std::int64_t a_node) {
  return {nodes * a_node, nodes, a_node, a_node};
}

double Seconds(const Cluster& cluster, OpCode op, double bytes, const GroupShape& shape) {
  return CollectiveCost(cluster, op, bytes, shape).Seconds();
}

double Tflops(const Cluster& cluster, const OpShape& shape) {
  return Flops(shape) / OperatorRoofline(cluster, 4).Of(shape).seconds / 1e12;
}

struct Measured {
  OpShape shape;
  double tflops;
  double tolerance;  // Relative.
};

void ExpectMeasured(const Cluster& cluster, const std::vector<Measured>& rows) {
  for (const Measured& row : rows) {
    const double tflops = Tflops(cluster, row.shape);
    EXPECT_NEAR(tflops / row.tflops, 1, row.tolerance)
        << Name(row.shape.op) << " " << row.shape.dims[0] << " " << row.shape.dims[1] << " "
        << row.shape.dims[2] << " " << row.shape.dims[3] << ": " << tflops << " TFLOP/s, measured "
        << row.tflops;
  }
}

TEST(CalibrationTest, H200GemmCubes) {  // M9.
  ExpectMeasured(ShortBenchmark(TwoH200()), {{Cube(1024), 135, 0.05},
                                             {Cube(2048), 637, 0.05},
                                             {Cube(4096), 813, 0.05},
                                             {Cube(8192), 817, 0.05}});
}

TEST(CalibrationTest, H200GemmsOfTraining) {
  // cuBLASLt's best of eight algorithms, m = 32768; runs differ by up to 15 % (M9). These
  // products take milliseconds each and run at the sustained rate.
  const auto row = [](OpCode op, std::int64_t n, std::int64_t k, double tflops) {
    return Measured{Shape(op, {32768, n, k}), tflops, 0.17};
  };
  ExpectMeasured(
      TwoH200(),
      {row(OpCode::kGemmForward, 6144, 2048, 755), row(OpCode::kGemmDgrad, 6144, 2048, 773),
       row(OpCode::kGemmWgrad, 6144, 2048, 722), row(OpCode::kGemmForward, 2048, 2048, 646),
       row(OpCode::kGemmDgrad, 2048, 2048, 659), row(OpCode::kGemmWgrad, 2048, 2048, 754),
       row(OpCode::kGemmForward, 11008, 2048, 706), row(OpCode::kGemmDgrad, 11008, 2048, 658),
       row(OpCode::kGemmWgrad, 11008, 2048, 689), row(OpCode::kGemmForward, 2048, 5504, 682),
       row(OpCode::kGemmDgrad, 2048, 5504, 650), row(OpCode::kGemmWgrad, 2048, 5504, 718),
       row(OpCode::kGemmForward, 32000, 2048, 713), row(OpCode::kGemmDgrad, 32000, 2048, 692),
       row(OpCode::kGemmWgrad, 32000, 2048, 672)});
}

TEST(CalibrationTest, BestGemmOfAShortBenchmark) {  // M7.
  ExpectMeasured(ShortBenchmark(Find("dgx-a100")),
                 {{Shape(OpCode::kGemmForward, {1024, 10240, 5120}), 271.2, 0.05}});
  for (const char* cluster : {"dgx-h100", "h800"}) {
    ExpectMeasured(ShortBenchmark(Find(cluster)),
                   {{Shape(OpCode::kGemmForward, {2048, 2048, 13312}), 794.5, 0.05}});
  }
}

TEST(CalibrationTest, AccumulatingGradientsWaitForTheirOutput) {
  // SimuMax, A100 PCIe, 4096 tokens: forward products at 0.75, fp32 gradients that accumulate at
  // 0.71 of the peak; with 33024 tokens the same 0.755. Relative to the forward product.
  const Cluster cluster = Find("dgx-a100");
  const auto ratio = [&](std::int64_t tokens) {
    OpShape gradient = Shape(OpCode::kGemmWgrad, {tokens, 16384, 8192});
    gradient.flags = kAccumulateGradient;
    return Tflops(cluster, gradient) /
           Tflops(cluster, Shape(OpCode::kGemmForward, {tokens, 16384, 8192}));
  };
  EXPECT_NEAR(ratio(4096), 0.71 / 0.75, 0.015);
  EXPECT_NEAR(ratio(33024), 1, 0.015);
}

TEST(CalibrationTest,
     H800OperatorsOfTable6) {  // Yuan et al., ATC 2024, Llama-175B at 2048 tokens a GPU.
  const OperatorRoofline roofline(Find("h800"), 4);
  const OpShape norm = {.op = OpCode::kNormForward, .flags = kRmsNorm, .dims = {2048, 12288}};
  EXPECT_NEAR(roofline.Of(norm).seconds / 0.061e-3, 1, 0.08);
  const double linear_and_add =
      roofline.Of(Shape(OpCode::kGemmForward, {2048, 12288, 12288})).seconds +
      roofline.Of(Shape(OpCode::kAdd, {2048, 12288})).seconds;
  EXPECT_NEAR(linear_and_add / 1.018e-3, 1, 0.08);
}

TEST(CalibrationTest, H200FlashAttention) {  // M9, cuDNN 9.
  const auto forward = [](std::array<std::int64_t, 6> dims, double tflops, double tolerance) {
    return Measured{Shape(OpCode::kAttentionForward, dims), tflops, tolerance};
  };
  const auto backward = [](std::array<std::int64_t, 6> dims, double tflops, double tolerance) {
    return Measured{Shape(OpCode::kAttentionBackward, dims), tflops, tolerance};
  };
  ExpectMeasured(TwoH200(), {forward({32, 16, 16, 1024, 1024, 128}, 472, 0.05),
                             backward({32, 16, 16, 1024, 1024, 128}, 318, 0.05),
                             forward({8, 32, 32, 1024, 1024, 128}, 437, 0.10),
                             backward({8, 32, 32, 1024, 1024, 128}, 303, 0.10),
                             forward({2, 64, 8, 8192, 8192, 128}, 630, 0.05),
                             backward({2, 64, 8, 8192, 8192, 128}, 488, 0.05),
                             forward({4, 25, 25, 1024, 1024, 64}, 223, 0.25),
                             backward({4, 25, 25, 1024, 1024, 64}, 196, 0.10),
                             forward({2, 32, 32, 4096, 4096, 128}, 583, 0.05),
                             backward({2, 32, 32, 4096, 4096, 128}, 460, 0.05)});
}

TEST(CalibrationTest, NcclOnDgxA100) {  // M6a: all-reduce, microseconds.
  const Cluster cluster = Find("dgx-a100");
  const struct {
    double mib, x2, x4, x8;
  } rows[] = {{1, 44.2, 51.4, 92.8},         {4, 61.2, 77.3, 95.8},
              {8, 86.9, 116.8, 134.3},       {16, 131.9, 179.6, 232.4},
              {32, 230.0, 284.2, 358.1},     {64, 404.7, 543.8, 579.9},
              {128, 763.6, 998.6, 1162.0},   {256, 1455.8, 1929.0, 2162.3},
              {512, 2838.4, 3720.0, 4191.5}, {1024, 5442.8, 7259.4, 8193.0}};
  for (const auto& row : rows) {
    const auto check = [&](std::int64_t gpus, double measured_us) {
      const double us = Seconds(cluster, OpCode::kAllReduce, row.mib * kMiB, InNode(gpus)) * 1e6;
      EXPECT_NEAR(us / measured_us, 1, 0.15)
          << row.mib << " MiB on " << gpus << ": " << us << " us, measured " << measured_us;
    };
    check(2, row.x2);
    check(4, row.x4);
    check(8, row.x8);
  }
}

TEST(CalibrationTest, NcclOnTwoH200) {  // M9, milliseconds.
  const Cluster cluster = TwoH200();
  const double mib[] = {1, 16, 256, 1024};
  const struct {
    OpCode op;
    double ms[4];
  } rows[] = {{OpCode::kAllReduce, {0.024, 0.0753, 0.891, 3.219}},
              {OpCode::kAllGather, {0.0231, 0.0546, 0.553, 1.979}},
              {OpCode::kReduceScatter, {0.0218, 0.0507, 0.589, 1.986}},
              {OpCode::kSend, {0.0222, 0.058, 0.748, 2.903}}};
  for (const auto& row : rows) {
    for (int i = 0; i < 4; ++i) {
      const double bytes = mib[i] * kMiB;
      const double ms =
          1e3 * (row.op == OpCode::kSend ? SendCost(cluster, bytes, true).Seconds()
                                         : Seconds(cluster, row.op, bytes, InNode(2)));
      EXPECT_NEAR(ms / row.ms[i], 1, 0.15)
          << Name(row.op) << " " << mib[i] << " MiB: " << ms << " ms, measured " << row.ms[i];
    }
  }
}

TEST(CalibrationTest, RingOnEightH200) {  // M6b: all-reduce up to 1 MiB runs the ring.
  const Cluster cluster = EightH200();
  const struct {
    double bytes, bus_gb_per_s;
  } rows[] = {{32768, 1.44}, {262144, 11.74}, {kMiB, 39.93}};
  for (const auto& row : rows) {
    const double seconds = Seconds(cluster, OpCode::kAllReduce, row.bytes, InNode(8));
    EXPECT_NEAR(1.75 * row.bytes / seconds / 1e9 / row.bus_gb_per_s, 1, 0.15) << row.bytes;
  }
  // 16 GiB: all-gather 361.4, reduce-scatter 362.9, all-reduce with the switch off 365.6 GB/s.
  const double large = 16384 * kMiB;
  const auto bus = [&](const Cluster& on, OpCode op, double factor) {
    return factor * large / Seconds(on, op, large, InNode(8)) / 1e9;
  };
  EXPECT_NEAR(bus(cluster, OpCode::kAllGather, 0.875) / 361.4, 1, 0.05);
  EXPECT_NEAR(bus(cluster, OpCode::kReduceScatter, 0.875) / 362.9, 1, 0.05);
  Cluster ring_only = cluster;
  ring_only.mutable_node()->mutable_nvlink()->set_nvls_efficiency(0);
  EXPECT_NEAR(bus(ring_only, OpCode::kAllReduce, 1.75) / 365.6, 1, 0.05);
}

TEST(CalibrationTest, SwitchReductionOnH200) {  // M6b: NVLS.
  const Cluster cluster = EightH200();
  const struct {
    double mib, bus_gb_per_s;
  } sizes[] = {{4, 107.16},    {16, 219.89},   {64, 346.51},   {256, 436.15},
               {1024, 463.58}, {4096, 473.10}, {16384, 482.26}};
  for (const auto& row : sizes) {
    const double bytes = row.mib * kMiB;
    const double seconds = Seconds(cluster, OpCode::kAllReduce, bytes, InNode(8));
    EXPECT_NEAR(1.75 * bytes / seconds / 1e9 / row.bus_gb_per_s, 1, 0.15) << row.mib;
  }
  // 8 GiB on 4 .. 8 GPUs.
  const double by_gpus[] = {363.3, 414.2, 435.6, 460.0, 473.1};
  for (int gpus = 4; gpus <= 8; ++gpus) {
    const double seconds = Seconds(cluster, OpCode::kAllReduce, 8192 * kMiB, InNode(gpus));
    const double bus = 2.0 * (gpus - 1) / gpus * 8192 * kMiB / seconds / 1e9;
    EXPECT_NEAR(bus / by_gpus[gpus - 4], 1, 0.05) << gpus;
  }
}

TEST(CalibrationTest, FourNodesOfB200) {  // M6b, 8 x 50 GB/s a node: tree, then ring.
  const struct {
    double mib, ms;
  } rows[] = {{1, 0.378}, {16, 0.504}, {64, 0.830}, {256, 2.270}, {1024, 5.747}, {4096, 22.05}};
  for (const auto& row : rows) {
    const double seconds =
        Seconds(Find("b200"), OpCode::kAllReduce, row.mib * kMiB, OverNodes(4, 8));
    EXPECT_NEAR(seconds * 1e3 / row.ms, 1, 0.07) << row.mib;
  }
}

TEST(CalibrationTest, PcieOnH200) {  // M9: 1 MiB in 22 us, 55 GB/s large.
  const Cluster cluster = TwoH200();
  EXPECT_NEAR(CopyCost(cluster, kMiB, true).Seconds() / 22e-6, 1, 0.05);
  EXPECT_NEAR(CopyCost(cluster, 4096, false).Seconds() / 3.5e-6, 1, 0.15);
  EXPECT_NEAR(1024 * kMiB / CopyCost(cluster, 1024 * kMiB, true).Seconds() / 55.1e9, 1, 0.01);
}

}  // namespace
}  // namespace twinstep
