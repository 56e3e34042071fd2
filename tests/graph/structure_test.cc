#include "sim/graph/structure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/graph/graph_builder.h"

namespace twinstep {
namespace {

TaskGraph Small() {
  GraphBuilder builder(2);
  const BufferId x = builder.AddBuffer(0, 64, {.persistent = true});
  const BufferId y = builder.AddBuffer(1, 64, {.persistent = true});
  GraphBuilder::TaskSpec spec;
  spec.reads = {builder.Part(x, 16, 32)};
  builder.Add(spec);
  builder.AllReduce({x, y});
  builder.Compute(0, {x}, {});
  TaskGraph graph = builder.Build();
  graph.tensors.push_back({.buffer = x, .slice = {0, 64}});
  return graph;
}

TEST(Structure, AcceptsASoundGraph) { EXPECT_FALSE(CheckStructure(Small()).has_value()); }

struct Fault {
  const char* name;
  std::function<void(TaskGraph&)> apply;
  const char* said;
};

class StructureFault : public testing::TestWithParam<Fault> {};

TEST_P(StructureFault, IsNamed) {
  TaskGraph graph = Small();
  GetParam().apply(graph);
  const std::optional<Violation> violation = CheckStructure(graph);
  ASSERT_TRUE(violation.has_value());
  EXPECT_EQ(violation->rule, Rule::kStructure);
  EXPECT_THAT(violation->message, testing::HasSubstr(GetParam().said));
}

void SetEdges(TaskGraph& graph, std::vector<std::uint32_t> rows, std::vector<TaskId> columns) {
  graph.edges.m_forward.m_rowstart = std::move(rows);
  graph.edges.m_forward.m_column = std::move(columns);
}

// Tasks: 0 compute, 1 all-reduce, 2 compute on rank 0; 3 all-reduce on rank 1.
INSTANTIATE_TEST_SUITE_P(
    All, StructureFault,
    testing::Values(
        Fault{"NoRankBegin", [](TaskGraph& g) { g.rank_begin.clear(); }, "rank_begin has 0"},
        Fault{"RankBeginShort", [](TaskGraph& g) { g.rank_begin.back() = 3; }, "from 0 to 3"},
        Fault{"RankBeginDecreases",
              [](TaskGraph& g) {
                g.rank_begin = {0, 5, 4};
              },
              "decreases after rank 1"},
        Fault{"TaskOfOtherRank", [](TaskGraph& g) { g.tasks[3].rank = 0; }, "range of rank 1"},
        Fault{"UnknownClass", [](TaskGraph& g) { g.rank_class[1] = 2; }, "of class 2"},
        Fault{"WrongRepresentative", [](TaskGraph& g) { g.ranks[1].global_rank = 0; },
              "rank 1 is represented by global rank 0"},
        Fault{"WrongClassSize", [](TaskGraph& g) { g.ranks[1].class_size = 3; },
              "stands for 3 global ranks"},
        Fault{"NoWholeSlice", [](TaskGraph& g) { g.slices.clear(); }, "slice 0"},
        Fault{"UnknownOp", [](TaskGraph& g) { g.shapes[0].op = static_cast<OpCode>(200); },
              "shape 0"},
        Fault{"BufferRank", [](TaskGraph& g) { g.buffers[1].rank = 2; }, "buffer 1 of rank 2"},
        Fault{"BufferBytes", [](TaskGraph& g) { g.buffers[1].bytes = -1; }, "-1 bytes"},
        Fault{"BufferPool", [](TaskGraph& g) { g.buffers[1].pool = static_cast<Pool>(3); },
              "buffer 1"},
        Fault{"GroupMember", [](TaskGraph& g) { g.groups[0].members[0] = 2; },
              "group 0 has global rank 2 of 2"},
        Fault{"GroupTwice", [](TaskGraph& g) { g.groups[0].members[1] = 0; }, "twice"},
        Fault{"RendezvousGroup", [](TaskGraph& g) { g.rendezvous[0].group = 1; },
              "rendezvous 0 has group 1 of 1"},
        Fault{"RendezvousEmpty", [](TaskGraph& g) { g.rendezvous[0].participants = 0; },
              "0 participants"},
        Fault{"TensorBuffer", [](TaskGraph& g) { g.tensors[0].buffer = 2; }, "tensor 0"},
        Fault{"TensorShard", [](TaskGraph& g) { g.tensors[0].shard_index = 1; }, "tensor 0"},
        Fault{"TaskLane", [](TaskGraph& g) { g.tasks[0].lane = static_cast<Lane>(11); },
              "task 0 (rank 0, lane invalid) has an unknown kind, lane or phase"},
        Fault{"TaskShape", [](TaskGraph& g) { g.tasks[0].shape = 9; }, "has shape 9"},
        Fault{"KindOfOperation", [](TaskGraph& g) { g.tasks[1].kind = TaskKind::kH2D; },
              "is a h2d with operation all_reduce"},
        Fault{"NoRendezvous", [](TaskGraph& g) { g.tasks[1].rendezvous = kNone; },
              "is a collective with rendezvous none"},
        Fault{"StrayRendezvous", [](TaskGraph& g) { g.tasks[0].rendezvous = 0; },
              "is a compute with rendezvous 0"},
        Fault{"OperandsEnd", [](TaskGraph& g) { g.tasks[3].operand_begin = kNone; },
              "has operands to 4294967297"},
        Fault{"OperandBuffer", [](TaskGraph& g) { g.operands[0].buffer = kNone; },
              "task 0 (rank 0, lane compute) has buffer 4294967295 of 2"},
        Fault{"OperandOfOtherRank", [](TaskGraph& g) { g.operands[0].buffer = 1; },
              "touches buffer 1 of rank 1"},
        Fault{"OperandSlice", [](TaskGraph& g) { g.operands[0].slice = 2; }, "has slice 2 of 2"},
        Fault{"SliceTooLong", [](TaskGraph& g) { g.slices[1].bytes = 49; },
              "a slice of 49 bytes at 16 in buffer 0 of 64 bytes"},
        Fault{"EdgeRows",
              [](TaskGraph& g) {
                SetEdges(g, {0, 0}, {});
              },
              "edge rows"},
        Fault{"EdgeRowDecreases",
              [](TaskGraph& g) {
                SetEdges(g, {0, 1, 0, 1, 1}, {1});
              },
              "negative number of edges"},
        Fault{"EdgeTarget",
              [](TaskGraph& g) {
                SetEdges(g, {0, 1, 1, 1, 1}, {9});
              },
              "out of its rank, to task 9"},
        Fault{"EdgeAcrossRanks",
              [](TaskGraph& g) {
                SetEdges(g, {0, 1, 1, 1, 1}, {3});
              },
              "out of its rank, to task 3"},
        Fault{"EdgesUnsorted",
              [](TaskGraph& g) {
                SetEdges(g, {0, 2, 2, 2, 2}, {2, 1});
              },
              "not sorted"},
        Fault{"EdgeTwice",
              [](TaskGraph& g) {
                SetEdges(g, {0, 2, 2, 2, 2}, {1, 1});
              },
              "stand twice"}),
    [](const testing::TestParamInfo<Fault>& fault) { return std::string(fault.param.name); });

}  // namespace
}  // namespace twinstep
