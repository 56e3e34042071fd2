// GEMMs and flash attention on the GPU against the CPU backend's kernels in fp32: relative L2 error
// at most 2e-2 in bf16 and fp16, 1e-5 in fp32, odd sizes included.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/exec/cuda/gpu_tester.h"
#include "tests/exec/cuda/has_gpu.h"

namespace twinstep {
namespace {

// Element type of an operand: OpShape::dtype, weight gradients', or what the dtype is computed in.
enum class Kind { kActivation, kGradient, kStatistics };

struct Operand {
  Kind kind = Kind::kActivation;
  std::int64_t elements = 0;
  int in_place = -1;  // Of a write: the read that it updates.
};

struct Case {
  std::string name;
  OpShape shape;
  std::vector<Operand> reads, writes;
  TaskPlace place{};
};

struct Types {
  Dtype element, gradient;
};

Dtype TypeOf(Kind kind, const Types& types) {
  if (kind == Kind::kActivation) return types.element;
  if (kind == Kind::kGradient) return types.gradient;
  return types.element == Dtype::kFp64 ? Dtype::kFp64 : Dtype::kFp32;
}

// The buffers of a call with these types; inputs are the rounded `values` of the reads.
class Call {
 public:
  Call(const Case& test_case, const Types& types, const std::vector<Values>& values) {
    op_ = {.shape = test_case.shape,
           .gradient_dtype = types.gradient,
           .step = {.step = 3, .attention_dropout = 0.2, .seed = 11},
           .place = test_case.place};
    op_.shape.dtype = types.element;
    buffers_.reserve(test_case.reads.size() + test_case.writes.size());
    for (std::size_t i = 0; i < test_case.reads.size(); ++i) {
      buffers_.emplace_back(values[i], TypeOf(test_case.reads[i].kind, types));
      reads_.push_back(&buffers_.back());
    }
    for (const Operand& write : test_case.writes) {
      if (write.in_place >= 0) {
        writes_.push_back(reads_[static_cast<std::size_t>(write.in_place)]);
      } else {
        buffers_.push_back(Buffer::Poisoned(write.elements, TypeOf(write.kind, types)));
        writes_.push_back(&buffers_.back());
      }
    }
  }

  void RunOnCpu() {
    std::vector<const std::byte*> reads;
    std::vector<std::byte*> writes;
    for (Buffer* buffer : reads_) reads.push_back(buffer->data());
    for (Buffer* buffer : writes_) writes.push_back(buffer->data());
    RunKernel({.shape = op_.shape,
               .gradient_dtype = op_.gradient_dtype,
               .reads = reads,
               .writes = writes,
               .step = op_.step,
               .place = op_.place});
  }
  void RunOnGpu(GpuTester* tester) {
    const Status done = tester->Run(op_, reads_, writes_);
    ASSERT_TRUE(done.ok()) << done.error().message;
  }

  Values Read(std::size_t i) const { return reads_[i]->values(); }
  Values Written(std::size_t i) const { return writes_[i]->values(); }

