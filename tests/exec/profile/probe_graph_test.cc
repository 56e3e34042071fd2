#include "exec/profile/probe_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "sim/lower/lower.h"
#include "tests/exec/profile/small_gpus.h"
#include "tests/exec/runtime/small_models.h"
#include "tests/exec/runtime/training_run.h"

namespace twinstep {
namespace {

using testing::SizeIs;

constexpr std::int64_t kKilobyte = 1024;

// What joins ranks is measured by itself: no two at once, whatever lanes they have.
TEST(ProbeGraph, MeetingsComeOneAfterTheOther) {
  ProbeGraph probes(2);
  for (const OpCode op : {OpCode::kAllGather, OpCode::kSend, OpCode::kAllReduce}) {
    OpShape shape{.op = op, .dtype = Dtype::kBf16};
    shape.dims[0] = kKilobyte;
    probes.AddGroupOperation(shape, 2);
  }
  const TaskGraph graph = std::move(probes).Finish();
  ASSERT_EQ(graph.TaskCount(), 12u);
  for (RankId rank = 0; rank < 2; ++rank) {
    const TaskId begin = graph.rank_begin[rank];
    for (TaskId id = begin; id + 1 < graph.rank_begin[rank + 1]; ++id) {
      const bool is_other_lane = graph.tasks[id].lane != graph.tasks[id + 1].lane;
      EXPECT_EQ(is_other_lane, id - begin == 1 || id - begin == 3);
      const auto next = graph.Successors(id);
      ASSERT_EQ(next.size(), is_other_lane ? 1u : 0u);
      if (is_other_lane) {
        EXPECT_EQ(next[0], id + 1);
      }
    }
  }
}

// A shard that lies at its place in the whole does so in the probe, too.
TEST(ProbeGraph, OperandsOfOneBufferStayOne) {
  const Model model = SmallModel("llama", FP32);
  const Cluster cluster = SmallGpus(2);
  const ResolvedPlan plan = ResolvePlan(model, cluster, SmallPlan(1, 1, 1, 2), 2).value();
  const TaskGraph graph = Lower(model, cluster, plan, {.fold = false}).value();
  for (TaskId id = 0; id < graph.rank_begin[1]; ++id) {
    if (graph.shapes[graph.tasks[id].shape].op != OpCode::kAllGather) continue;
    ASSERT_EQ(graph.Reads(id)[0].buffer, graph.Writes(id)[0].buffer);
    std::vector<TaskId> members = {id};
    for (TaskId other = graph.rank_begin[1]; other < graph.TaskCount(); ++other) {
      if (graph.tasks[other].rendezvous == graph.tasks[id].rendezvous) members.push_back(other);
    }
    ProbeGraph probes(2);
    probes.AddRendezvous(graph, members, 3);
    const TaskGraph probe = std::move(probes).Finish();
    ASSERT_THAT(probe.tasks, SizeIs(6));
    ASSERT_THAT(probe.rendezvous, SizeIs(3));
    EXPECT_EQ(probe.Reads(0)[0].buffer, probe.Writes(0)[0].buffer);
    EXPECT_EQ(probe.slices[probe.Reads(0)[0].slice], graph.slices[graph.Reads(id)[0].slice]);
    return;
  }
  FAIL() << "no all-gather";
}

}  // namespace
}  // namespace twinstep
