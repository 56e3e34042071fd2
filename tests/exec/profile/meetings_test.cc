#include "exec/profile/meetings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "tests/exec/runtime/small_models.h"
#include "tests/exec/runtime/training_run.h"

namespace twinstep {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

TaskGraph GraphOf(std::int64_t t, std::int64_t p, std::int64_t d) {
  const Model model = SmallModel("llama", FP32);
  return LowerOrDie(model, ResolveOrDie(model, SmallPlan(t, 1, p, d)));
}

bool All(const Primitive& /*primitive*/) { return true; }

TEST(Meetings, EachPrimitiveOfAllGraphsHasOne) {
  std::vector<TaskGraph> graphs;
  graphs.push_back(GraphOf(2, 1, 1));
  graphs.push_back(GraphOf(1, 2, 1));
  graphs.push_back(GraphOf(1, 1, 2));
  graphs.push_back(graphs.front());
  std::set<Primitive> wanted, found;
  for (const TaskGraph& graph : graphs) {
    for (const Primitive& primitive : PrimitivesOf(graph)) {
      if (primitive.group_size > 0) wanted.insert(primitive);
    }
  }
  const Meetings meetings = FindMeetings(graphs, All);
  ASSERT_THAT(meetings, SizeIs(1));
  for (const Meeting& meeting : meetings.at(2)) {
    ASSERT_THAT(meeting.tasks, SizeIs(2));
    EXPECT_NE(meeting.graph, &graphs.back());
    const Primitive primitive = PrimitiveOf(*meeting.graph, meeting.tasks[0]).value_or(Primitive{});
    EXPECT_TRUE(found.insert(primitive).second);
    // In the order of the group; of a message the sender is the first stage or the last.
    if (primitive.shape.op != OpCode::kSend) {
      EXPECT_EQ(meeting.graph->tasks[meeting.tasks[0]].rank, 0u);
      EXPECT_EQ(meeting.graph->tasks[meeting.tasks[1]].rank, 1u);
    }
  }
  EXPECT_TRUE(found == wanted);
}

TEST(Meetings, GroupsAreThereWhereNothingIsWanted) {
  std::vector<TaskGraph> graphs;
  graphs.push_back(GraphOf(1, 1, 2));
  const Meetings none = FindMeetings(graphs, [](const Primitive&) { return false; });
  ASSERT_THAT(none, SizeIs(1));
  EXPECT_THAT(none.at(2), IsEmpty());
  graphs.front() = GraphOf(1, 1, 1);
  EXPECT_THAT(FindMeetings(graphs, All), IsEmpty());
}

}  // namespace
}  // namespace twinstep
