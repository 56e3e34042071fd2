#include "exec/profile/repeated_run.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "exec/cpu/cpu_backend.h"
#include "exec/profile/phase_times.h"
#include "exec/profile/plan_run.h"
#include "tests/exec/runtime/small_models.h"
#include "tests/exec/runtime/training_run.h"

namespace twinstep {
namespace {

struct Calls {
  int begun = 0;           // Iterations.
  std::int64_t asked = 0;  // For times of tasks.
};

class CountingBackend : public CpuBackend {
 public:
  explicit CountingBackend(Calls* calls) : CpuBackend({.threads = 2}), calls_(*calls) {}

  void BeginIteration(const StepValues& step, std::optional<std::uint64_t> seed,
                      double stall_limit_s) override {
    ++calls_.begun;
    CpuBackend::BeginIteration(step, seed, stall_limit_s);
  }
  TaskTime Time(TaskId task) const override {
    ++calls_.asked;
    return CpuBackend::Time(task);
  }

 private:
  Calls& calls_;
};

// Of a small model, not started yet.
RepeatedRun CountedRun(Calls* calls, double pause_s, PhaseTimes* times) {
  const Model model = SmallModel("llama", FP32);
  return RepeatedRun(
      LowerForRun(model, SmallCluster(), ResolveOrDie(model, SmallPlan(1, 1, 1, 1))).value(),
      {.make_backend = [calls]() -> Result<std::unique_ptr<Backend>> {
         return std::unique_ptr<Backend>(new CountingBackend(calls));
       },
       .pause_s = pause_s,
       .phase_times = times});
}

TEST(RepeatedRun, ADeviceIsAskedOnceAnIterationThatCounts) {
  Calls calls;
  PhaseTimes times;
  times.Begin("all");
  RepeatedRun run = CountedRun(&calls, /*pause_s=*/0, &times);
  const std::int64_t tasks = run.graph().TaskCount();
  ASSERT_TRUE(run.Start(/*fill_buffers=*/false).ok());
  ASSERT_TRUE(run.WarmUp(0).ok());
  EXPECT_EQ(calls.begun, 1);
  EXPECT_EQ(calls.asked, 0);
  Means means;
  const auto ends_late = [&](TaskId id) { return run.Time(id).end_ns >= run.Time(0).start_ns; };
  ASSERT_TRUE(run.Measure(0, &means, ends_late).ok());
  EXPECT_EQ(calls.begun, 4);  // Three that count.
  EXPECT_EQ(calls.asked, 3 * tasks);
  EXPECT_GT(run.IterationSeconds(), 0);
  EXPECT_EQ(calls.asked, 3 * tasks);
  for (const auto& [primitive, of_iterations] : means) EXPECT_EQ(of_iterations.size(), 3u);

  // Times are never those of an iteration before.
  ASSERT_TRUE(run.RunIteration().ok());
  run.Time(0);
  EXPECT_EQ(calls.asked, 3 * tasks + 1);
  times.End();
  EXPECT_EQ(times.phases()[0].runs, 1);
}

TEST(RepeatedRun, NoIterationThatCountsFollowsARest) {
  Calls calls;
  // Shorter than any iteration.
  RepeatedRun run = CountedRun(&calls, /*pause_s=*/1e-9, nullptr);
  const std::int64_t tasks = run.graph().TaskCount();
  ASSERT_TRUE(run.Start(/*fill_buffers=*/false).ok());
  ASSERT_TRUE(run.WarmUp(0).ok());
  Means means;
  ASSERT_TRUE(run.Measure(0, &means).ok());
  EXPECT_EQ(calls.begun, 1 + 3 * 2);
  EXPECT_EQ(calls.asked, 3 * tasks);
}

}  // namespace
}  // namespace twinstep
