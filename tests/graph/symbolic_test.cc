#include "sim/graph/symbolic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "sim/graph/verifier.h"
#include "tests/graph/tiny_model.h"

namespace twinstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string Proof(const TaskGraph& graph, const TaskGraph& plain) {
  const Status proof = ProveEqual(graph, plain);
  return proof.ok() ? "equal" : proof.error().message;
}

TaskGraph Plain(std::uint32_t micro_batches, bool clip = false) {
  return MakeTinyModel({.m = micro_batches, .clip = clip});
}

// Operand `i` of a task, reads first.
Operand& OperandOf(TaskGraph& graph, TaskId id, std::uint32_t i) {
  return graph.operands[graph.tasks[id].operand_begin + i];
}

TEST(SymbolicTest, ResultNamesEveryWeightAndState) {
  const Result<SymbolicResult> result = RunSymbolic(Plain(2));
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result.value().tensors.size(), 3u * 4u);
  EXPECT_EQ(Describe(result.value().tensors[0]), "parameter of up_weight of block 0");
}

TEST(SymbolicTest, EveryTinyPlanIsEqualToThePlainPlan) {
  int plans = 0;
  for (const bool clip : {false, true}) {
    for (const std::uint32_t t : {1u, 2u, 4u}) {
      for (const std::uint32_t c : {1u, 2u, 4u}) {
        for (const std::uint32_t d : {1u, 2u, 4u}) {
          for (const bool sequence_parallel : {false, true}) {
            for (const bool offload : {false, true}) {
              const TinyPlan plan{t, c, d, 8 / d, sequence_parallel, offload, clip};
              const TaskGraph graph = MakeTinyModel(plan);
              ASSERT_FALSE(Verify(graph).has_value()) << Verify(graph)->message;
              ASSERT_EQ(Proof(graph, Plain(8, clip)), "equal")
                  << "t " << t << " c " << c << " d " << d << " sp " << sequence_parallel
                  << " offload " << offload << " clip " << clip;
              ++plans;
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(plans, 216);
}

TEST(SymbolicTest, AnotherBatchGivesAnotherResult) {
  EXPECT_THAT(Proof(Plain(3), Plain(4)), HasSubstr("lacks micro-batch 3"));
  EXPECT_THAT(Proof(MakeTinyModel({.d = 2, .m = 2}), Plain(6)),
              HasSubstr("lacks micro-batch 4 to 5"));
  EXPECT_THAT(Proof(Plain(4, true), Plain(4, false)), HasSubstr("never has"));
}

TEST(SymbolicTest, TwoRunsGiveTheSameResult) {
  const TaskGraph graph = MakeTinyModel({.t = 2, .c = 2, .d = 2, .m = 2});
  EXPECT_EQ(RunSymbolic(graph).value(), RunSymbolic(graph).value());
}

// Each mutation breaks one plan in one place; the message names the place.

TEST(SymbolicMutationTest, WeightShardOfAnotherRank) {
  TaskGraph graph = MakeTinyModel({.t = 2});
  for (TensorInfo& tensor : graph.tensors) {
    if (tensor.kind == TensorKind::kUpWeight && tensor.axis_index == 1) tensor.axis_index = 0;
  }
  EXPECT_THAT(Proof(graph, Plain(1)),
              AllOf(HasSubstr("gemm_forward"), HasSubstr("column shard 0 of 2 beside column shard "
                                                         "1 of 2")));
}

TEST(SymbolicMutationTest, MissingSumOverTensorParallel) {
  TaskGraph graph = MakeTinyModel({.t = 2});
  const TaskId sum = FindTask(graph, 1, OpCode::kAllReduce);
  const TaskId gemm = FindTask(graph, 1, OpCode::kGemmForward, 1);
  // The sum goes elsewhere: its reader reads the addend.
  const BufferId spare = graph.Writes(FindTask(graph, 1, OpCode::kGemmDgrad, 1))[0].buffer;
  ASSERT_EQ(graph.Writes(gemm)[0], graph.Writes(sum)[0]);
  OperandOf(graph, sum, 1) = {spare};
  EXPECT_THAT(Proof(graph, Plain(1)),
              AllOf(HasSubstr("r1 compute cross_entropy_stats"), HasSubstr("read 0"),
                    HasSubstr("reads partial 1 of 2 over features where the complete sum")));
}

TEST(SymbolicMutationTest, AddendBroughtTwice) {
  TaskGraph graph = MakeTinyModel({.t = 4});
  for (TensorInfo& tensor : graph.tensors) {
    if (tensor.axis_count == 4 && tensor.axis_index == 2 &&
        graph.buffers[tensor.buffer].rank == 2) {
      tensor.axis_index = 1;
    }
  }
  EXPECT_THAT(Proof(graph, Plain(1)), AllOf(HasSubstr("r2 tp all_reduce"),
                                            HasSubstr("brings partial 1 of 4 over features again"),
                                            HasSubstr("lacks partial 2 of 4")));
}

TEST(SymbolicMutationTest, GatherInTheWrongOrder) {
  TaskGraph graph = MakeTinyModel({.t = 2, .sequence_parallel = true});
  const TaskId gather = FindTask(graph, 0, OpCode::kAllGather);
  Group reversed = graph.groups[graph.rendezvous[graph.tasks[gather].rendezvous].group];
  std::swap(reversed.members[0], reversed.members[1]);
  graph.groups.push_back(reversed);
  graph.rendezvous[graph.tasks[gather].rendezvous].group =
      static_cast<GroupId>(graph.groups.size() - 1);
  EXPECT_THAT(Proof(graph, Plain(1)),
              AllOf(HasSubstr("cross_entropy_stats"),
                    HasSubstr("holds 2 pieces (the first is shard 1 of 2")));
}

TEST(SymbolicMutationTest, GatherLeftOut) {
  TaskGraph graph = MakeTinyModel({.d = 2});
  const TaskId gather = FindTask(graph, 0, OpCode::kAllGather);
  // Writes only its own shard again: the rest of the weights stays stale.
  for (const RankId rank : {0u, 1u}) {
    const TaskId id = FindTask(graph, rank, OpCode::kAllGather);
    graph.tasks[id].rendezvous = kNone;
    graph.tasks[id].kind = TaskKind::kCompute;
    OperandOf(graph, id, 1) = OperandOf(graph, id, 0);
    OpShape copy{.op = OpCode::kCopyOnDevice};
    copy.dims[0] = graph.OperandBytes(OperandOf(graph, id, 0));
    graph.shapes.push_back(copy);
    graph.tasks[id].shape = static_cast<ShapeId>(graph.shapes.size() - 1);
  }
  graph.rendezvous[0].participants = 0;
  ASSERT_EQ(gather, 0u);
  EXPECT_THAT(Proof(graph, Plain(2)), AllOf(HasSubstr("gemm_forward"), HasSubstr("read 1"),
                                            HasSubstr("in bytes [0, 768) of 1024 only")));
}

TEST(SymbolicMutationTest, MicroBatchTwice) {
  TaskGraph graph = MakeTinyModel({.d = 2, .m = 2});
  for (TensorInfo& tensor : graph.tensors) {
    if (tensor.micro_batch == 3 && tensor.kind != TensorKind::kLoss) tensor.micro_batch = 2;
  }
  EXPECT_THAT(Proof(graph, Plain(4)), HasSubstr("is not the plain plan's"));
}

TEST(SymbolicMutationTest, GradientNotAccumulated) {
  TaskGraph graph = MakeTinyModel({.m = 4});
  // The third micro-batch overwrites what the first two gave.
  const TaskId id = FindTask(graph, 0, OpCode::kGemmWgrad, 4);
  OpShape shape = graph.shapes[graph.tasks[id].shape];
  shape.flags = 0;
  graph.shapes.push_back(shape);
  graph.tasks[id].shape = static_cast<ShapeId>(graph.shapes.size() - 1);
  EXPECT_THAT(Proof(graph, Plain(4)),
              AllOf(HasSubstr("adam"), HasSubstr("gradient of down_weight of block 0"),
                    HasSubstr("lacks micro-batch 0 to 1")));
}

TEST(SymbolicMutationTest, GradientAccumulatedTwice) {
  TaskGraph graph = MakeTinyModel({.m = 4});
  // The backward of micro-batch 2 works on the gradient and activation of micro-batch 1.
  const TaskId from = FindTask(graph, 0, OpCode::kGemmWgrad, 2);
  const TaskId to = FindTask(graph, 0, OpCode::kGemmWgrad, 4);
  OperandOf(graph, to, 0) = OperandOf(graph, from, 0);
  OperandOf(graph, to, 1) = OperandOf(graph, from, 1);
  EXPECT_THAT(Proof(graph, Plain(4)), HasSubstr("gradient of down_weight of block 0"));
}

TEST(SymbolicMutationTest, ActivationOfAnotherMicroBatch) {
  TaskGraph graph = MakeTinyModel({.m = 2});
  const TaskId first = FindTask(graph, 0, OpCode::kGemmWgrad, 0);
  const TaskId second = FindTask(graph, 0, OpCode::kGemmWgrad, 2);
  std::swap(OperandOf(graph, first, 0), OperandOf(graph, second, 0));
  EXPECT_THAT(Proof(graph, Plain(2)),
              AllOf(HasSubstr("adam"), HasSubstr("gradient of down_weight of block 0")));
}

TEST(SymbolicMutationTest, StaleWeights) {
  // The optimizer runs before the second micro-batch's backward reads the weights.
  TaskGraph graph = MakeTinyModel({.m = 2});
  const TaskId adam = FindTask(graph, 0, OpCode::kAdam);
  const TaskId dgrad = FindTask(graph, 0, OpCode::kGemmDgrad, 2);
  std::rotate(graph.tasks.begin() + dgrad, graph.tasks.begin() + adam,
              graph.tasks.begin() + adam + 1);
  EXPECT_THAT(Proof(graph, Plain(2)), AllOf(HasSubstr("adam"), HasSubstr("lacks micro-batch 1")));
}

TEST(SymbolicMutationTest, OffloadCutsOneByteTooFew) {
  TaskGraph graph = MakeTinyModel({.m = 2, .offload = true});
  const TaskId reload = FindTask(graph, 0, OpCode::kCopyH2D);
  OpShape shape = graph.shapes[graph.tasks[reload].shape];
  --shape.dims[0];
  graph.shapes.push_back(shape);
  graph.tasks[reload].shape = static_cast<ShapeId>(graph.shapes.size() - 1);
  EXPECT_THAT(Proof(graph, Plain(2)),
              AllOf(HasSubstr("gemm_wgrad"), HasSubstr("holds 2 pieces"), HasSubstr("of 512")));
}

TEST(SymbolicMutationTest, OffloadRestoresAnotherBlock) {
  TaskGraph graph = MakeTinyModel({.m = 2, .offload = true});
  std::swap(OperandOf(graph, FindTask(graph, 0, OpCode::kCopyH2D, 0), 0),
            OperandOf(graph, FindTask(graph, 0, OpCode::kCopyH2D, 1), 0));
  EXPECT_THAT(Proof(graph, Plain(2)), AllOf(HasSubstr("gemm_wgrad"), HasSubstr("pieces")));
}

TEST(SymbolicMutationTest, ReductionLeftOut) {
  TaskGraph graph = MakeTinyModel({.d = 2});
  for (const RankId rank : {0u, 1u}) {
    const TaskId id = FindTask(graph, rank, OpCode::kReduceScatter);
    OpShape copy{.op = OpCode::kCopyOnDevice};
    graph.shapes.push_back(copy);
    graph.rendezvous[graph.tasks[id].rendezvous].participants = 0;
    graph.tasks[id].rendezvous = kNone;
    graph.tasks[id].shape = static_cast<ShapeId>(graph.shapes.size() - 1);
    OpShape& shape = graph.shapes.back();
    OperandOf(graph, id, 0) = OperandOf(graph, id, 1);
    shape.dims[0] = graph.OperandBytes(OperandOf(graph, id, 1));
  }
  EXPECT_THAT(Proof(graph, Plain(2)), AllOf(HasSubstr("adam"), HasSubstr("lacks micro-batch")));
}

TEST(SymbolicMutationTest, LossNotSummed) {
  const auto broken = [](const TinyPlan& plan) {
    TaskGraph graph = MakeTinyModel(plan);
    for (const RankId rank : {0u, 1u}) {
      // The sum goes to the labels, which nothing reads any more.
      const TaskId id = FindTask(graph, rank, OpCode::kAllReduce);
      const TaskId backward = FindTask(graph, rank, OpCode::kCrossEntropyBackward);
      graph.slices.push_back({0, 8});
      OperandOf(graph, id, 1) = {OperandOf(graph, backward, 1).buffer,
                                 static_cast<SliceId>(graph.slices.size() - 1)};
    }
    return graph;
  };
  EXPECT_THAT(Proof(broken({.d = 2, .m = 1}), Plain(2)), HasSubstr("the loss differs from rank 0"));
  EXPECT_THAT(Proof(broken({.c = 2, .m = 1}), Plain(1)),
              HasSubstr("the loss is an incomplete sum of partials over tokens"));
}

TEST(SymbolicMutationTest, ContextParallelTokensOfAnotherRank) {
  TaskGraph graph = MakeTinyModel({.c = 2});
  for (TensorInfo& tensor : graph.tensors) {
    if (tensor.kind == TensorKind::kTokens) tensor.cp_index = 0;
  }
  EXPECT_THAT(Proof(graph, Plain(1)), AllOf(HasSubstr("r1 compute cross_entropy_stats"),
                                            HasSubstr("shard 1 of 2 beside shard 0 of 2")));
}

TEST(SymbolicMutationTest, NormCountsReplicatedGradientTwice) {
  TaskGraph graph = MakeTinyModel({.t = 2, .clip = true});
  const TaskId norm = FindTask(graph, 1, OpCode::kGradNorm);
  OpShape shape = graph.shapes[graph.tasks[norm].shape];
  shape.dims[1] = 0;
  graph.shapes.push_back(shape);
  graph.tasks[norm].shape = static_cast<ShapeId>(graph.shapes.size() - 1);
  EXPECT_THAT(Proof(graph, Plain(1, true)),
              AllOf(HasSubstr("clip_coefficient"), HasSubstr("reads a value that the plain plan "
                                                             "never has")));
}

TEST(SymbolicMutationTest, RendezvousThatNeverMeets) {
  TaskGraph graph = MakeTinyModel({.t = 2, .m = 2});
  // Rank 1 issues its second sum first.
  std::swap(graph.tasks[FindTask(graph, 1, OpCode::kAllReduce, 0)].rendezvous,
            graph.tasks[FindTask(graph, 1, OpCode::kAllReduce, 1)].rendezvous);
  EXPECT_THAT(Proof(graph, Plain(2)), AllOf(HasSubstr("r0 tp all_reduce"),
                                            HasSubstr("waits in rendezvous 0, which 1 of 2")));
}

TEST(SymbolicStructureTest, MalformedGraphsAreErrors) {
  const auto error = [](const TaskGraph& graph) {
    const Result<SymbolicResult> result = RunSymbolic(graph);
    return result.ok() ? std::string("none") : result.error().message;
  };
  TaskGraph graph = MakeTinyModel({.t = 2});
  graph.tasks[3].shape = 10000;
  EXPECT_THAT(error(graph), HasSubstr("task 3 has a shape"));
  graph = MakeTinyModel({.t = 2});
  OperandOf(graph, 3, 0).buffer = 10000;
  EXPECT_THAT(error(graph), HasSubstr("operand 0 of task 3 lies outside"));
  graph = MakeTinyModel({.t = 2});
  ++graph.rendezvous[0].participants;
  EXPECT_THAT(error(graph), HasSubstr("rendezvous 0 joins 2 tasks where 3 take part"));
  graph = MakeTinyModel({.t = 2});
  graph.rank_class.push_back(0);
  EXPECT_THAT(error(graph), HasSubstr("folded"));
  graph = MakeTinyModel({.t = 2});
  graph.tasks[0].read_count = 0;
  graph.tasks[0].operand_begin = 0;
  EXPECT_THAT(error(graph), HasSubstr("missing"));
  EXPECT_EQ(RunSymbolic(graph).error().code, ExitCode::kNo);
  EXPECT_EQ(RunSymbolic(graph).error().rule, "symbolic");
}

}  // namespace
}  // namespace twinstep
