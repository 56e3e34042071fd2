#include "exec/profile/merge_graphs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "exec/profile/probe_graph.h"
#include "sim/lower/lower.h"
#include "tests/exec/runtime/small_models.h"
#include "tests/exec/runtime/training_run.h"

namespace twinstep {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::int64_t kKilobyte = 1024;

Cluster TwoGpus() {
  Cluster cluster;
  cluster.set_name("small");
  cluster.set_nodes(1);
  cluster.mutable_node()->set_gpus(2);
  cluster.mutable_gpu()->set_name("CPU in place of a GPU");
  cluster.mutable_gpu()->set_memory_bytes(std::int64_t{1} << 30);
  return cluster;
}

TEST(Beside, ComesFirstAndEdgesMoveWithTheirTasks) {
  const Model model = SmallModel("llama", FP32);
  const Cluster cluster = TwoGpus();
  const ResolvedPlan plan = ResolvePlan(model, cluster, SmallPlan(2, 1, 1, 1), 2).value();
  const TaskGraph graph = Lower(model, cluster, plan, {.fold = false}).value();
  ProbeGraph probes(2);
  probes.AddCopies(/*h2d=*/true, kKilobyte, 3);
  OpShape gather{.op = OpCode::kAllGather, .dtype = Dtype::kBf16};
  gather.dims[0] = kKilobyte;
  probes.AddGroupOperation(gather, 2);
  const TaskGraph first = std::move(probes).Finish();
  const TaskGraph both = Beside(first, graph);
  constexpr std::uint32_t kFirst = 5;  // Of each rank.
  ASSERT_THAT(both.tasks, SizeIs(graph.TaskCount() + 2 * kFirst));
  EXPECT_EQ(both.EdgeCount(), graph.EdgeCount());
  EXPECT_EQ(both.rendezvous.size(), graph.rendezvous.size() + 2);
  for (RankId rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(both.tasks[both.rank_begin[rank]].lane, Lane::kH2D);
    const std::uint32_t shift = (rank + 1) * kFirst;
    for (TaskId id = graph.rank_begin[rank]; id < graph.rank_begin[rank + 1]; ++id) {
      EXPECT_EQ(both.shapes[both.tasks[id + shift].shape], graph.shapes[graph.tasks[id].shape]);
      const auto was = graph.Successors(id), is = both.Successors(id + shift);
      ASSERT_EQ(was.size(), is.size());
      for (std::size_t i = 0; i < was.size(); ++i) EXPECT_EQ(was[i] + shift, is[i]);
    }
  }
}

// Products and copies of two ranks, five operators each.
TaskGraph Layers() {
  OpShape product{.op = OpCode::kGemmForward, .dtype = Dtype::kBf16};
  product.dims = {8, 8, 8};
  ProbeGraph of_one;
  of_one.AddOperator(product, std::array<std::int64_t, 2>{128, 128},
                     std::array<std::int64_t, 1>{128}, 1);
  const TaskGraph one = std::move(of_one).Finish();
  ProbeGraph layers(2);
  for (const std::uint32_t rank : {0u, 1u}) layers.AddTask(one, 0, {.rank = rank, .times = 5});
  layers.AddCopies(/*h2d=*/true, kKilobyte, 1);
  return std::move(layers).Finish();
}

TaskGraph Operations() {
  ProbeGraph operations(2);
  for (const OpCode op : {OpCode::kReduceScatter, OpCode::kAllGather}) {
    OpShape shape{.op = op, .dtype = Dtype::kBf16};
    shape.dims[0] = kKilobyte;
    operations.AddGroupOperation(shape, 1);
  }
  return std::move(operations).Finish();
}

// A letter a task, in the order of issue: C, H, and operations R (reduce-scatter) and G.
std::string OrderOf(const TaskGraph& graph, RankId rank) {
  std::string order;
  for (TaskId id = graph.rank_begin[rank]; id < graph.rank_begin[rank + 1]; ++id) {
    const OpCode op = graph.shapes[graph.tasks[id].shape].op;
    order += op == OpCode::kReduceScatter ? 'R'
             : op == OpCode::kAllGather   ? 'G'
             : op == OpCode::kCopyH2D     ? 'H'
                                          : 'C';
  }
  return order;
}

TEST(Interleaved, OperationsAreIssuedWhereTheyBegin) {
  const std::vector<Placement> placements = {{.operation = 0, .behind = 1},
                                             {.operation = 1, .behind = 3},
                                             {.operation = 0, .behind = 3},
                                             {.operation = 1, .behind = 5}};
  const TaskGraph graph = Interleaved(Operations(), Layers(), placements);
  EXPECT_EQ(OrderOf(graph, 0), "CRCCGRCCGH");
  EXPECT_EQ(OrderOf(graph, 1), "CRCCGRCCGH");
  // Each behind the operator before it, and all on one lane.
  EXPECT_EQ(graph.EdgeCount(), 8u);
  EXPECT_THAT(graph.Successors(0), ElementsAre(1u));
  EXPECT_THAT(graph.Successors(3), ElementsAre(4u, 5u));
  EXPECT_THAT(graph.Successors(7), ElementsAre(8u));
  EXPECT_THAT(graph.Successors(13), ElementsAre(14u, 15u));
  for (const TaskId id : {1u, 4u, 5u, 8u}) {
    EXPECT_EQ(graph.tasks[id].lane, graph.tasks[1].lane);
    EXPECT_NE(graph.tasks[id].lane, Lane::kCompute);
    // Ranks meet at the same place.
    EXPECT_EQ(graph.tasks[id].rendezvous, graph.tasks[id + 10].rendezvous);
  }
  // Anew each time, on the same buffers.
  EXPECT_THAT(graph.rendezvous, SizeIs(4));
  EXPECT_NE(graph.tasks[1].rendezvous, graph.tasks[5].rendezvous);
  EXPECT_EQ(graph.Reads(1)[0].buffer, graph.Reads(5)[0].buffer);
  EXPECT_NE(graph.Reads(1)[0].buffer, graph.Reads(4)[0].buffer);
}

TEST(Interleaved, NothingIsPlacedWhereARankHasNoSuchOperator) {
  const std::vector<Placement> placements = {{.operation = 0, .behind = 5},
                                             {.operation = 1, .behind = 6}};
  EXPECT_EQ(OrderOf(Interleaved(Operations(), Layers(), placements), 1), "CCCCCRH");
}

TEST(PlaceApart, TheNextOneBeginsWhenTheLastOneHasLongEnded) {
  // Behind the first operator at 1; it may wait until 3 and takes less than 2 then: the next one
  // behind the operator that ends at 5, which may wait until 6 and take 4.
  std::vector<ComputeTime> operators;
  for (const double seconds : {1, 2, 2, 1, 3, 2, 1, 1}) operators.push_back({.seconds = seconds});
  // Not within a kernel.
  operators[0].is_one_with_next = true;
  operators[1].is_one_with_next = true;
  EXPECT_EQ(PlaceApart(operators, std::vector<double>{1, 2}).front(),
            (Placement{.operation = 0, .behind = 3}));
  EXPECT_THAT(PlaceApart(operators, std::vector<double>{}), IsEmpty());
  EXPECT_THAT(PlaceApart(std::vector<ComputeTime>{}, std::vector<double>{1}), IsEmpty());
  // Not behind the last operator, beside which nothing would run.
  EXPECT_THAT(PlaceApart(std::vector<ComputeTime>{{.seconds = 1}}, std::vector<double>{1}),
              IsEmpty());
}

}  // namespace
}  // namespace twinstep
