#include "exec/profile/lane_delays.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/graph/graph_builder.h"
#include "tests/graph/simple_task.h"

namespace twinstep {
namespace {

constexpr std::int64_t kUs = 1000;

// A computation, a sum of both ranks, and two computations behind it.
class LaneDelaysTest : public testing::Test {
 protected:
  LaneDelaysTest() : builder_(2) {
    const RendezvousId meeting = builder_.AddRendezvous(builder_.AddGroup({0, 1}), 2);
    for (RankId rank = 0; rank < 2; ++rank) {
      first_[rank] = AddTask(builder_, rank, TaskKind::kCompute, Lane::kCompute);
      sum_[rank] = AddTask(builder_, rank, TaskKind::kCollective, Lane::kTp, meeting);
      beside_[rank] = AddTask(builder_, rank, TaskKind::kCompute, Lane::kCompute);
      last_[rank] = AddTask(builder_, rank, TaskKind::kCompute, Lane::kCompute);
      builder_.Order(first_[rank], sum_[rank]);
      builder_.Order(sum_[rank], last_[rank]);
    }
    graph_ = builder_.Build();
    times_.resize(graph_.TaskCount());
  }
  void Set(GraphBuilder::Handle task, std::int64_t start_us, std::int64_t end_us) {
    times_[builder_.Id(task)] = {start_us * kUs, end_us * kUs};
  }
  // Rank 1 computes until 30 us later, and its clock is 1000 us ahead. Sums begin `meeting_us`
  // after the handoff of 3 us; what follows them `handoff_us` after their end.
  void SetTimes(std::int64_t handoff_us, std::int64_t meeting_us, std::int64_t beside_us) {
    const std::int64_t sum = 130 + 3 + meeting_us, end = sum + 50;
    for (RankId rank = 0; rank < 2; ++rank) {
      const std::int64_t clock = rank * 1000, first_end = rank == 0 ? 100 : 130;
      Set(first_[rank], clock, clock + first_end);
      Set(sum_[rank], clock + sum, clock + end);
      Set(beside_[rank], clock + first_end, clock + first_end + beside_us);
      Set(last_[rank], clock + end + handoff_us, clock + end + handoff_us + 10);
    }
  }
  void Add(LaneDelays* delays) {
    delays->AddIteration([this](TaskId id) { return times_[id]; });
  }

  GraphBuilder builder_;
  GraphBuilder::Handle first_[2], sum_[2], beside_[2], last_[2];
  TaskGraph graph_;
  std::vector<TaskTime> times_;
};

TEST_F(LaneDelaysTest, HandoffsAndMeetingsAreToldApart) {
  LaneDelays delays(graph_);
  SetTimes(/*handoff_us=*/3, /*meeting_us=*/4, /*beside_us=*/5);
  Add(&delays);
  EXPECT_NEAR(delays.HandoffSeconds(), 3e-6, 1e-12);
  // Of rank 1, which comes last: rank 0 waits 30 us more.
  EXPECT_NEAR(delays.MeetingSeconds(), 4e-6, 1e-12);
}

TEST_F(LaneDelaysTest, AreMedians) {
  LaneDelays delays(graph_);
  for (const std::int64_t handoff_us : {3, 3, 2}) {
    SetTimes(handoff_us, /*meeting_us=*/4, /*beside_us=*/5);
    Add(&delays);
  }
  SetTimes(/*handoff_us=*/200, /*meeting_us=*/300, /*beside_us=*/5);
  Add(&delays);
  EXPECT_NEAR(delays.HandoffSeconds(), 3e-6, 1e-12);
  EXPECT_NEAR(delays.MeetingSeconds(), 4e-6, 1e-12);
}

// What ends in the own lane later hides the handoff.
TEST_F(LaneDelaysTest, NothingIsSeenBehindALaterTaskOfTheLane) {
  LaneDelays delays(graph_);
  SetTimes(/*handoff_us=*/3, /*meeting_us=*/4, /*beside_us=*/500);
  Add(&delays);
  EXPECT_EQ(delays.HandoffSeconds(), 0);
}

TEST(LaneDelays, WhereNothingWaitsThereIsNone) {
  GraphBuilder builder(2);
  const RendezvousId meeting = builder.AddRendezvous(builder.AddGroup({0, 1}), 2);
  for (RankId rank = 0; rank < 2; ++rank) {
    AddTask(builder, rank, TaskKind::kCollective, Lane::kTp, meeting);
  }
  const TaskGraph graph = builder.Build();
  LaneDelays delays(graph);
  delays.AddIteration([](TaskId) { return TaskTime{10 * kUs, 20 * kUs}; });
  EXPECT_EQ(delays.HandoffSeconds(), 0);
  EXPECT_EQ(delays.MeetingSeconds(), 0);  // When they could begin is not known.
}

}  // namespace
}  // namespace twinstep
