// Every operator on the GPU against the CPU backend's in fp32 (in fp64 where it is computed in
// fp64), on random operands: relative L2 error, the same bits in a second run, nothing written
// around the operands. Without a GPU the tests are skipped.
#include "exec/cuda/kernels/kernels.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "exec/cuda/kernels/elementwise.h"
#include "tests/exec/cpu/kernel_tester.h"
#include "tests/exec/cuda/kernels/device_case.h"
#include "tests/exec/cuda/kernels/operator_cases.h"

namespace twinstep {
namespace {

// Of what is stored in this type: one rounding, and for fp32 the order of sums.
double Bound(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBf16:
      return 4e-3;
    case Dtype::kFp16:
      return 1e-3;
    case Dtype::kFp32:
      return 1e-5;
    default:
      return 1e-12;
  }
}

Dtype ReferenceDtype(Dtype dtype) {
  return dtype == Dtype::kBf16 || dtype == Dtype::kFp16 ? Dtype::kFp32 : dtype;
}

OperatorCase Reference(OperatorCase of) {
  if (of.shape.op == OpCode::kCopyOnDevice) {
    of.shape.dims[0] =
        of.shape.dims[0] / DtypeBytes(of.shape.dtype) * DtypeBytes(ReferenceDtype(of.shape.dtype));
  }
  of.shape.dtype = ReferenceDtype(of.shape.dtype);
  of.gradient_dtype = ReferenceDtype(of.gradient_dtype);
  return of;
}

std::int64_t Elements(const CaseBuffer& buffer) {
  return buffer.content == Content::kAccumulator ? 4 * buffer.elements : buffer.elements;
}

Values Draw(const OperatorCase& of, const CaseBuffer& buffer, std::uint32_t seed) {
  Values values = Random(Elements(buffer), seed);
  for (double& x : values) {
    switch (buffer.content) {
      case Content::kState:
      case Content::kStatistics:
      case Content::kScalar:
        x = 0.55 + 0.45 * x;
        break;
      case Content::kTokens:
        x = std::floor((x + 1) / 2 * static_cast<double>(of.tokens_end));
        break;
      case Content::kMask:
        x = x > 0 ? 1 : 0;
        break;
      default:
        break;
    }
  }
  return values;
}

// ||a - b|| / ||b||; infinite where one is not a number, or where only one is infinite.
double RelativeError(const Values& a, const Values& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isinf(b[i]) && a[i] == b[i]) continue;
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return INFINITY;
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  if (difference == 0) return 0;
  return std::sqrt(difference / norm);
}

Values Decode(std::span<const std::byte> bytes, Dtype dtype) {
  Buffer buffer =
      Buffer::Poisoned(static_cast<std::int64_t>(bytes.size()) / DtypeBytes(dtype), dtype);
  std::memcpy(buffer.data(), bytes.data(), bytes.size());
  return buffer.values();
}

void Compare(const OperatorCase& of, std::int64_t shift) {
  SCOPED_TRACE(of.name + " " + Name(of.shape.dtype) + ", gradients " + Name(of.gradient_dtype) +
               ", dims " + std::to_string(of.shape.dims[0]) + " " +
               std::to_string(of.shape.dims[1]) + " " + std::to_string(of.shape.dims[2]) + " " +
               std::to_string(of.shape.dims[5]) + ", shift " + std::to_string(shift));
  const OperatorCase reference = Reference(of);
  DeviceCase device(of, shift);
  std::vector<Buffer> inputs, buffers;
  for (std::size_t i = 0; i < of.buffers.size(); ++i) {
    const CaseBuffer& buffer = of.buffers[i];
    const Dtype dtype = DtypeOf(of, buffer.content);
    inputs.push_back(buffer.is_input
                         ? Buffer(Draw(of, buffer, static_cast<std::uint32_t>(i + 1)), dtype)
                         : Buffer::Poisoned(Elements(buffer), dtype));
    const Dtype wide = DtypeOf(reference, buffer.content);
    buffers.push_back(buffer.is_input ? Buffer(inputs.back().values(), wide)
                                      : Buffer::Poisoned(Elements(buffer), wide));
  }
  std::vector<const std::byte*> reads;
  std::vector<std::byte*> writes;
  for (const std::size_t i : of.reads) reads.push_back(buffers[i].data());
  for (const std::size_t i : of.writes) writes.push_back(buffers[i].data());
  RunKernel({.shape = reference.shape,
             .gradient_dtype = reference.gradient_dtype,
             .state_dtype = reference.shape.dtype == Dtype::kFp64 ? Dtype::kFp64 : Dtype::kFp32,
             .reads = reads,
             .writes = writes,
             .step = reference.step,
             .place = reference.place});

  std::vector<std::vector<std::byte>> first(of.buffers.size());
  for (const bool again : {false, true}) {
    for (std::size_t i = 0; i < of.buffers.size(); ++i) {
      if (of.buffers[i].is_input) {
        device.Fill(i, inputs[i].data());
      } else {
        device.Poison(i);
      }
    }
    ASSERT_EQ(device.Launch(nullptr), cudaSuccess);
    Check(cudaDeviceSynchronize(), of.name.c_str());
    EXPECT_TRUE(device.GuardsHold());
    for (std::size_t i = 0; i < of.buffers.size(); ++i) {
      std::vector<std::byte> contents = device.Contents(i);
      if (again) {
        EXPECT_EQ(contents, first[i]) << "buffer " << i << " in a second run";
        continue;
      }
      const CaseBuffer& buffer = of.buffers[i];
      if (!buffer.is_output) {
        EXPECT_EQ(contents, inputs[i].bytes()) << "input " << i;
      } else if (buffer.content == Content::kMask || buffer.content == Content::kAccumulator) {
        EXPECT_EQ(contents, buffers[i].bytes()) << "buffer " << i;
      } else {
        const Dtype dtype = DtypeOf(of, buffer.content);
        // A scalar is as exact as what it is computed from.
        const Dtype precision =
            buffer.content == Content::kScalar && of.shape.op != OpCode::kClipCoefficient
                ? DtypeOf(of, Content::kStatistics)
                : dtype;
        EXPECT_LE(RelativeError(Decode(contents, dtype), buffers[i].values()), Bound(precision))
            << "buffer " << i;
      }
      first[i] = std::move(contents);
    }
  }
}

class KernelsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasGpu()) GTEST_SKIP() << "no GPU";
  }
};

struct Dtypes {
  Dtype dtype, gradient;
};
constexpr Dtypes kDtypes[] = {{Dtype::kBf16, Dtype::kFp32},
                              {Dtype::kBf16, Dtype::kBf16},
                              {Dtype::kFp16, Dtype::kFp16},
                              {Dtype::kFp32, Dtype::kFp32},
                              {Dtype::kFp64, Dtype::kFp64}};

void CompareAll(const CaseSizes& sizes, std::int64_t shift = 0) {
  for (const auto& [dtype, gradient] : kDtypes) {
    for (const OperatorCase& x : OperatorCases(sizes, dtype, gradient, /*unfused=*/true)) {
      Compare(x, shift);
    }
  }
}

constexpr CaseSizes kUsual{.samples = 4,
                           .sequence = 80,
                           .heads = 4,
                           .kv_heads = 4,
                           .head_dim = 32,
                           .ffn = 352,
                           .vocabulary = 512};

TEST_F(KernelsTest, UsualSizes) { CompareAll(kUsual); }

TEST_F(KernelsTest, UnalignedOperands) { CompareAll(kUsual, 1); }

TEST_F(KernelsTest, OddSizes) {
  CompareAll({.samples = 3,
              .sequence = 31,
              .heads = 6,
              .kv_heads = 2,
              .head_dim = 7,
              .ffn = 53,
              .vocabulary = 101});
  // One token. (The norm of one or two elements has a gradient of rounding errors alone.)
  CompareAll({.head_dim = 5, .ffn = 3, .vocabulary = 2});
}

TEST_F(KernelsTest, PartsOfParallelPlans) {
  for (const std::int64_t cp : {0, 1}) {
    CompareAll({.samples = 2,
                .sequence = 96,
                .heads = 4,
                .kv_heads = 2,
                .head_dim = 16,
                .ffn = 64,
                .vocabulary = 128,
                .cp = cp,
                .context_parallel = 2,
                .tp = 1,
                .tensor_parallel = 2});
  }
  // Pieces that no wide access fits into.
  CompareAll({.samples = 2,
              .sequence = 30,
              .heads = 2,
              .kv_heads = 1,
              .head_dim = 8,
              .ffn = 16,
              .vocabulary = 64,
              .cp = 2,
              .context_parallel = 3});
}

TEST_F(KernelsTest, NormsOfEveryWidth) {
  for (const auto& [dtype, gradient] : kDtypes) {
    for (const std::int64_t h :
         {5, 33, 72, 200, 257, 520, 1000, 1030, 2048, 2056, 4096, 8192, 9001, 16384}) {
      for (const OperatorCase& x : NormCases(70, h, dtype, gradient)) Compare(x, 0);
    }
    for (const std::int64_t h : {64, 2048}) {
      for (const OperatorCase& x : NormCases(2500, h, dtype, gradient)) Compare(x, 0);
    }
  }
}

