#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>

#include "tests/exec/cpu/kernel_tester.h"

namespace twinstep {
namespace {

StepValues Step(std::int64_t step) {
  return {.step = step,
          .learning_rate = 0.01,
          .beta1 = 0.9,
          .beta2 = 0.95,
          .epsilon = 1e-8,
          .weight_decay = 0.1};
}

// The formula as published, in long double.
struct PlainAdam {
  long double w, m = 0, v = 0;
  void Update(long double g, std::int64_t step, long double decay) {
    const auto t = static_cast<long double>(step + 1);
    m = 0.9L * m + 0.1L * g;
    v = 0.95L * v + 0.05L * g * g;
    const long double m_hat = m / (1 - std::pow(0.9L, t)), v_hat = v / (1 - std::pow(0.95L, t));
    w -= 0.01L * (m_hat / (std::sqrt(v_hat) + 1e-8L) + decay * w);
  }
};

TEST(AdamTest, FollowsTheFormulaOverSteps) {
  constexpr std::int64_t kElements = 37, kUndecayed = 10;
  constexpr double kClip = 0.5;
  const Values w = Random(kElements, 1);
  Buffer parameter(w, Dtype::kFp64), m(Values(kElements), Dtype::kFp64),
      v(Values(kElements), Dtype::kFp64), clip(Values{kClip}, Dtype::kFp64);
  std::vector<PlainAdam> expected;
  for (const double x : w) expected.push_back({.w = x});
  for (std::int64_t step = 0; step < 5; ++step) {
    const Values g = Random(kElements, static_cast<std::uint32_t>(10 + step));
    Buffer gradient(g, Dtype::kFp64);
    const Op op{
        .shape = MakeShape(OpCode::kAdam, {kElements, kUndecayed}, kMasterIsParameter | kHasClip),
        .step = Step(step)};
    RunOn(op, {&gradient, &m, &v, &parameter, &clip}, {&m, &v, &parameter});
    for (std::size_t i = 0; i < w.size(); ++i) {
      expected[i].Update(kClip * g[i], step, i < kUndecayed ? 0 : 0.1L);
      EXPECT_NEAR(parameter.values()[i], static_cast<double>(expected[i].w), 1e-15);
      EXPECT_NEAR(m.values()[i], static_cast<double>(expected[i].m), 1e-15);
      EXPECT_NEAR(v.values()[i], static_cast<double>(expected[i].v), 1e-15);
    }
  }
}

// With a master copy the parameter is the master, rounded; small updates are not lost.
TEST(AdamTest, MasterKeepsWhatTheParameterRounds) {
  for (const Dtype gradient_dtype : {Dtype::kFp32, Dtype::kBf16}) {
    Buffer gradient(Values{1, -1}, gradient_dtype), master(Values{1, 1}, Dtype::kFp32),
        m(Values{0, 0}, Dtype::kFp32), v(Values{0, 0}, Dtype::kFp32);
    Buffer parameter = Buffer::Poisoned(2, Dtype::kBf16);
    StepValues step = Step(0);
    step.learning_rate = 1e-4;
    step.weight_decay = 0;
    const Op op{.shape = MakeShape(OpCode::kAdam, {2}, 0, Dtype::kBf16),
                .gradient_dtype = gradient_dtype,
                .step = step};
    RunOn(op, {&gradient, &master, &m, &v}, {&master, &m, &v, &parameter});
    EXPECT_LT(MaxDifference(master.values(), {1 - 1e-4, 1 + 1e-4}), 1e-7);
    EXPECT_EQ(parameter.values(), (Values{1, 1}));
    EXPECT_LT(MaxDifference(m.values(), {0.1, -0.1}), 1e-7);
  }
}

}  // namespace
}  // namespace twinstep
