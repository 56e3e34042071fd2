#include "sim/report/schedule_view.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "sim/report/pipeline_steps.h"
#include "tests/traces/tiny_graph.h"

namespace twinstep {
namespace {

using testing::MakeTinyRun;
using testing::TinyTask;

TinyTask Step(bool backward, std::uint16_t micro_batch, std::uint16_t stage, Picoseconds start,
              Picoseconds end) {
  return {.phase = backward ? Phase::kBackward : Phase::kForward,
          .micro_batch = micro_batch,
          .stage = stage,
          .ready_ps = start,
          .start_ps = start,
          .end_ps = end};
}

TEST(ScheduleViewTest, DrawsTwoRanksOfOneForwardOneBackward) {
  constexpr Picoseconds kSecond = 1'000'000'000'000;
  const auto step = [](bool backward, std::uint16_t micro_batch, std::uint16_t stage, int start,
                       int end) {
    return Step(backward, micro_batch, stage, start * kSecond, end * kSecond);
  };
  // tF = 1 s, tB = 2 s, two micro-batches: (m + p - 1)(tF + tB) = 9 s.
  const testing::TinyRun run = MakeTinyRun({{step(false, 0, 0, 0, 1), step(false, 1, 0, 1, 2),
                                             step(true, 0, 0, 4, 6), step(true, 1, 0, 7, 9)},
                                            {step(false, 0, 1, 1, 2), step(true, 0, 1, 2, 4),
                                             step(false, 1, 1, 4, 5), step(true, 1, 1, 5, 7)}});
  EXPECT_EQ(DrawSchedule(run.graph, run.replay, {.width = 54}),
            "Schedule: F3 forward, B3 backward of micro-batch 3, . neither\n"
            "rank 0   F0---F1---..........B0========.....B1========\n"
            "rank 1   .....F0---B0========F1---B1========..........\n"
            "         0 s                                   9.000 s\n");
}

TEST(ScheduleViewTest, LongSchedulesShowBeginningAndEndInDetail) {
  std::vector<TinyTask> tasks;
  Picoseconds now = 0;
  for (std::uint16_t i = 0; i < 100; ++i) {
    tasks.push_back(Step(false, i, static_cast<std::uint16_t>(i % 2), now, now + 1000));
    tasks.push_back(Step(true, i, static_cast<std::uint16_t>(i % 2), now + 1000, now + 3000));
    now += 3000;
  }
  const testing::TinyRun run = MakeTinyRun({tasks});
  const std::string text = DrawSchedule(run.graph, run.replay, {.width = 60});
  EXPECT_NE(text.find("\nrank 0   xxxxx"), std::string::npos) << text;
  EXPECT_NE(text.find("a, b ... stages of a device"), std::string::npos);
  EXPECT_NE(text.find("\nIts beginning\nrank 0   F0a--B0a"), std::string::npos) << text;
  EXPECT_NE(text.find("\nIts end\n"), std::string::npos);
  EXPECT_NE(text.find("B99b"), std::string::npos);
  std::size_t longest = 0;
  for (std::size_t begin = text.find("rank 0"); begin != std::string::npos;) {
    const std::size_t end = text.find('\n', begin);
    longest = std::max(longest, end - begin);
    begin = text.find("rank 0", end);
  }
  EXPECT_EQ(longest, 60u);
}

TEST(ScheduleViewTest, ColourOnlyWhereAsked) {
  const testing::TinyRun run = MakeTinyRun({{Step(false, 0, 0, 0, 1000)}});
  EXPECT_EQ(DrawSchedule(run.graph, run.replay, {}).find('\x1b'), std::string::npos);
  EXPECT_NE(DrawSchedule(run.graph, run.replay, {.colour = true}).find("\x1b[0m"),
            std::string::npos);
}

// Rank 0 of p = 4, v = 2, m = 8 in the order of the paper's code: one offload in flight, and two
// reload buffers. Which copy runs beside which step is Yuan et al.'s table 10.
class OffloadedRank : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* const kOrder[] = {"F00", "F10", "F20", "F30", "F04", "F14", "F24", "F34",
                                  "F40", "F50", "F60", "B04", "F70", "B14", "F44", "B24",
                                  "F54", "B34", "F64", "B00", "F74", "B10", "B20", "B30",
                                  "B44", "B54", "B64", "B74", "B40", "B50", "B60", "B70"};
    std::vector<TinyTask> tasks;
    std::vector<std::pair<TaskId, TaskId>> edges;
    std::vector<BlockId> reload_order;
    for (const std::string op : kOrder) {
      if (op[0] == 'B') reload_order.push_back(Block(op));
    }
    const std::size_t warm_up = 10;  // Forwards before the first that is paired.
    std::size_t next_reload = 0;
    TaskId previous = kNone, offload = kNone, reload = kNone;
    BlockId unsaved{};
    bool has_unsaved = false;
    std::size_t step = 0;
    for (const std::string op : kOrder) {
      const bool backward = op[0] == 'B';
      // Copies are waited for after a forward of the pair, or after each step outside of pairs.
      const bool copies_begin = step <= warm_up || backward;
      std::vector<TaskId> waited;
      if (copies_begin) {
        if (offload != kNone) waited.push_back(offload);
        if (reload != kNone) waited.push_back(reload);
        offload = reload = kNone;
        if (has_unsaved) {
          offload = Add(&tasks, &edges, TaskKind::kD2H, unsaved, previous);
          has_unsaved = false;
        }
        if (step >= warm_up && next_reload < reload_order.size()) {
          reload = Add(&tasks, &edges, TaskKind::kH2D, reload_order[next_reload++], previous);
        }
      }
      const auto id = static_cast<TaskId>(tasks.size());
      tasks.push_back(Step(backward, Block(op).micro_batch, Block(op).stage, 0, 0));
      if (previous != kNone) edges.push_back({previous, id});
      for (const TaskId copy : waited) edges.push_back({copy, id});
      previous = id;
      if (!backward) {
        unsaved = Block(op);
        has_unsaved = true;
      }
      ++step;
    }
    run_ = MakeTinyRun({tasks}, edges);
    steps_ = StepsOfRank(run_.graph, 0);
    states_ = StatesOfSteps(run_.graph, run_.replay, 0, steps_);
    ASSERT_EQ(states_.size(), 32u);
  }