// Rows of many kinds: tokens that come often and seldom, more blocks than one round of a GPU.
TEST_F(KernelsTest, ManyRows) {
  const std::vector<OperatorCase> cases = OperatorCases({.samples = 2,
                                                         .sequence = 3000,
                                                         .heads = 2,
                                                         .kv_heads = 2,
                                                         .head_dim = 128,
                                                         .ffn = 8008,
                                                         .vocabulary = 1000},
                                                        Dtype::kBf16, Dtype::kFp32,
                                                        /*unfused=*/false);
  // Most of the time is the CPU's.
  std::atomic<std::size_t> next{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] {
      for (std::size_t k = next++; k < cases.size(); k = next++) Compare(cases[k], 0);
    });
  }
}

TEST_F(KernelsTest, FusedSwiGluEqualsItsParts) {
  constexpr std::int64_t kRows = 37, kElements = 37 * 88, kWidth = 88;
  for (const Dtype dtype : {Dtype::kBf16, Dtype::kFp16, Dtype::kFp32}) {
    const Buffer gate_up(Random(2 * kElements, 1), dtype), dact(Random(kElements, 2), dtype);
    const auto upload = [](const Buffer& buffer) {
      DeviceMemory memory = Allocate(buffer.bytes().size());
      Check(cudaMemcpy(memory.get(), buffer.bytes().data(), buffer.bytes().size(),
                       cudaMemcpyHostToDevice),
            "upload");
      return memory;
    };
    const auto download = [&](const DeviceMemory& memory, std::int64_t elements) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(elements * DtypeBytes(dtype)));
      Check(cudaMemcpy(bytes.data(), memory.get(), bytes.size(), cudaMemcpyDeviceToHost),
            "download");
      return Decode(bytes, dtype);
    };
    const auto space = [&](std::int64_t elements) {
      return Allocate(static_cast<std::size_t>(elements * DtypeBytes(dtype)));
    };
    const DeviceMemory device_gate_up = upload(gate_up), device_dact = upload(dact);
    const DeviceMemory silu = space(kElements), act = space(kElements), dsilu = space(kElements),
                       dgate_up = space(2 * kElements), fused_silu = space(kElements),
                       fused_act = space(kElements), fused_dgate_up = space(2 * kElements);
    const auto launch = [&](OpCode op, std::vector<const std::byte*> reads,
                            std::vector<std::byte*> writes) {
      const OpShape shape{.op = op, .dtype = dtype, .dims = {kRows, kWidth}};
      Check(cuda::LaunchKernel({.shape = shape, .reads = reads, .writes = writes}), "launch");
    };
    launch(OpCode::kSiluForward, {device_gate_up.get()}, {silu.get()});
    launch(OpCode::kMulForward, {silu.get(), device_gate_up.get()}, {act.get()});
    launch(OpCode::kMulBackward, {device_dact.get(), silu.get(), device_gate_up.get()},
           {dsilu.get(), dgate_up.get()});
    launch(OpCode::kSiluBackward, {dsilu.get(), device_gate_up.get(), dgate_up.get()},
           {dgate_up.get()});
    Check(cuda::LaunchSwiGluForward(dtype, kRows, kWidth, device_gate_up.get(), fused_silu.get(),
                                    fused_act.get(), nullptr),
          "fused forward");
    Check(cuda::LaunchSwiGluBackward(dtype, kRows, kWidth, device_dact.get(), device_gate_up.get(),
                                     fused_dgate_up.get(), nullptr),
          "fused backward");
    // To the bit: the fused kernels round where the parts do.
    EXPECT_EQ(download(fused_silu, kElements), download(silu, kElements));
    EXPECT_EQ(download(fused_act, kElements), download(act, kElements));
    EXPECT_EQ(download(fused_dgate_up, 2 * kElements), download(dgate_up, 2 * kElements));
  }
}

TEST(KernelsOfNoGpuTest, EveryOperatorIsKnownOrAnothersWork) {
  int known = 0;
  for (int op = 0; op < kOpCodeCount; ++op)
    known += cuda::IsKernel(static_cast<OpCode>(op)) ? 1 : 0;
  EXPECT_EQ(known, 30);
  EXPECT_FALSE(cuda::IsKernel(OpCode::kGemmForward));
  EXPECT_FALSE(cuda::IsKernel(OpCode::kAttentionBackward));
  EXPECT_FALSE(cuda::IsKernel(OpCode::kAllReduce));
  EXPECT_EQ(cuda::LaunchKernel({.shape = {.op = OpCode::kAllReduce}}), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace twinstep
