#include "sim/estimate/protrain_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

namespace twinstep {
namespace {

using ::testing::HasSubstr;

// Four chunks of 8 bytes and 4 parameters on two ranks. A gather or reduction takes 2 s, a shard's
// upload 1 s, its offload 2 s.
ProTrainRates Rates() {
  return {.ranks = 2,
          .gather_bytes_per_s = 4,
          .reduce_bytes_per_s = 4,
          .upload_bytes_per_s = 4,
          .offload_bytes_per_s = 2,
          .gpu_adam_params_per_s = 2,
          .cpu_adam_params_per_s = 0.5};
}

ProTrainPlan Plan(std::int64_t persistent, std::int64_t buffers, double forward_s,
                  double backward_s, double recompute_s = 0) {
  return {.chunks = std::vector<ProTrainChunk>(4, {.bytes = 8,
                                                   .parameters = 4,
                                                   .forward_s = forward_s,
                                                   .backward_s = backward_s,
                                                   .recompute_s = recompute_s}),
          .persistent_chunks = persistent,
          .buffers = buffers};
}

TEST(ProTrainTimeTest, ComputeBound) {
  // Eq 4: 2 + 1. Eq 6: 2 + 2. Eq 7: the last three are in their buffers.
  const ProTrainTime time = EstimateTime(Plan(0, 3, 5, 10), Rates()).value();
  EXPECT_DOUBLE_EQ(time.chunks[1].prefetch_forward_s, 3);
  EXPECT_DOUBLE_EQ(time.chunks[0].prefetch_backward_s, 3);
  EXPECT_DOUBLE_EQ(time.chunks[1].prefetch_backward_s, 0);
  EXPECT_DOUBLE_EQ(time.chunks[3].reduce_offload_s, 4);
  EXPECT_DOUBLE_EQ(time.forward_s, 3 + 4 * 5);  // The first fetch is exposed.
  EXPECT_DOUBLE_EQ(time.forward_exposed_s(), 3);
  EXPECT_DOUBLE_EQ(time.backward_s, 4 * 10);
  EXPECT_DOUBLE_EQ(time.backward_exposed_s(), 0);
  // Two parameters of each chunk on this rank.
  EXPECT_DOUBLE_EQ(time.cpu_optimizer_s, 4 * 2 / 0.5);
  EXPECT_DOUBLE_EQ(time.gpu_optimizer_s, 0);
  EXPECT_DOUBLE_EQ(time.total_s(), 23 + 40);
}

TEST(ProTrainTimeTest, CommunicationBound) {
  const ProTrainTime time = EstimateTime(Plan(0, 0, 1, 2), Rates()).value();
  EXPECT_DOUBLE_EQ(time.forward_s, 4 * 3 + 1);  // Fetches, then the last computation.
  // Slots: reduce 4, 4, 4 (chunks 2 to 4), fetch 3 (chunk 3), fetch 3 (chunk 4).
  EXPECT_DOUBLE_EQ(time.backward_s, 4 + 4 + 4 + 3 + 3);
  EXPECT_DOUBLE_EQ(time.backward_compute_s, 8);
  EXPECT_DOUBLE_EQ(time.backward_exposed_s(), 10);
  EXPECT_DOUBLE_EQ(time.total_s(), 13 + 18);  // CPU Adam, 16 s, hides in the backward.
}

TEST(ProTrainTimeTest, PersistentChunksAndRecomputation) {
  const ProTrainTime time = EstimateTime(Plan(2, 3, 1, 2, 1), Rates()).value();
  // Slots: chunk 1 waits for nothing; 1 computes beside nothing; 2 beside the fetch of 3, ...
  EXPECT_DOUBLE_EQ(time.forward_s, 0 + 1 + 3 + 3 + 1);
  EXPECT_DOUBLE_EQ(time.chunks[1].reduce_offload_s, 2);
  // Compute and recompute 3; reductions 2 (chunk 2), 4 (chunk 3), 4 (chunk 4).
  EXPECT_DOUBLE_EQ(time.backward_s, 3 + 4 + 4 + 3 + 0);
  EXPECT_DOUBLE_EQ(time.recompute_s, 4);
  EXPECT_DOUBLE_EQ(time.gpu_optimizer_s, 2 * 2 / 2);
  EXPECT_DOUBLE_EQ(time.cpu_optimizer_s, 2 * 2 / 0.5);
  EXPECT_DOUBLE_EQ(time.total_s(), 8 + 14 + 2);
}

TEST(ProTrainTimeTest, SlowCpuOptimizerEndsTheIteration) {
  ProTrainRates rates = Rates();
  rates.cpu_adam_params_per_s = 0.1;
  const ProTrainTime time = EstimateTime(Plan(0, 3, 5, 10), rates).value();
  EXPECT_DOUBLE_EQ(time.total_s(), 23 + 4 * 2 / 0.1);
}

TEST(ProTrainTimeTest, CpuOptimizerAfterTheBackward) {
  ProTrainPlan plan = Plan(0, 3, 5, 10);
  plan.cpu_optimizer_overlaps = false;
  EXPECT_DOUBLE_EQ(EstimateTime(plan, Rates()).value().total_s(), 23 + 40 + 16);
}

TEST(ProTrainTimeTest, OneRankHasNoCollectives) {
  ProTrainRates rates = Rates();
  rates.ranks = 1;
  rates.gather_bytes_per_s = rates.reduce_bytes_per_s = 0;
  const ProTrainTime time = EstimateTime(Plan(0, 0, 1, 2), rates).value();
  EXPECT_DOUBLE_EQ(time.chunks[0].prefetch_forward_s, 2);  // The whole chunk.
  EXPECT_DOUBLE_EQ(time.chunks[0].reduce_offload_s, 4);
}

TEST(ProTrainTimeTest, ReducedBandwidthBesideSwap) {
  ProTrainRates rates = Rates();
  rates.upload_beside_swap_bytes_per_s = 2;
  ProTrainPlan plan = Plan(0, 0, 1, 2);
  plan.chunks[1].forward_beside_swap = true;
  plan.chunks[2].backward_beside_swap = true;
  const ProTrainTime time = EstimateTime(plan, rates).value();
  EXPECT_DOUBLE_EQ(time.chunks[1].prefetch_forward_s, 2 + 2);
  EXPECT_DOUBLE_EQ(time.chunks[1].prefetch_backward_s, 3);
  EXPECT_DOUBLE_EQ(time.chunks[2].prefetch_backward_s, 2 + 2);
}

TEST(ProTrainTimeTest, LatencyOfEachTransfer) {
  ProTrainRates rates = Rates();
  rates.collective_latency_s = 0.25;
  rates.copy_latency_s = 0.5;
  const ProTrainTime time = EstimateTime(Plan(0, 0, 1, 2), rates).value();
  EXPECT_DOUBLE_EQ(time.chunks[0].prefetch_forward_s, 3.75);
  EXPECT_DOUBLE_EQ(time.chunks[0].reduce_offload_s, 4.75);
}

TEST(ProTrainTimeTest, BadInput) {
  EXPECT_EQ(EstimateTime(Plan(5, 0, 1, 2), Rates()).error().code, ExitCode::kBadInput);
  EXPECT_EQ(EstimateTime(Plan(0, -1, 1, 2), Rates()).error().code, ExitCode::kBadInput);
  ProTrainRates rates = Rates();
  rates.offload_bytes_per_s = 0;
  EXPECT_THAT(EstimateTime(Plan(0, 3, 1, 2), rates).error().message,
              HasSubstr("offload_bytes_per_s"));
  EXPECT_TRUE(EstimateTime(Plan(4, 0, 1, 2), rates).ok());  // Nothing moves over PCIe.
  EXPECT_TRUE(EstimateTime({}, {}).ok());
}

// More persistent chunks and more buffers never cost time in the forward and backward, and no plan
// beats its computation.
RC_GTEST_PROP(ProTrainTimeProperty, MemoryBuysTime, ()) {
  ProTrainPlan plan;
  const auto count = *rc::gen::inRange<std::int64_t>(1, 12);
  const auto seconds = [] { return *rc::gen::inRange(0, 50) / 10.0; };
  for (std::int64_t i = 0; i < count; ++i) {
    plan.chunks.push_back({.bytes = 8,
                           .parameters = 4,
                           .forward_s = seconds(),
                           .backward_s = seconds(),
                           .recompute_s = seconds()});
  }
  plan.persistent_chunks = *rc::gen::inRange<std::int64_t>(0, count);
  plan.buffers = *rc::gen::inRange<std::int64_t>(0, count + 1);
  const ProTrainTime time = EstimateTime(plan, Rates()).value();
  RC_ASSERT(time.forward_exposed_s() >= 0 && time.backward_exposed_s() >= -1e-9);
  ProTrainPlan more = plan;
  ++more.buffers;
  const ProTrainTime buffered = EstimateTime(more, Rates()).value();
  RC_ASSERT(buffered.backward_s <= time.backward_s);
  RC_ASSERT(buffered.forward_s == time.forward_s);
  more = plan;
  ++more.persistent_chunks;
  const ProTrainTime persistent = EstimateTime(more, Rates()).value();
  RC_ASSERT(persistent.forward_s <= time.forward_s);
  RC_ASSERT(persistent.backward_s <= time.backward_s);
}

// Running sums say what the sums say, for any chunks, rates and counts.
RC_GTEST_PROP(ProTrainTimesTest, AreThoseOfOnePlan, ()) {
  const auto seconds = [] { return 0.5 * *rc::gen::inRange(0, 20); };
  ProTrainPlan plan;
  plan.cpu_optimizer_overlaps = *rc::gen::arbitrary<bool>();
  const int count = *rc::gen::inRange(0, 9);
  for (int i = 0; i < count; ++i) {
    plan.chunks.push_back({.bytes = 8,
                           .parameters = 4,
                           .forward_s = seconds(),
                           .backward_s = seconds(),
                           .recompute_s = seconds(),
                           .forward_beside_swap = *rc::gen::arbitrary<bool>(),
                           .backward_beside_swap = *rc::gen::arbitrary<bool>()});
  }
  ProTrainRates rates = Rates();
  rates.upload_beside_swap_bytes_per_s = 3;
  rates.ranks = *rc::gen::inRange(1, 3);
  rates.cpu_adam_params_per_s = 0.25 * *rc::gen::inRange(1, 9);
  const ProTrainTimes times = ProTrainTimes::Of(plan, rates).value();
  for (plan.persistent_chunks = 0; plan.persistent_chunks <= count; ++plan.persistent_chunks) {
    for (plan.buffers = 0; plan.buffers <= count + 1; ++plan.buffers) {
      const double total_s = EstimateTime(plan, rates).value().total_s();
      const double found_s = times.total_s(plan.persistent_chunks, plan.buffers);
      RC_ASSERT(std::abs(found_s - total_s) <= 1e-9 * (1 + total_s));
    }
  }
}

}  // namespace
}  // namespace twinstep
