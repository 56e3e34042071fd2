// Where the system starts no more threads, work is done by those that there are, or what needs its
// threads says so; nothing waits for ever for threads that have begun.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <system_error>

#include "exec/cpu/lane_scheduler.h"
#include "exec/cuda/host_worker.h"
#include "exec/cuda/late_lanes.h"
#include "exec/profile/layer_copies.h"
#include "exec/profile/plan_run.h"
#include "sim/parallel.h"
#include "tests/exec/runtime/small_models.h"
#include "tests/exec/runtime/training_run.h"

namespace {

std::atomic<int> threads_left = std::numeric_limits<int>::max();

using Create = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

}  // namespace

// In the place of the library's.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) {
  static auto* const create = reinterpret_cast<Create*>(dlsym(RTLD_NEXT, "pthread_create"));
  if (threads_left-- <= 0) return EAGAIN;
  return create(thread, attributes, start, argument);
}

namespace twinstep {
namespace {

class FewThreadsTest : public testing::Test {
 protected:
  FewThreadsTest() { threads_left = 1; }
  ~FewThreadsTest() override { threads_left = std::numeric_limits<int>::max(); }
};

TEST_F(FewThreadsTest, ForEachInParallelDoesAll) {
  std::array<int, 100> calls{};
  const Status done = ForEachInParallel(calls.size(), 8, [&calls](std::size_t i) -> Status {
    ++calls[i];
    return Unit{};
  });
  EXPECT_TRUE(done.ok());
  EXPECT_TRUE(std::ranges::all_of(calls, [](int n) { return n == 1; }));
}

TEST_F(FewThreadsTest, ParallelForDoesAll) {
  cuda::ParallelFor loop(8);
  std::array<int, 100> calls{};
  loop.Run(100, [&calls](std::int64_t i) { ++calls[static_cast<std::size_t>(i)]; });
  EXPECT_TRUE(std::ranges::all_of(calls, [](int n) { return n == 1; }));
}

// Fewer at once would not be measured as a training loads the GPUs.
TEST_F(FewThreadsTest, LayerCopiesSaySo) {
  const Model model = SmallModel("llama", FP32);
  const LoweredPlan layers =
      LowerForRun(model, SmallCluster(), ResolveOrDie(model, SmallPlan(1, 1, 1, 1))).value();
  LayerCopies copies(layers, /*gpus=*/3, [](int) { return RepeatedRunOptions(); });
  std::atomic<int> calls = 0;
  const Status done = copies.OnEach([&calls](std::size_t, RepeatedRun*) -> Status {
    ++calls;
    return Unit{};
  });
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, ExitCode::kNo);
  EXPECT_EQ(done.error().message.find("a thread for each of 3 copies of the layers: "), 0U);
  EXPECT_EQ(calls, 1);  // The one that had a thread; the first copy's own would come last.
}

class IdleWorker : public LaneWorker {
 public:
  void StartThread(std::size_t) override {}
  bool Run(std::uint32_t, std::size_t) override { return true; }
  bool Meet(std::uint32_t, std::size_t) override { return true; }
};

TEST_F(FewThreadsTest, LaneSchedulerSaysSo) {
  IdleWorker worker;
  EXPECT_THROW(LaneScheduler({.threads = 3, .lane_commands = {1}, .meeting_members = {}}, &worker),
               std::system_error);
}

class IdleDevice : public cuda::LateDevice {
 public:
  Status StartThread(std::size_t) override { return Unit{}; }
  Result<bool> Happened(EventId) override { return true; }
  Status LaunchNow(TaskId) override { return Unit{}; }
  Status RecordNow(EventId, TaskId) override { return Unit{}; }
};

TEST_F(FewThreadsTest, LateLanesSaySo) {
  IdleDevice device;
  EXPECT_THROW(
      cuda::LateLanes({.lane_commands = {1, 1}, .thread_of_lane = {0, 1}, .events = 1}, &device),
      std::system_error);
}

}  // namespace
}  // namespace twinstep
