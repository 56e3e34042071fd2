#include "sim/graph/fold.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "sim/graph/graph_equal.h"
#include "sim/graph/verifier.h"
#include "tests/graph/tiny_model.h"

namespace twinstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string FoldError(const TaskGraph& graph, const std::vector<std::uint32_t>& classes) {
  const Result<TaskGraph> folded = Fold(graph, classes);
  return folded.ok() ? "none" : folded.error().message;
}

TEST(FoldTest, OneClassIsTheProgramOfOneRank) {
  const TinyPlan plan{.t = 2, .c = 2, .d = 2, .m = 2, .sequence_parallel = true, .clip = true};
  const TaskGraph graph = MakeTinyModel(plan);
  const Result<TaskGraph> folded = Fold(graph, std::vector<std::uint32_t>(8, 0));
  ASSERT_TRUE(folded.ok()) << folded.error().message;
  const TaskGraph& one = folded.value();
  EXPECT_EQ(one.TaskCount() * 8, graph.TaskCount());
  EXPECT_EQ(one.EdgeCount() * 8, graph.EdgeCount());
  EXPECT_EQ(one.buffers.size() * 8, graph.buffers.size());
  EXPECT_EQ(one.tensors.size() * 8, graph.tensors.size());
  ASSERT_EQ(one.ranks.size(), 1u);
  EXPECT_EQ(one.ranks[0].class_size, 8u);
  EXPECT_TRUE(one.IsFolded());
  // Groups keep their size, and each meeting is of one representative.
  const TaskId reduce = FindTask(one, 0, OpCode::kReduceScatter);
  const Rendezvous& meeting = one.rendezvous[one.tasks[reduce].rendezvous];
  EXPECT_EQ(meeting.participants, 1u);
  EXPECT_EQ(one.groups[meeting.group].members.size(), 2u);
  EXPECT_FALSE(Verify(one).has_value()) << Verify(one)->message;
}

TEST(FoldTest, ClassesMeetAsTheirMembersDo) {
  // Tensor-parallel ranks apart, data-parallel ranks together.
  const TaskGraph graph = MakeTinyModel({.t = 2, .d = 4});
  const Result<TaskGraph> folded = Fold(graph, std::vector<std::uint32_t>{0, 1, 0, 1, 0, 1, 0, 1});
  ASSERT_TRUE(folded.ok()) << folded.error().message;
  const TaskGraph& two = folded.value();
  ASSERT_EQ(two.ranks.size(), 2u);
  EXPECT_EQ(two.ranks[1].class_size, 4u);
  const TaskId reduce = FindTask(two, 0, OpCode::kAllReduce);
  EXPECT_EQ(two.rendezvous[two.tasks[reduce].rendezvous].participants, 2u);
  EXPECT_EQ(two.tasks[FindTask(two, 1, OpCode::kAllReduce)].rendezvous,
            two.tasks[reduce].rendezvous);
  EXPECT_FALSE(Verify(two).has_value());
}

TEST(FoldTest, EveryRankItsOwnClassIsTheSameGraph) {
  const TaskGraph graph = MakeTinyModel({.t = 2, .d = 2, .m = 2, .offload = true});
  const Result<TaskGraph> folded = Fold(graph, std::vector<std::uint32_t>{0, 1, 2, 3});
  ASSERT_TRUE(folded.ok()) << folded.error().message;
  // Buffers of the builder lie mixed, those of a fold as they were.
  const std::optional<std::string> difference = FirstDifference(folded.value(), graph);
  EXPECT_FALSE(difference.has_value()) << *difference;
}

