#include "sim/graph/fuse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "tests/graph/graph_builder.h"
#include "tests/graph/tiny_model.h"

namespace twinstep {
namespace {

using testing::ElementsAre;

std::vector<TaskId> Members(const FusedGraph& fused, TaskId id) {
  const auto members = fused.MembersOf(id);
  return {members.begin(), members.end()};
}

TEST(FuseTest, ChainOfComputationsIsOneTask) {
  GraphBuilder builder(1);
  const BufferId x = builder.AddBuffer(0, 64, {.persistent = true});
  for (int i = 0; i < 4; ++i) builder.Compute(0, {x}, {x});
  const FusedGraph fused = Fuse(builder.Build());
  ASSERT_EQ(fused.graph.TaskCount(), 1u);
  EXPECT_THAT(Members(fused, 0), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(fused.graph.EdgeCount(), 0u);
}

TEST(FuseTest, CopyThatStartsInBetweenEndsARun) {
  GraphBuilder builder(1);
  const BufferId x = builder.AddBuffer(0, 64, {.persistent = true});
  const BufferId y = builder.AddBuffer(0, 64);
  const BufferId host = builder.AddBuffer(0, 64, {.pool = Pool::kPinnedHost});
  builder.Compute(0, {x}, {x});  // 0
  builder.Compute(0, {x}, {y});  // 1: the copy waits for it.
  builder.CopyD2H(y, host);      // 2
  builder.Compute(0, {x}, {x});  // 3
  builder.Compute(0, {x}, {y});  // 4: waits for the copy.
  builder.Compute(0, {x}, {x});  // 5
  const FusedGraph fused = Fuse(builder.Build());
  ASSERT_EQ(fused.graph.TaskCount(), 4u);
  EXPECT_THAT(Members(fused, 0), ElementsAre(0, 1));
  EXPECT_THAT(Members(fused, 1), ElementsAre(2));
  EXPECT_THAT(Members(fused, 2), ElementsAre(3));
  EXPECT_THAT(Members(fused, 3), ElementsAre(4, 5));
  EXPECT_THAT(fused.graph.Successors(0), ElementsAre(1, 2));
  EXPECT_THAT(fused.graph.Successors(1), ElementsAre(3));
  EXPECT_THAT(fused.graph.Successors(2), ElementsAre(3));
}

TEST(FuseTest, MembersMayLieApartInIssueOrder) {
  GraphBuilder builder(1);
  const BufferId x = builder.AddBuffer(0, 64, {.persistent = true});
  const BufferId y = builder.AddBuffer(0, 64, {.persistent = true});
  const BufferId host = builder.AddBuffer(0, 64, {.pool = Pool::kPinnedHost});
  builder.Compute(0, {x}, {x});
  builder.CopyD2H(y, host);  // Nobody's business.
  builder.Compute(0, {x}, {x});
  const FusedGraph fused = Fuse(builder.Build());
  ASSERT_EQ(fused.graph.TaskCount(), 2u);
  EXPECT_THAT(Members(fused, 0), ElementsAre(0, 2));
  EXPECT_THAT(Members(fused, 1), ElementsAre(1));
}

TEST(FuseTest, RanksAndMeetingsStayApart) {
  const TaskGraph graph = MakeTinyModel({.t = 2, .d = 2, .m = 2, .offload = true, .clip = true});
  const FusedGraph fused = Fuse(graph);
  EXPECT_LT(fused.graph.TaskCount(), graph.TaskCount());
  std::set<TaskId> seen;
  for (TaskId id = 0; id < fused.graph.TaskCount(); ++id) {
    const Task& task = fused.graph.tasks[id];
    for (const TaskId member : fused.MembersOf(id)) {
      EXPECT_TRUE(seen.insert(member).second);
      EXPECT_EQ(graph.tasks[member].rank, task.rank);
      EXPECT_EQ(graph.tasks[member].lane, task.lane);
      EXPECT_EQ(graph.tasks[member].kind, task.kind);
      EXPECT_EQ(graph.tasks[member].rendezvous, task.rendezvous);
    }
    EXPECT_GE(id, fused.graph.rank_begin[task.rank]);
    EXPECT_LT(id, fused.graph.rank_begin[task.rank + 1]);
    for (const TaskId next : fused.graph.Successors(id)) EXPECT_GT(next, id);
  }
  EXPECT_EQ(seen.size(), graph.tasks.size());
  // As short as can be: two neighbours of a compute lane stay apart only where one has to.
  const FusedGraph again = Fuse(fused.graph);
  EXPECT_EQ(again.graph.TaskCount(), fused.graph.TaskCount());
}

}  // namespace
}  // namespace twinstep
