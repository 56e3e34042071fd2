// A fixture for closed forms that both engines must give: to the picosecond the fast engine, within
// a nanosecond SimGrid, which computes in floating point.
//
//   using TurnsTest = BothEnginesTest;
//   INSTANTIATE_TEST_SUITE_P(Engines, TurnsTest, BothEngines(), EngineName);
//   TEST_P(TurnsTest, EmptyGraph) { EXPECT_EQ(Run(graph, costs).makespan_ps, 0); }
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/engine/engine.h"

namespace twinstep {

struct EngineCase {
  const char* name;
  std::unique_ptr<Engine> (*make)();
  Picoseconds tolerance;
};

inline auto BothEngines() {
  return ::testing::Values(EngineCase{"fast", MakeFastEngine, 0},
                           EngineCase{"simgrid", MakeSimgridEngine, 1000});
}

inline std::string EngineName(const ::testing::TestParamInfo<EngineCase>& which) {
  return which.param.name;
}

class BothEnginesTest : public ::testing::TestWithParam<EngineCase> {
 protected:
  void SetUp() override {
    engine_ = GetParam().make();
    if (engine_ == nullptr) GTEST_SKIP() << "built without " << GetParam().name;
  }

  Replay Run(const TaskGraph& graph, const GraphCosts& costs) {
    Result<Replay> replay = engine_->Run(graph, costs);
    if (!replay.ok()) {
      ADD_FAILURE() << replay.error().message;
      return {.start_ps = std::vector<Picoseconds>(graph.tasks.size(), -1),
              .end_ps = std::vector<Picoseconds>(graph.tasks.size(), -1),
              .ready_ps = std::vector<Picoseconds>(graph.tasks.size(), -1),
              .boost_left_ps = {}};
    }
    return std::move(replay).value();
  }

  void ExpectTime(Picoseconds actual, Picoseconds expected, const char* what) {
    EXPECT_LE(std::abs(actual - expected), GetParam().tolerance)
        << what << " is " << actual << ", should be " << expected;
  }

  void ExpectTimes(const Replay& replay, TaskId id, Picoseconds start, Picoseconds end,
                   const char* what) {
    ExpectTime(replay.start_ps[id], start, (std::string("start of ") + what).c_str());
    ExpectTime(replay.end_ps[id], end, (std::string("end of ") + what).c_str());
  }

  std::unique_ptr<Engine> engine_;
};

}  // namespace twinstep