 private:
  Op op_;
  std::vector<Buffer> buffers_;
  std::vector<Buffer*> reads_, writes_;
};

std::vector<Values> Draw(const Case& test_case) {
  std::vector<Values> drawn;
  std::uint32_t seed = 1;
  for (const Operand& read : test_case.reads) drawn.push_back(Random(read.elements, seed++));
  return drawn;
}

struct Precision {
  const char* name;
  Types types, reference;
  double tolerance;
};

std::vector<Precision> Precisions() {
  const Types fp32{Dtype::kFp32, Dtype::kFp32};
  return {{"bf16", {Dtype::kBf16, Dtype::kFp32}, fp32, 2e-2},
          {"bf16, gradients too", {Dtype::kBf16, Dtype::kBf16}, fp32, 2e-2},
          {"fp16", {Dtype::kFp16, Dtype::kFp32}, fp32, 2e-2},
          {"fp32", fp32, fp32, 1e-5},
          {"fp64", {Dtype::kFp64, Dtype::kFp64}, {Dtype::kFp64, Dtype::kFp64}, 1e-11}};
}

std::vector<Case> Gemms(const std::array<std::int64_t, 3>& dims) {
  const std::int64_t n = dims[0], out = dims[1], in = dims[2];
  const std::string size = std::to_string(n) + "x" + std::to_string(out) + "x" + std::to_string(in);
  const Operand x{.elements = n * in}, w{.elements = out * in}, y{.elements = n * out};
  const Operand bias{.elements = out}, dw{.kind = Kind::kGradient, .elements = out * in},
      db{.kind = Kind::kGradient, .elements = out};
  const auto shape = [&](OpCode op, unsigned flags = 0) {
    return MakeShape(op, {n, out, in}, flags);
  };
  const auto updated = [](Operand operand, int read) {
    operand.in_place = read;
    return operand;
  };
  return {{"gemm " + size, shape(OpCode::kGemmForward), {x, w}, {y}},
          {"gemm with bias " + size, shape(OpCode::kGemmForward, kHasBias), {x, w, bias}, {y}},
          {"dgrad " + size, shape(OpCode::kGemmDgrad), {y, w}, {x}},
          {"wgrad " + size, shape(OpCode::kGemmWgrad), {x, y}, {dw}},
          {"wgrad with bias " + size, shape(OpCode::kGemmWgrad, kHasBias), {x, y}, {dw, db}},
          {"wgrad with bias, accumulating " + size,
           shape(OpCode::kGemmWgrad, kHasBias | kAccumulateGradient),
           {x, y, dw, db},
           {updated(dw, 2), updated(db, 3)}}};
}

void CheckGemm(const Case& test_case, const std::vector<Precision>& precisions, GpuTester* tester) {
  const std::vector<Values> drawn = Draw(test_case);
  for (const Precision& precision : precisions) {
    SCOPED_TRACE(test_case.name + ", " + precision.name);
    Call gpu(test_case, precision.types, drawn);
    // The reference reads the numbers that rounding has left.
    std::vector<Values> rounded;
    for (std::size_t i = 0; i < drawn.size(); ++i) rounded.push_back(gpu.Read(i));
    Call cpu(test_case, precision.reference, rounded);
    gpu.RunOnGpu(tester);
    cpu.RunOnCpu();
    for (std::size_t i = 0; i < test_case.writes.size(); ++i) {
      EXPECT_LE(RelativeError(gpu.Written(i), cpu.Written(i)), precision.tolerance)
          << "output " << i;
    }
  }
}

TEST(LibraryOperatorsTest, GemmsMatchTheCpuBackend) {
  if (!HasGpu()) GTEST_SKIP() << "no GPU";
  for (const bool deterministic : {false, true}) {
    GpuTester tester({.deterministic = deterministic});
    for (const std::array<std::int64_t, 3>& size : std::vector<std::array<std::int64_t, 3>>{
             {128, 256, 192}, {1024, 768, 512}, {37, 61, 29}, {5, 1, 7}, {300, 128, 1000}}) {
      for (const Case& test_case : Gemms(size)) CheckGemm(test_case, Precisions(), &tester);
    }
  }
}

// Their tiles are one round of the GPU's multiprocessors and a little.
TEST(LibraryOperatorsTest, WeightGradientsAsTwoProducts) {
  if (!HasGpu()) GTEST_SKIP() << "no GPU";
  GpuTester tester({.prefer_two_products = true});
  const std::vector<Precision> all = Precisions();
  for (const Case& test_case : Gemms({24, 3590, 1400})) {
    if (test_case.shape.op != OpCode::kGemmWgrad) continue;
    CheckGemm(test_case, {all[0], all[3]}, &tester);
  }
}

// y = x W^T + residual, also in the residual's place.
TEST(LibraryOperatorsTest, GemmsAddAResidual) {
  if (!HasGpu()) GTEST_SKIP() << "no GPU";
  GpuTester tester;
  for (const auto& [n, out, in] :
       std::vector<std::array<std::int64_t, 3>>{{1024, 768, 512}, {37, 61, 29}, {5, 1, 7}}) {
    const Case test_case{"gemm",
                         MakeShape(OpCode::kGemmForward, {n, out, in}),
                         {{.elements = n * in}, {.elements = out * in}},
                         {{.elements = n * out}}};
    for (const Precision& precision : Precisions()) {
      for (const bool in_place : {false, true}) {
        SCOPED_TRACE(std::to_string(n) + ", " + precision.name + (in_place ? ", in place" : ""));
        Buffer x(Random(n * in, 1), precision.types.element);
        Buffer w(Random(out * in, 2), precision.types.element);
        Buffer residual(Random(n * out, 3), precision.types.element);
        Buffer y = Buffer::Poisoned(n * out, precision.types.element);
        Call cpu(test_case, precision.reference, {x.values(), w.values()});
        cpu.RunOnCpu();
        Values sum = cpu.Written(0);
        const Values added = residual.values();
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += added[i];

        Op op{.shape = test_case.shape, .gradient_dtype = precision.types.gradient};
        op.shape.dtype = precision.types.element;
        Buffer* const written = in_place ? &residual : &y;
        const Status done = tester.Run(op, {&x, &w}, {written}, &residual);
        ASSERT_TRUE(done.ok()) << done.error().message;
        EXPECT_LE(RelativeError(written->values(), sum), precision.tolerance);
      }
    }
  }
}

struct Attention {
  std::int64_t b, heads, kv_heads, s_q, s_kv, d;
  int index = 0, count = 1;  // Context parallel.

