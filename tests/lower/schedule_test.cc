#include "sim/lower/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "sim/lower/pipeline_order.h"

namespace twinstep {
namespace {

std::string Text(const std::vector<ScheduleUnit>& units) {
  std::string text;
  for (const ScheduleUnit& unit : units) {
    text += (unit.backward ? "B" : "F") + std::to_string(unit.micro_batch) + "." +
            std::to_string(unit.chunk) + " ";
  }
  return text;
}

TEST(Schedule, OneForwardOneBackwardByHand) {
  EXPECT_EQ(Text(RankSchedule(ONE_F_ONE_B, 3, 1, 4, 0)),
            "F0.0 F1.0 F2.0 B0.0 F3.0 B1.0 B2.0 B3.0 ");
  EXPECT_EQ(Text(RankSchedule(ONE_F_ONE_B, 3, 1, 4, 2)),
            "F0.0 B0.0 F1.0 B1.0 F2.0 B2.0 F3.0 B3.0 ");
}

TEST(Schedule, GpipeRunsBackwardsInMicroBatchOrder) {
  EXPECT_EQ(Text(RankSchedule(GPIPE, 2, 1, 3, 1)), "F0.0 F1.0 F2.0 B0.0 B1.0 B2.0 ");
}

// The operations of Yuan et al.'s table 10: p = 4, v = 2, m = 8, rank 0 (stage 4 is the rank's
// second).
TEST(Schedule, InterleavedOrderOfTable10) {
  EXPECT_EQ(Text(RankSchedule(INTERLEAVED_1F1B, 4, 2, 8, 0)),
            "F0.0 F1.0 F2.0 F3.0 F0.1 F1.1 F2.1 F3.1 F4.0 F5.0 F6.0 B0.1 F7.0 B1.1 "
            "F4.1 B2.1 F5.1 B3.1 F6.1 B0.0 F7.1 B1.0 B2.0 B3.0 B4.1 B5.1 B6.1 B7.1 "
            "B4.0 B5.0 B6.0 B7.0 ");
}

struct Shape {
  Schedule schedule;
  std::int64_t p, v, m;
};

std::vector<Shape> Shapes() {
  std::vector<Shape> shapes;
  for (std::int64_t p = 1; p <= 6; ++p) {
    for (std::int64_t m = 1; m <= 9; ++m) {
      shapes.push_back({GPIPE, p, 1, m});
      shapes.push_back({ONE_F_ONE_B, p, 1, m});
    }
    for (std::int64_t v = 2; v <= 4 && p > 1; ++v) {
      for (std::int64_t groups = 1; groups <= 4; ++groups) {
        shapes.push_back({INTERLEAVED_1F1B, p, v, groups * p});
      }
    }
  }
  return shapes;
}

TEST(Schedule, EveryUnitOnceAndBackwardsAccumulateInMicroBatchOrder) {
  for (const Shape& shape : Shapes()) {
    for (std::int64_t rank = 0; rank < shape.p; ++rank) {
      const auto units = RankSchedule(shape.schedule, shape.p, shape.v, shape.m, rank);
      ASSERT_EQ(static_cast<std::int64_t>(units.size()), 2 * shape.m * shape.v);
      std::vector<std::int64_t> next[2];
      for (auto& by_chunk : next) by_chunk.assign(static_cast<std::size_t>(shape.v), 0);
      for (const ScheduleUnit& unit : units) {
        EXPECT_EQ(unit.micro_batch, next[unit.backward][unit.chunk]++);
        if (unit.backward) {
          EXPECT_LT(unit.micro_batch, next[0][unit.chunk]);
        }
      }
    }
  }
}

// Yuan et al., ATC 2024: v p + p - 2 r - 1 blocks live at once; 1F1B min(m, p - r) (M8.1).
TEST(Schedule, LivingBlocks) {
  for (const Shape& shape : Shapes()) {
    for (std::int64_t rank = 0; rank < shape.p; ++rank) {
      std::int64_t living = 0, most = 0;
      for (const ScheduleUnit& unit :
           RankSchedule(shape.schedule, shape.p, shape.v, shape.m, rank)) {
        living += unit.backward ? -1 : 1;
        most = std::max(most, living);
      }
      const std::int64_t total = shape.m * shape.v;
      std::int64_t expected = total;
      if (shape.schedule == ONE_F_ONE_B) expected = std::min(shape.m, shape.p - rank);
      if (shape.schedule == INTERLEAVED_1F1B) {
        expected = std::min(total, shape.v * shape.p + shape.p - 2 * rank - 1);
      }
      EXPECT_EQ(most, expected) << "p " << shape.p << " v " << shape.v << " rank " << rank;
    }
  }
}

// Every message is sent and received once, after its maker and before its user, and the global
// order of all ranks' items with each message one node has no cycle.
TEST(PipelineOrder, RanksFollowOneGlobalOrder) {
  for (const Shape& shape : Shapes()) {
    const auto orders = PipelineOrders(shape.schedule, shape.p, shape.v, shape.m);
    const std::int64_t stages = shape.p * shape.v;
    const auto message = [&](std::size_t rank, const IssueItem& item) {
      const ScheduleUnit& unit = orders[rank].units[item.unit];
      std::int64_t stage = unit.chunk * shape.p + static_cast<std::int64_t>(rank);
      if (item.kind == IssueItem::Kind::kReceive) stage += unit.backward ? 1 : -1;
      return static_cast<std::size_t>((unit.micro_batch * stages + stage) * 2 +
                                      (unit.backward ? 1 : 0));
    };
    // Blocking execution: a rank stops at a message until its peer stands there too.
    std::vector<std::size_t> at(orders.size(), 0);
    std::vector<int> waiting(static_cast<std::size_t>(2 * stages * shape.m), 0);
    std::vector<bool> counted(orders.size(), false);
    bool progress = true;
    while (progress) {
      progress = false;
      for (std::size_t rank = 0; rank < orders.size(); ++rank) {
        while (at[rank] < orders[rank].items.size()) {
          const IssueItem& item = orders[rank].items[at[rank]];
          if (item.kind != IssueItem::Kind::kUnit) {
            int& there = waiting[message(rank, item)];
            if (!counted[rank]) {
              ++there;
              counted[rank] = true;
              progress = true;
            }
            if (there < 2) break;
            counted[rank] = false;
          }
          ++at[rank];
          progress = true;
        }
      }
    }
    for (std::size_t rank = 0; rank < orders.size(); ++rank) {
      EXPECT_EQ(at[rank], orders[rank].items.size())
          << Schedule_Name(shape.schedule) << " p " << shape.p << " v " << shape.v << " m "
          << shape.m << ": rank " << rank << " hangs";
    }
  }
}

}  // namespace
}  // namespace twinstep
