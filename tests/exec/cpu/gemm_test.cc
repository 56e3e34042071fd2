#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "tests/exec/cpu/kernel_tester.h"

namespace twinstep {
namespace {

struct Gemm {
  std::int64_t n, out, in;
};
constexpr std::array<Gemm, 4> kGemms{{{1, 1, 1}, {7, 5, 3}, {17, 33, 19}, {64, 130, 65}}};

Op MakeOp(OpCode code, const Gemm& g, unsigned flags = 0) {
  return {.shape = MakeShape(code, {g.n, g.out, g.in}, flags)};
}

Values Forward(const Gemm& g, const Values& x, const Values& w, const Values& bias) {
  if (bias.empty()) return RunFp64(MakeOp(OpCode::kGemmForward, g), {x, w}, {g.n * g.out})[0];
  return RunFp64(MakeOp(OpCode::kGemmForward, g, kHasBias), {x, w, bias}, {g.n * g.out})[0];
}

Values Plain(const Gemm& g, const Values& x, const Values& w, const Values& bias) {
  Values y;
  for (std::int64_t i = 0; i < g.n; ++i) {
    for (std::int64_t j = 0; j < g.out; ++j) {
      double sum = bias.empty() ? 0 : bias[static_cast<std::size_t>(j)];
      for (std::int64_t k = 0; k < g.in; ++k) {
        sum +=
            x[static_cast<std::size_t>(i * g.in + k)] * w[static_cast<std::size_t>(j * g.in + k)];
      }
      y.push_back(sum);
    }
  }
  return y;
}

struct Operands {
  explicit Operands(const Gemm& g)
      : x(Random(g.n * g.in, 1)),
        w(Random(g.out * g.in, 2)),
        bias(Random(g.out, 3)),
        dy(Random(g.n * g.out, 4)) {}
  Values x, w, bias, dy;
};

TEST(GemmTest, ForwardEqualsPlainLoops) {
  for (const Gemm& g : kGemms) {
    const Operands o(g);
    EXPECT_LT(MaxDifference(Forward(g, o.x, o.w, o.bias), Plain(g, o.x, o.w, o.bias)), 1e-13);
    EXPECT_LT(MaxDifference(Forward(g, o.x, o.w, {}), Plain(g, o.x, o.w, {})), 1e-13);
  }
}

TEST(GemmTest, GradientsEqualFiniteDifferences) {
  for (const Gemm& g : kGemms) {
    const Operands o(g);
    const Values dx = RunFp64(MakeOp(OpCode::kGemmDgrad, g), {o.dy, o.w}, {g.n * g.in})[0];
    const std::vector<Values> dw =
        RunFp64(MakeOp(OpCode::kGemmWgrad, g, kHasBias), {o.x, o.dy}, {g.out * g.in, g.out});
    const auto loss = [&](const Values& x, const Values& w, const Values& bias) {
      return Dot(Forward(g, x, w, bias), o.dy);
    };
    ExpectGradient([&](const Values& x) { return loss(x, o.w, o.bias); }, o.x, dx);
    ExpectGradient([&](const Values& w) { return loss(o.x, w, o.bias); }, o.w, dw[0]);
    ExpectGradient([&](const Values& b) { return loss(o.x, o.w, b); }, o.bias, dw[1]);
  }
}

TEST(GemmTest, GradientsAccumulate) {
  const Gemm g{7, 5, 3};
  const Operands o(g);
  const std::vector<Values> once =
      RunFp64(MakeOp(OpCode::kGemmWgrad, g, kHasBias), {o.x, o.dy}, {15, 5});
  const Values old_dw = Random(15, 8), old_db = Random(5, 9);
  Buffer x(o.x, Dtype::kFp64), dy(o.dy, Dtype::kFp64), dw(old_dw, Dtype::kFp64),
      db(old_db, Dtype::kFp64);
  RunOn(MakeOp(OpCode::kGemmWgrad, g, kHasBias | kAccumulateGradient), {&x, &dy, &dw, &db},
        {&dw, &db});
  Values expected = old_dw, expected_db = old_db;
  AddTo(expected, once[0]);
  AddTo(expected_db, once[1]);
  EXPECT_LT(MaxDifference(dw.values(), expected), 1e-14);
  EXPECT_LT(MaxDifference(db.values(), expected_db), 1e-14);
}

// Column-parallel (rows of W) concatenates, row-parallel (columns of W) adds up.
TEST(GemmTest, TensorParallelEqualsWhole) {
  const Gemm g{9, 12, 10};
  const Operands o(g);
  const Values y = Forward(g, o.x, o.w, o.bias);
  Values sum(y.size());
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    const Gemm column{g.n, g.out / 2, g.in};
    const Values w = TakeRows(o.w, g.in * column.out, {rank});
    const Values bias = TakeRows(o.bias, column.out, {rank});
    EXPECT_LT(
        MaxDifference(Forward(column, o.x, w, bias), TakeColumns(y, g.out, rank * 6, rank * 6 + 6)),
        1e-12);
    const Gemm row{g.n, g.out, g.in / 2};
    AddTo(sum, Forward(row, TakeColumns(o.x, g.in, rank * 5, rank * 5 + 5),
                       TakeColumns(o.w, g.in, rank * 5, rank * 5 + 5), {}));
  }
  EXPECT_LT(MaxDifference(sum, Forward(g, o.x, o.w, {})), 1e-12);
}

TEST(GemmTest, Bf16GradientsGoIntoFp32Unrounded) {
  const Gemm g{3, 2, 2};
  Buffer x(Values{1, 2, 3, 4, 5, 6}, Dtype::kBf16);
  Buffer dy(Values{1, 0x1p-9, 1, 0x1p-9, 1, 0x1p-9}, Dtype::kBf16);
  Buffer dw = Buffer::Poisoned(4, Dtype::kFp32), narrow = Buffer::Poisoned(4, Dtype::kBf16);
  Op op{.shape = MakeShape(OpCode::kGemmWgrad, {g.n, g.out, g.in}, 0, Dtype::kBf16),
        .gradient_dtype = Dtype::kFp32};
  RunOn(op, {&x, &dy}, {&dw});
  EXPECT_EQ(dw.values(), (Values{9, 12, 9 * 0x1p-9, 12 * 0x1p-9}));
  op.gradient_dtype = Dtype::kBf16;
  RunOn(op, {&x, &dy}, {&narrow});
  EXPECT_EQ(narrow.values(), dw.values());
  // 256 + 9 = 265 needs nine bits; bf16 has eight: 264 is even.
  narrow = Buffer(Values{256, 256, 256, 256}, Dtype::kBf16);
  op.shape.flags = kAccumulateGradient;
  RunOn(op, {&x, &dy, &narrow}, {&narrow});
  EXPECT_EQ(narrow.values(), (Values{264, 268, 256, 256}));
}

}  // namespace
}  // namespace twinstep