  static BlockId Block(const std::string& op) {
    return {static_cast<std::uint16_t>(op[1] - '0'), static_cast<std::uint16_t>(op[2] - '0')};
  }
  static TaskId Add(std::vector<TinyTask>* tasks, std::vector<std::pair<TaskId, TaskId>>* edges,
                    TaskKind kind, BlockId block, TaskId after) {
    const auto id = static_cast<TaskId>(tasks->size());
    tasks->push_back({.kind = kind,
                      .lane = kind == TaskKind::kD2H ? Lane::kD2H : Lane::kH2D,
                      .micro_batch = block.micro_batch,
                      .stage = block.stage});
    edges->push_back({after, id});
    return id;
  }

  // "offloading reloading | living whole buffers host", as a row of the paper's table.
  std::string Row(std::size_t step) const {
    const StepState& s = states_[step];
    const auto name = [](const std::optional<BlockId>& block) {
      return block ? std::to_string(block->micro_batch) + std::to_string(block->stage) : "-";
    };
    return name(s.offloading) + " " + name(s.reloading) + " | " + std::to_string(s.living) + " " +
           std::to_string(s.whole_on_gpu) + " " + std::to_string(s.reload_buffers) + " " +
           std::to_string(s.on_host);
  }

  testing::TinyRun run_;
  std::vector<PipelineStep> steps_;
  std::vector<StepState> states_;
};

TEST_F(OffloadedRank, StatesAreTable10) {
  const std::map<std::size_t, std::string> table = {
      {0, "- - | 1 1 0 0"},     {1, "00 - | 2 2 0 0"},    {2, "10 - | 3 2 0 1"},
      {9, "40 - | 10 2 0 8"},   {10, "50 04 | 11 2 1 9"}, {11, "60 14 | 11 1 2 9"},
      {12, "60 14 | 11 2 1 9"}, {13, "70 24 | 11 1 2 9"}, {14, "70 24 | 11 2 1 9"},
      {15, "44 34 | 11 1 2 9"}, {16, "44 34 | 11 2 1 9"}, {20, "64 10 | 11 2 1 9"},
      {21, "74 20 | 11 1 2 9"}, {22, "- 30 | 10 0 2 9"},  {23, "- 44 | 9 0 2 8"},
      {30, "- 70 | 2 0 2 1"},   {31, "- - | 1 0 1 0"}};
  for (const auto& [step, row] : table) EXPECT_EQ(Row(step), row) << "step " << step;
}

TEST_F(OffloadedRank, TextShowsTheMaxima) {
  const std::string text = StepTable(run_.graph, run_.replay, 0);
  EXPECT_NE(text.find("\n  10    F(6,0)     (5,0)       (0,4)          11             2"),
            std::string::npos)
      << text;
  // vp + p - 1 living, vp + p - 3 on the host.
  EXPECT_NE(text.find("  most                                        11             2"
                      "               2        9\n"),
            std::string::npos)
      << text;
}

TEST_F(OffloadedRank, LongTablesLeaveOutTheMiddle) {
  const std::string text = StepTable(run_.graph, run_.replay, 0, 8);
  EXPECT_NE(text.find("24 steps"), std::string::npos);
  EXPECT_NE(text.find("F(3,0)"), std::string::npos);
  EXPECT_EQ(text.find("F(0,4)"), std::string::npos);
  EXPECT_NE(text.find("B(4,0)"), std::string::npos);
}

TEST(PipelineStepsTest, BlocksThatAreNeverOffloadedStayWhole) {
  const testing::TinyRun run = MakeTinyRun({{Step(false, 0, 0, 0, 1), Step(false, 1, 0, 1, 2),
                                             Step(true, 0, 0, 2, 3), Step(true, 1, 0, 3, 4)}},
                                           {{0, 1}, {1, 2}, {2, 3}});
  const std::vector<PipelineStep> steps = StepsOfRank(run.graph, 0);
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_TRUE(steps[2].backward);
  const std::vector<StepState> states = StatesOfSteps(run.graph, run.replay, 0, steps);
  const int living[] = {1, 2, 2, 1};
  for (std::size_t k = 0; k < 4; ++k) {
    EXPECT_EQ(states[k].living, living[k]);
    EXPECT_EQ(states[k].whole_on_gpu, living[k]);
    EXPECT_EQ(states[k].reload_buffers, 0);
    EXPECT_EQ(states[k].on_host, 0);
    EXPECT_FALSE(states[k].offloading.has_value());
  }
}

}  // namespace
}  // namespace twinstep
