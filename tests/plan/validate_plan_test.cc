#include "sim/plan/validate_plan.h"

#include <gtest/gtest.h>

#include <string>

#include "sim/textproto/text_file.h"

namespace twinstep {
namespace {

std::string ProblemOf(const std::string& text) {
  const auto plan = ParseText<Plan>(text, "p");
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  const Status valid = ValidatePlan(plan.value().message, plan.value().source);
  return valid.ok() ? "none" : valid.error().message;
}

TEST(ValidatePlanTest, NumbersHaveALine) {
  EXPECT_EQ(ProblemOf(""), "none");
  EXPECT_EQ(ProblemOf("tensor_parallel: 2 zero_stage: 0 persistent_chunks: 0 offload_ratio: 1"),
            "none");
  EXPECT_EQ(ProblemOf("micro_batch: 94967296\nzero_stage: 7 offload_ratio: 2"),
            "p:1:1: micro_batch: 94967296 is not between 1 and 67108864\n"
            "p:2:1: zero_stage: 7 is not between 0 and 3\n"
            "p:2:15: offload_ratio: 2 is not between 0 and 1");
  EXPECT_EQ(ProblemOf("\n swap_interval: -1"),
            "p:2:2: swap_interval: -1 is not between 0 and 1e+24\n"
            "p:2:2: swap_interval: -1 is not between 1 and 67108864");
}

}  // namespace
}  // namespace twinstep