  OpShape Shape(OpCode op, unsigned flags = 0) const {
    OpShape shape = MakeShape(op, {b, heads, kv_heads, s_q, s_kv, d}, flags);
    shape.index = static_cast<std::uint16_t>(index);
    shape.count = static_cast<std::uint16_t>(count);
    return shape;
  }
  std::string Name() const {
    std::string name;
    for (const std::int64_t x : {b, heads, kv_heads, s_q, s_kv, d, std::int64_t{index}}) {
      name += (name.empty() ? "" : "x") + std::to_string(x);
    }
    return name;
  }
  Operand Q() const { return {.elements = b * s_q * heads * d}; }
  Operand Kv() const { return {.elements = b * s_kv * 2 * kv_heads * d}; }
  Operand Rows() const { return {.kind = Kind::kStatistics, .elements = b * s_q * heads}; }
  TaskPlace Place() const {
    return {.cp = index,
            .context_parallel = count,
            .micro_batch_size = b,
            .sequence_length = s_kv,
            .first_sample = 3,
            .block = 4};
  }
};

std::vector<Attention> AttentionShapes() {
  return {{2, 4, 4, 128, 128, 64},     {1, 8, 2, 256, 256, 128}, {3, 4, 4, 128, 128, 32},
          {2, 6, 3, 384, 384, 64},     {2, 4, 2, 37, 37, 20},    {2, 2, 2, 24, 48, 16, 0, 2},
          {2, 2, 1, 24, 48, 16, 1, 2}, {1, 3, 3, 5, 5, 7},       {1, 2, 2, 64, 64, 160}};
}

// Of context-parallel ranks, the first, a middle and the last one, in cuDNN's lengths.
std::vector<Attention> ContextParallelShapes() {
  return {{2, 4, 4, 256, 512, 64, 0, 2},  {2, 4, 4, 256, 512, 64, 1, 2},
          {1, 8, 2, 256, 512, 128, 0, 2}, {3, 6, 3, 256, 512, 64, 1, 2},
          {1, 2, 2, 512, 1024, 96, 1, 2}, {1, 4, 2, 256, 1024, 64, 0, 4},
          {2, 4, 1, 256, 1024, 32, 2, 4}, {1, 2, 2, 256, 1024, 128, 3, 4}};
}

// Log-sum-exps as the GPU has them: by head, of each piece of consecutive positions.
Values RowsByHead(const Values& by_token, const Attention& a) {
  Values result(by_token.size());
  const std::int64_t length = a.count == 1 ? a.s_q : a.s_q / 2;
  for (std::int64_t i = 0; i < a.s_q; ++i) {
    const std::int64_t begin = i / length * length;
    for (std::int64_t k = 0; k < a.b * a.heads; ++k) {
      result[static_cast<std::size_t>(begin * a.b * a.heads + k * length + i - begin)] =
          by_token[static_cast<std::size_t>(i * a.b * a.heads + k)];
    }
  }
  return result;
}

void CheckFlashAttention(const Attention& a, const Precision& precision, unsigned flags,
                         GpuTester* tester) {
  const Case forward{"forward",
                     a.Shape(OpCode::kAttentionForward, flags),
                     {a.Q(), a.Kv()},
                     {a.Q(), a.Rows()},
                     a.Place()};
  Call gpu_forward(forward, precision.types, Draw(forward));
  Call cpu_forward(forward, precision.reference, {gpu_forward.Read(0), gpu_forward.Read(1)});
  gpu_forward.RunOnGpu(tester);
  cpu_forward.RunOnCpu();
  EXPECT_LE(RelativeError(gpu_forward.Written(0), cpu_forward.Written(0)), precision.tolerance);
  EXPECT_LE(RelativeError(gpu_forward.Written(1), RowsByHead(cpu_forward.Written(1), a)),
            precision.tolerance);

  const Case backward{"backward",
                      a.Shape(OpCode::kAttentionBackward, flags),
                      {a.Q(), a.Q(), a.Kv(), a.Q(), a.Rows()},
                      {a.Q(), a.Kv()},
                      a.Place()};
  std::vector<Values> reads = Draw(backward);
  reads[1] = gpu_forward.Read(0);
  reads[2] = gpu_forward.Read(1);
  reads[3] = cpu_forward.Written(0);
  reads[4] = RowsByHead(cpu_forward.Written(1), a);
  Call gpu_backward(backward, precision.types, reads);
  Call cpu_backward(
      backward, precision.reference,
      {gpu_backward.Read(0), reads[1], reads[2], gpu_backward.Read(3), cpu_forward.Written(1)});
  gpu_backward.RunOnGpu(tester);
  cpu_backward.RunOnCpu();
  for (const std::size_t i : {0, 1}) {
    EXPECT_LE(RelativeError(gpu_backward.Written(i), cpu_backward.Written(i)), precision.tolerance)
        << "gradient " << i;
  }
}

TEST(LibraryOperatorsTest, FlashAttentionMatchesTheCpuBackend) {
  if (!HasGpu()) GTEST_SKIP() << "no GPU";
  for (const bool deterministic : {false, true}) {
    GpuTester tester({.deterministic = deterministic});
    for (const Attention& a : AttentionShapes()) {
      for (const Precision& precision : Precisions()) {
        for (const unsigned flags : {0u, unsigned{kHasDropout}}) {
          SCOPED_TRACE(a.Name() + ", " + precision.name + (flags != 0 ? ", dropout" : "") +
                       (deterministic ? ", deterministic" : ""));
          CheckFlashAttention(a, precision, flags, &tester);
        }
      }
    }
  }
}

// Inputs drawn at random, statistics too.
Case BackwardOf(const Attention& a, unsigned flags = 0) {
  return {"backward",
          a.Shape(OpCode::kAttentionBackward, flags),
          {a.Q(), a.Q(), a.Kv(), a.Q(), a.Rows()},
          {a.Q(), a.Kv()},
          a.Place()};
}

void CheckSameBits(const Attention& a, GpuTester* tester) {
  const Case forward{
      "forward", a.Shape(OpCode::kAttentionForward), {a.Q(), a.Kv()}, {a.Q(), a.Rows()}, a.Place()};
  for (const Case& test_case : {forward, BackwardOf(a)}) {
    std::vector<std::vector<Values>> results;
    for (int run = 0; run < 2; ++run) {
      Call call(test_case, {Dtype::kBf16, Dtype::kFp32}, Draw(test_case));
      call.RunOnGpu(tester);
      results.push_back({call.Written(0), call.Written(1)});
    }
    EXPECT_EQ(results[0], results[1]) << test_case.name << " again";
  }
}

// Own kernels need no workspace for a forward; cuDNN's need keys in another order.
bool RunsFused(const Attention& a, Dtype dtype, const GpuTester& tester) {
  OpShape shape = a.Shape(OpCode::kAttentionForward);
  shape.dtype = dtype;
  return tester.WorkspaceBytes(shape) > 0;
}

TEST(LibraryOperatorsTest, ContextParallelAttentionMatchesTheCpuBackend) {
  if (!HasGpu()) GTEST_SKIP() << "no GPU";
  const std::vector<Precision> all = Precisions();
  for (const bool deterministic : {false, true}) {
    GpuTester tester({.deterministic = deterministic});
    const std::vector<Attention> shapes = ContextParallelShapes();
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const Attention& a = shapes[i];
      // Of fp16 and fp32 a rank each.
      std::vector<Precision> precisions{all[0]};
      if (i == 2) precisions.push_back(all[2]);
      if (i == 5) precisions.push_back(all[3]);
      for (const Precision& precision : precisions) {
        SCOPED_TRACE(a.Name() + " of " + std::to_string(a.count) + ", " + precision.name +
                     (deterministic ? ", deterministic" : ""));
        CheckFlashAttention(a, precision, 0, &tester);
        EXPECT_EQ(RunsFused(a, precision.types.element, tester),
                  precision.types.element != Dtype::kFp32);
      }
      SCOPED_TRACE(a.Name() + " of " + std::to_string(a.count));
      if (deterministic) CheckSameBits(a, &tester);
    }
  }
}

// The graph's own scratch of the gradient of q.
TEST(LibraryOperatorsTest, FlashAttentionUsesTheGraphsWorkspace) {
  if (!HasGpu()) GTEST_SKIP() << "no GPU";
  GpuTester tester;
  for (const Attention& a : {AttentionShapes()[0], ContextParallelShapes()[1]}) {
    SCOPED_TRACE(a.Name());
    std::vector<Values> results;
    for (const bool has_workspace : {false, true}) {
      Case backward = BackwardOf(a, has_workspace ? unsigned{kHasWorkspace} : 0);
      if (has_workspace) {
        backward.writes.push_back({.kind = Kind::kStatistics, .elements = a.Q().elements});
      }
      Call call(backward, {Dtype::kBf16, Dtype::kFp32}, Draw(backward));
      call.RunOnGpu(&tester);
      results.push_back(call.Written(0));
    }
    EXPECT_LE(RelativeError(results[1], results[0]), 2e-2);
  }
}

}  // namespace
}  // namespace twinstep
