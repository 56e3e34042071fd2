// Whatever a plan is, a profile of it leaves nothing to be guessed. What is measured is derived
// from the plan's graph by many rules (layers that stand for all, sizes that are measured by
// themselves), and a task that none of them covers would silently take a modelled time.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "sim/lower/lower.h"
#include "sim/plan/resolved_plan.h"
#include "tests/exec/profile/cpu_as_gpu.h"
#include "tests/exec/profile/small_gpus.h"
#include "tests/exec/runtime/small_models.h"
#include "tests/exec/runtime/training_run.h"

namespace twinstep {
namespace {

// A measurement takes about a second.
constexpr int kPlans = 12;

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}

  std::int64_t Below(std::int64_t n) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n));
  }
  bool Coin() { return Below(2) == 1; }

  std::int64_t Gpus() { return std::int64_t{1} << Below(3); }

  Plan PlanOf(std::int64_t gpus) {
    std::array<std::int64_t, 4> sizes{1, 1, 1, 1};  // t, c, p, d.
    for (std::int64_t left = gpus; left > 1; left /= 2) {
      sizes[static_cast<std::size_t>(Below(4))] *= 2;
    }
    Plan plan = SmallPlan(sizes[0], sizes[1], sizes[2], sizes[3]);
    plan.set_micro_batch(1 + Below(2));
    if (sizes[2] > 1 && Coin()) {
      plan.set_virtual_stages(2);
      plan.set_schedule(INTERLEAVED_1F1B);
    }
    constexpr std::array kRecomputes = {RECOMPUTE_NONE, RECOMPUTE_BALANCED, RECOMPUTE_FULL};
    plan.set_recompute(kRecomputes[static_cast<std::size_t>(Below(3))]);
    plan.set_zero_stage(static_cast<int>(Below(4)));
    plan.set_data_parallel_overlap(Coin());
    if (sizes[0] > 1 && Coin()) plan.set_tensor_parallel_overlap(TP_OVERLAP_CHUNKED);
    AddMemory(&plan);
    return plan;
  }

 private:
  // Model states and blocks in chunks, or activations that a pipeline offloads, or neither.
  void AddMemory(Plan* plan) {
    switch (Below(3)) {
      case 0:
        plan->set_persistent_chunks(Below(4));
        plan->set_chunk_buffers(1 + Below(3));
        plan->set_swapped_blocks(Below(3));
        plan->set_checkpointed_blocks(Below(3));
        break;
      case 1:
        plan->set_offload_ratio(Coin() ? 0.5 : 1);
        break;
      default:
        break;
    }
  }

  std::mt19937_64 random_;
};

TEST(GpuProfileProperty, LeavesNothingToBeGuessed) {
  Draw draw(/*seed=*/1);
  const std::vector<std::string> names = SmallModelNames();
  for (int plans = 0; plans < kPlans;) {
    const Model model =
        SmallModel(names[static_cast<std::size_t>(draw.Below(std::ssize(names)))], FP32);
    const std::int64_t gpus = draw.Gpus();
    const Plan plan = draw.PlanOf(gpus);
    ProbeSizes sizes = SmallSizes();
    // Less than a chunk has, or more.
    sizes.adam_elements = draw.Coin() ? 16 : 1 << 20;
    const auto resolved = ResolvePlan(model, SmallGpus(gpus), plan, gpus);
    if (!resolved.ok() || !Lower(model, SmallGpus(gpus), resolved.value()).ok()) continue;
    ++plans;
    SCOPED_TRACE(model.name() + ": " + plan.ShortDebugString());
    ExpectCovered(GpuProfileInput(model, {plan}, gpus), nullptr, sizes);
  }
}

}  // namespace
}  // namespace twinstep