TEST(FoldTest, NamesRanksAndTaskThatAreNotSymmetric) {
  const std::vector<std::uint32_t> one_class(4, 0);
  const TinyPlan plan{.t = 2, .d = 2};
  TaskGraph graph = MakeTinyModel(plan);
  const TaskId gemm = FindTask(graph, 2, OpCode::kGemmForward);
  graph.shapes.push_back(graph.shapes[graph.tasks[gemm].shape]);
  graph.shapes.back().dims[0] = 77;
  graph.tasks[gemm].shape = static_cast<ShapeId>(graph.shapes.size() - 1);
  EXPECT_THAT(FoldError(graph, one_class),
              AllOf(HasSubstr("ranks 0 and 2"), HasSubstr("r2 compute gemm_forward"),
                    HasSubstr("differs in shape")));
  EXPECT_EQ(Fold(graph, one_class).error().rule, "not-symmetric");
  EXPECT_EQ(Fold(graph, one_class).error().rank, 2);

  graph = MakeTinyModel(plan);
  graph.tasks[FindTask(graph, 1, OpCode::kGemmDgrad)].lane = Lane::kHost;
  EXPECT_THAT(FoldError(graph, one_class), HasSubstr("differs in kind, lane or tags"));

  graph = MakeTinyModel(plan);
  graph.buffers[graph.Writes(FindTask(graph, 3, OpCode::kGemmForward))[0].buffer].bytes *= 2;
  EXPECT_THAT(FoldError(graph, one_class), HasSubstr("differs in operand"));

  // Another buffer of the same size.
  graph = MakeTinyModel(plan);
  const TaskId forward = FindTask(graph, 3, OpCode::kCrossEntropyStats);
  graph.operands[graph.tasks[forward].operand_begin + 1] =
      graph.Reads(FindTask(graph, 3, OpCode::kEmbeddingForward))[0];
  EXPECT_THAT(FoldError(graph, one_class), HasSubstr("differs in operand 1"));

  // Without one of its edges.
  graph = MakeTinyModel(plan);
  std::vector<std::pair<TaskId, TaskId>> edges;
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    for (const TaskId next : graph.Successors(id)) edges.emplace_back(id, next);
  }
  edges.pop_back();
  graph.edges = FreezeEdges(graph.TaskCount(), edges);
  EXPECT_THAT(FoldError(graph, one_class),
              AllOf(HasSubstr("ranks 0 and 3"), HasSubstr("differs in what waits for it")));
}

TEST(FoldTest, MeetingOthersIsNotSymmetric) {
  // Ranks 0 and 1 form a class, 2 and 3 are each alone, and only 1 meets 3.
  TaskGraph graph = MakeTinyModel({.t = 2, .d = 2});
  EXPECT_THAT(FoldError(graph, {0, 0, 1, 2}), HasSubstr("meets other classes"));
}

TEST(FoldTest, BadClassesAreErrors) {
  const TaskGraph graph = MakeTinyModel({.t = 2});
  EXPECT_THAT(FoldError(graph, {0}), HasSubstr("classes of 1 ranks for a graph of 2"));
  EXPECT_THAT(FoldError(graph, {1, 0}), HasSubstr("rank 0 is of class 1 where class 0"));
  const TaskGraph folded = Fold(graph, std::vector<std::uint32_t>{0, 0}).value();
  EXPECT_THAT(FoldError(folded, {0}), HasSubstr("folded already"));
}

TEST(GraphEqualTest, NamesWhatDiffers) {
  const TaskGraph graph = MakeTinyModel({.t = 2});
  EXPECT_FALSE(FirstDifference(graph, graph).has_value());
  TaskGraph other = graph;
  other.tasks[3].micro_batch = 9;
  EXPECT_THAT(FirstDifference(graph, other).value_or(""),
              AllOf(HasSubstr("task 3 "), HasSubstr("tags")));
  other = graph;
  other.buffers[2].bytes += 1;
  EXPECT_EQ(FirstDifference(graph, other).value_or(""), "buffer 2");
  other = graph;
  std::swap(other.groups[0].members[0], other.groups[0].members[1]);
  EXPECT_THAT(FirstDifference(graph, other).value_or(""), HasSubstr("rendezvous"));
  other = graph;
  other.slices.back().offset += 1;
  EXPECT_THAT(FirstDifference(graph, other).value_or(""), HasSubstr("operand"));
  // Numbering alone is no difference.
  other = graph;
  std::swap(other.shapes[0], other.shapes[1]);
  for (Task& task : other.tasks) {
    if (task.shape < 2) task.shape = 1 - task.shape;
  }
  EXPECT_FALSE(FirstDifference(graph, other).has_value());
}

}  // namespace
}  // namespace twinstep
