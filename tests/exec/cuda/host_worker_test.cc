// Adam on several threads gives the CPU backend's bits.

#include "exec/cuda/host_worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <utility>
#include <vector>

#include "tests/exec/cpu/kernel_tester.h"

namespace twinstep {
namespace {

StepValues Step() { return {.step = 4, .learning_rate = 1e-2, .weight_decay = 0.1}; }

// Buffers of an Adam task of an odd number of elements that are several pieces.
struct AdamTask {
  static constexpr std::int64_t kElements = 200'003, kUndecayed = 70'001;

  AdamTask(Dtype element, Dtype gradient_dtype, bool in_place_, bool clips_)
      : in_place(in_place_),
        clips(clips_),
        gradient_type(gradient_dtype),
        shape(MakeShape(
            OpCode::kAdam, {kElements, kUndecayed},
            (in_place ? unsigned{kMasterIsParameter} : 0u) | (clips ? unsigned{kHasClip} : 0u),
            element)) {
    const Dtype state = element == Dtype::kFp64 ? Dtype::kFp64 : Dtype::kFp32;
    const Values positive(static_cast<std::size_t>(kElements), 0.25);
    buffers.emplace_back(Random(kElements, 1), gradient_dtype);
    if (!in_place) buffers.emplace_back(Random(kElements, 2), state);
    buffers.emplace_back(Random(kElements, 3), state);
    buffers.emplace_back(positive, state);
    buffers.emplace_back(Random(kElements, 4), element);
    buffers.emplace_back(Values{0.5}, Dtype::kFp64);
  }

  template <typename Runner>
  void Run(Runner&& runner) {
    std::vector<const std::byte*> reads;
    std::vector<std::byte*> writes;
    const std::size_t states = in_place ? 3 : 4;
    for (std::size_t i = 0; i < 4; ++i) reads.push_back(buffers[i].data());
    if (clips) reads.push_back(buffers.back().data());
    for (std::size_t i = 1; i < states; ++i) writes.push_back(buffers[i].data());
    writes.push_back(buffers[states].data());
    const StepValues step = Step();
    runner(KernelCall{.shape = shape,
                      .gradient_dtype = gradient_type,
                      .state_dtype = buffers[1].dtype(),
                      .reads = reads,
                      .writes = writes,
                      .step = step,
                      .place = {}});
  }

  bool in_place, clips;
  Dtype gradient_type;
  OpShape shape;
  std::vector<Buffer> buffers;
};

TEST(HostWorkerTest, AdamHasTheBitsOfOneThread) {
  struct Types {
    Dtype element, gradient;
    bool in_place;
  };
  for (const Types& types :
       {Types{Dtype::kBf16, Dtype::kFp32, false}, Types{Dtype::kBf16, Dtype::kBf16, false},
        Types{Dtype::kFp16, Dtype::kFp16, false}, Types{Dtype::kFp32, Dtype::kFp32, true},
        Types{Dtype::kFp64, Dtype::kFp64, true}}) {
    for (const bool clips : {false, true}) {
      AdamTask expected(types.element, types.gradient, types.in_place, clips);
      expected.Run([](const KernelCall& call) { RunKernel(call); });
      for (const int threads : {1, 2, 3, 8}) {
        cuda::HostWorker worker(threads);
        AdamTask task(types.element, types.gradient, types.in_place, clips);
        task.Run([&worker](const KernelCall& call) { worker.Run(call); });
        for (std::size_t i = 0; i < task.buffers.size(); ++i) {
          EXPECT_EQ(task.buffers[i].bytes(), expected.buffers[i].bytes()) << "buffer " << i;
        }
      }
    }
  }
}

// Runs an operator of two reads, the second updated in place, by one thread and by several.
void ExpectSameBits(const OpShape& shape, const std::vector<Buffer>& operands) {
  const auto run = [&](std::vector<Buffer> buffers, auto&& runner) {
    const std::vector<const std::byte*> reads{buffers[0].data(), buffers[1].data()};
    const std::vector<std::byte*> writes{buffers[1].data()};
    const StepValues step = Step();
    runner(KernelCall{.shape = shape, .reads = reads, .writes = writes, .step = step, .place = {}});
    return buffers[1].bytes();
  };
  const auto expected = run(operands, [](const KernelCall& call) { RunKernel(call); });
  for (const int threads : {1, 3, 8}) {
    cuda::HostWorker worker(threads);
    EXPECT_EQ(run(operands, [&worker](const KernelCall& call) { worker.Run(call); }), expected);
  }
}

TEST(HostWorkerTest, SumsOfGradientsHaveTheBitsOfOneThread) {
  constexpr std::int64_t kElements = 200'003;
  for (const Dtype dtype : {Dtype::kBf16, Dtype::kFp32, Dtype::kFp64}) {
    ExpectSameBits(MakeShape(OpCode::kAccumulate, {kElements}, 0, dtype),
                   {Buffer(Random(kElements, 1), dtype), Buffer(Random(kElements, 2), dtype)});
  }
}

TEST(HostWorkerTest, NormsHaveTheBitsOfOneThread) {
  constexpr std::int64_t kElements = 100'003;
  for (const auto& [begin, end] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {0, 2 * kElements}, {kElements + 5, kElements + 7}, {0, 3}, {kElements, kElements}}) {
    OpShape shape = MakeShape(OpCode::kGradNorm, {2 * kElements, begin, end}, kAccumulateGradient,
                              Dtype::kFp32);
    shape.index = 1;
    shape.count = 2;
    ExpectSameBits(
        shape, {Buffer(Random(kElements, 3), Dtype::kFp32), Buffer(Values(32, 1), Dtype::kUint8)});
  }
}

TEST(HostWorkerTest, EveryPieceRunsOnce) {
  cuda::ParallelFor loop(4);
  for (int round = 0; round < 100; ++round) {
    std::vector<std::atomic<int>> counts(37);
    loop.Run(37, [&counts](std::int64_t i) { ++counts[static_cast<std::size_t>(i)]; });
    for (const std::atomic<int>& count : counts) EXPECT_EQ(count.load(), 1);
  }
  loop.Run(0, [](std::int64_t) { FAIL(); });
}

}  // namespace
}  // namespace twinstep
