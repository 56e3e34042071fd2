// The memory half of a profile: deltas that add up, and workspaces that the kernels took.
#include "exec/profile/memory_profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "hw_specs/validate_profile.h"
#include "sim/graph/memory_timeline.h"
#include "sim/textproto/text_file.h"
#include "tests/exec/runtime/small_models.h"
#include "tests/exec/runtime/training_run.h"

namespace twinstep {
namespace {

LoweredPlan Lowered(AttentionKernel attention, std::int64_t micro_batches) {
  Plan plan = SmallPlan(1, 1, 1, 1);
  plan.set_attention(attention);
  plan.set_global_batch(micro_batches * plan.micro_batch());
  const Model model = SmallModel("gpt", FP32);
  Result<LoweredPlan> lowered = LowerForRun(model, SmallCluster(), ResolveOrDie(model, plan));
  EXPECT_TRUE(lowered.ok());
  return std::move(lowered).value();
}

TEST(MemoryProfileTest, DeltasAddUp) {
  const LoweredPlan lowered = Lowered(ATTENTION_FLASH, 1);
  Profile profile;
  ASSERT_TRUE(ProfileMemory(lowered, &profile).ok());
  ASSERT_GT(profile.operator_memory_size(), 20);
  std::int64_t after = 0, peak = 0, released = 0;
  bool backward = false;
  for (const OperatorMemorySample& x : profile.operator_memory()) {
    peak = std::max({peak, after + x.inter_peak_bytes(),
                     x.allocated_before_bytes() + x.intra_peak_bytes() - x.workspace_bytes()});
    after = x.allocated_after_bytes();
    released += x.released_bytes();
    backward = backward || x.phase() == "backward";
    EXPECT_LE(x.workspace_bytes(), x.intra_peak_bytes());
    EXPECT_EQ(x.released_bytes() > 0 && !backward, false);
  }
  EXPECT_TRUE(backward);
  EXPECT_GT(released, 0);
  // Of all that lives, states apart, the most in issue order.
  const PoolMemory& gpu = MeasureIssueOrderMemory(lowered.graph)[0][0];
  const auto at_peak = [&gpu](Role role) { return gpu.at_peak[static_cast<std::size_t>(role)]; };
  EXPECT_GE(peak, at_peak(Role::kActivation) + at_peak(Role::kTransient));
  EXPECT_LE(peak, gpu.peak_bytes);
}

TEST(MemoryProfileTest, KernelsSayWhatScratchTheyTook) {
  Profile profile;
  ASSERT_TRUE(ProfileMemory(Lowered(ATTENTION_FLASH, 1), &profile).ok());
  // Layer norms sum columns in scratch memory; a GELU needs none.
  std::int64_t norm = 0, activation = 0;
  for (const OperatorMemorySample& x : profile.operator_memory()) {
    if (x.op() == "norm_backward") norm = std::max(norm, x.workspace_bytes());
    if (x.op() == "activation_forward") activation = std::max(activation, x.workspace_bytes());
  }
  EXPECT_GT(norm, 0);
  EXPECT_EQ(activation, 0);
}

TEST(MemoryProfileTest, OneMicroBatchOfSeveral) {
  Profile one, three;
  ASSERT_TRUE(ProfileMemory(Lowered(ATTENTION_UNFUSED, 1), &one).ok());
  ASSERT_TRUE(ProfileMemory(Lowered(ATTENTION_UNFUSED, 3), &three).ok());
  EXPECT_EQ(one.operator_memory_size(), three.operator_memory_size());
}

TEST(MemoryProfileTest, FillsWorkspacesOfOperatorsAndIsValid) {
  Profile profile;
  OperatorSample* sample = profile.add_operators();
  const LoweredPlan lowered = Lowered(ATTENTION_FLASH, 1);
  for (const Task& task : lowered.graph.tasks) {  // Not every shape has a task.
    const OpShape& shape = lowered.graph.shapes[task.shape];
    if (shape.op != OpCode::kNormBackward) continue;
    sample->set_op(Name(shape.op));
    sample->set_dtype(Name(shape.dtype));
    sample->set_flags(shape.flags);
    for (const std::int64_t dim : shape.dims) sample->add_dims(dim);
    break;
  }
  sample->set_median_s(1e-6);
  ASSERT_TRUE(ProfileMemory(lowered, &profile).ok());
  EXPECT_GT(profile.operators(0).workspace_bytes(), 0);
  const Status valid = ValidateProfile(profile, {});
  EXPECT_TRUE(valid.ok()) << valid.error().message;
}

}  // namespace
}  // namespace twinstep
