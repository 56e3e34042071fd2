#include "traces/show/timeline.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "tests/traces/tiny_graph.h"
#include "traces/breakdown.h"
#include "traces/imported_names.h"
#include "traces/show/dependencies.h"
#include "traces/trace_builder.h"

namespace twinstep {
namespace {

Trace TinyTrace() {
  const testing::TinyRun run = testing::TwoRankRun();
  return BuildTrace(run.graph, run.replay, "two ranks");
}

// A rank with one lane.
Trace OneLane() {
  Trace trace;
  trace.add_ranks();
  for (auto* names : {trace.mutable_lanes(), trace.mutable_kinds(), trace.mutable_phases(),
                      trace.mutable_operators()}) {
    names->Add("stream 7");
  }
  return trace;
}

void AddEvent(std::int64_t start_ps, std::int64_t end_ps, Trace* trace) {
  trace->add_task(static_cast<std::uint32_t>(trace->task_size()));
  for (auto* column : {trace->mutable_rank(), trace->mutable_lane(), trace->mutable_kind(),
                       trace->mutable_phase(), trace->mutable_op(), trace->mutable_micro_batch(),
                       trace->mutable_stage(), trace->mutable_block(), trace->mutable_chunk()}) {
    column->Add(0);
  }
  trace->add_ready_ps(start_ps);
  trace->add_start_ps(start_ps);
  trace->add_end_ps(end_ps);
  trace->add_bytes(0);
}

TEST(TimelineTest, ALaneOfARankIsARow) {
  const Trace trace = TinyTrace();
  const Timeline timeline = ArrangeRows(trace);
  // Rank 0: compute, dp, send; rank 1: compute, d2h, dp, recv.
  ASSERT_EQ(timeline.rows.size(), 7);
  EXPECT_EQ(timeline.rows[0].rank, 0);
  EXPECT_EQ(timeline.rows[0].end, 2);
  EXPECT_EQ(timeline.rows[3].rank, 1);
  EXPECT_EQ(timeline.rows.back().end, 10);
  const auto class_of = [&](std::size_t row) {
    return static_cast<TimeClass>(
        timeline.time_classes[static_cast<std::size_t>(timeline.events[timeline.rows[row].begin])]);
  };
  EXPECT_EQ(class_of(0), TimeClass::kCompute);
  EXPECT_EQ(class_of(1), TimeClass::kDataParallel);
  EXPECT_EQ(class_of(4), TimeClass::kCopies);
}

TEST(TimelineTest, ImportedLanesAreToldApartByKind) {
  Trace trace = OneLane();
  for (const char* kind : {"compute", "collective", "d2h", kPeerCopyKind}) trace.add_kinds(kind);
  for (std::uint32_t kind = 0; kind < 5; ++kind) {
    AddEvent(10 * kind, 10 * kind + 10, &trace);
    trace.set_kind(static_cast<int>(kind), kind);
  }
  const std::vector<std::uint8_t> expected = {
      kOtherTimeClass, static_cast<std::uint8_t>(TimeClass::kCompute), kCommunicationTimeClass,
      static_cast<std::uint8_t>(TimeClass::kCopies), static_cast<std::uint8_t>(TimeClass::kCopies)};
  EXPECT_EQ(ArrangeRows(trace).time_classes, expected);
}

RC_GTEST_PROP(TimelineTest, NoEventIsLostAndNoneIsOnTopOfAnother,
              (const std::vector<std::pair<std::uint8_t, std::uint8_t>>& spans)) {
  Trace trace = OneLane();
  for (const auto& [start, length] : spans) AddEvent(start, start + length, &trace);
  const Timeline timeline = ArrangeRows(trace);
  RC_ASSERT(std::set<int>(timeline.events.begin(), timeline.events.end()).size() == spans.size());
  for (const TimelineRow& row : timeline.rows) {
    for (std::size_t i = row.begin + 1; i < row.end; ++i) {
      RC_ASSERT(trace.end_ps(timeline.events[i - 1]) <= trace.start_ps(timeline.events[i]));
    }
  }
  // As many rows as events that run at once, at the busiest moment.
  std::size_t most = 0;
  for (const auto& [moment, unused] : spans) {
    const auto at_once = std::count_if(spans.begin(), spans.end(), [m = moment](const auto& span) {
      return span.first <= m && m < span.first + span.second;
    });
    most = std::max(most, static_cast<std::size_t>(at_once));
  }
  // What takes no time may need a row of its own.
  const bool all_take_time =
      std::all_of(spans.begin(), spans.end(), [](const auto& span) { return span.second > 0; });
  if (all_take_time) RC_ASSERT(timeline.rows.size() == most);
}

std::vector<std::uint32_t> CriticalTasks(const Trace& trace) {
  const Timeline timeline = ArrangeRows(trace);
  const auto graph = Dependencies::Of(trace, timeline);
  EXPECT_TRUE(graph.ok());
  std::vector<std::uint32_t> tasks;
  for (const std::uint32_t place : CriticalEvents(trace, timeline, *graph.value())) {
    tasks.push_back(trace.task(timeline.events[place]));
  }
  return tasks;
}

TEST(DependenciesTest, TheCriticalPathGoesBackThroughRendezvous) {
  // Of the tasks that end last, the first: rank 0's optimizer (3). It waits for the reduction (2),
  // which waits for rank 1's copy (6), which waits for the message (4), for which rank 0 computed
  // (0).
  const std::vector<std::uint32_t> expected = {0, 4, 6, 2, 3};
  EXPECT_EQ(CriticalTasks(TinyTrace()), expected);
}

TEST(DependenciesTest, AreTheGraphsEdgesButTheOrderOfLanes) {
  const testing::TinyRun run = testing::TwoRankRun();
  const Trace trace = TinyTrace();
  std::set<std::pair<std::uint32_t, std::uint32_t>> edges, traced;
  for (TaskId from = 0; from < run.graph.TaskCount(); ++from) {
    for (const TaskId to : run.graph.Successors(from)) edges.emplace(from, to);
  }
  edges.erase({5, 7});  // Rank 1's forward and recomputation, one behind the other in a lane.
  const Timeline timeline = ArrangeRows(trace);
  const auto graph = Dependencies::Of(trace, timeline);
  ASSERT_TRUE(graph.ok() && graph.value().has_value());
  for (std::size_t place = 0; place < timeline.events.size(); ++place) {
    for (const std::uint32_t before : graph.value()->Before(place)) {
      traced.emplace(trace.task(timeline.events[before]), trace.task(timeline.events[place]));
    }
  }
  EXPECT_EQ(traced, edges);
}

TEST(DependenciesTest, ATraceWithoutItsGraphHasNone) {
  Trace trace = TinyTrace();
  trace.clear_dependency_count();
  trace.clear_dependency();
  const auto graph = Dependencies::Of(trace, ArrangeRows(trace));
  ASSERT_TRUE(graph.ok());
  EXPECT_FALSE(graph.value().has_value());
}

TEST(DependenciesTest, ADependencyOnNothingIsAnError) {
  Trace trace = TinyTrace();
  trace.set_dependency(0, -77);
  const auto graph = Dependencies::Of(trace, ArrangeRows(trace));
  ASSERT_FALSE(graph.ok());
  EXPECT_NE(graph.error().message.find("which the trace does not have"), std::string::npos);
}

}  // namespace
}  // namespace twinstep
