#include "sim/graph/verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>

#include "tests/graph/graph_builder.h"
#include "tests/graph/random_graph.h"

namespace twinstep {
namespace {

using testing::HasSubstr;

// The graph breaks exactly this rule, and the message says all of these.
void ExpectViolation(const TaskGraph& graph, Rule rule, const std::vector<std::string>& said) {
  const std::optional<Violation> violation = Verify(graph);
  ASSERT_TRUE(violation.has_value()) << "nothing found, expected " << Name(rule);
  EXPECT_STREQ(Name(violation->rule), Name(rule)) << violation->message;
  EXPECT_THAT(violation->message, testing::StartsWith(std::string(Name(rule)) + ": "));
  for (const std::string& text : said) EXPECT_THAT(violation->message, HasSubstr(text));
}

void ExpectValid(const TaskGraph& graph) {
  const std::optional<Violation> violation = Verify(graph);
  EXPECT_FALSE(violation.has_value()) << violation->message;
}

// A producer on the compute lane and a consumer on the D2H lane.
struct Offload {
  GraphBuilder builder{1};
  BufferId x = builder.AddBuffer(0, 4096);
  BufferId host = builder.AddBuffer(0, 4096, {.pool = Pool::kPinnedHost});
  GraphBuilder::Handle make = builder.Compute(0, {}, {x});
  GraphBuilder::Handle copy = builder.CopyD2H(x, host);
};

TEST(Verifier, AcceptsAnEmptyGraph) { ExpectValid(GraphBuilder(0).Build()); }

TEST(Verifier, AcceptsOrderedHazards) { ExpectValid(Offload().builder.Build()); }

TEST(Verifier, FindsUnorderedReadAfterWrite) {
  const TaskGraph graph = Offload().builder.Build({.hazards = false});
  ExpectViolation(graph, Rule::kHazard,
                  {"RAW on buffer 0 (gpu transient, 4096 bytes)", "\"r0 compute add\" (task 0)",
                   "\"r0 d2h copy_d2h\" (task 1)"});
  const std::optional<Violation> violation = Verify(graph);
  EXPECT_EQ(violation->first, 0u);
  EXPECT_EQ(violation->second, 1u);
  EXPECT_EQ(violation->buffer, 0u);
}

TEST(Verifier, FindsUnorderedWriteAfterRead) {
  Offload offload;
  offload.builder.Compute(0, {}, {offload.x});
  offload.builder.Order(offload.make, offload.copy);
  ExpectViolation(offload.builder.Build({.hazards = false}), Rule::kHazard, {"WAR on buffer 0"});
}

// The older of two readers in different lanes counts too, not just the last one.
TEST(Verifier, RemembersReadersOfEveryLane) {
  Offload offload;
  const BufferId y = offload.builder.AddBuffer(0, 8);
  const auto read = offload.builder.Compute(0, {offload.x}, {y}, Lane::kTp);
  const auto write = offload.builder.Compute(0, {}, {offload.x});
  offload.builder.Order(offload.make, offload.copy);
  offload.builder.Order(offload.make, read);
  offload.builder.Order(read, write);
  ExpectViolation(offload.builder.Build({.hazards = false}), Rule::kHazard,
                  {"WAR on buffer 0", "d2h copy_d2h"});
}

TEST(Verifier, FindsUnorderedWriteAfterWrite) {
  GraphBuilder builder(1);
  const BufferId x = builder.AddBuffer(0, 64);
  builder.Compute(0, {}, {x}, Lane::kCompute);
  builder.Compute(0, {}, {x}, Lane::kTp);
  ExpectViolation(builder.Build({.hazards = false}), Rule::kHazard, {"WAW on buffer 0"});
}

TEST(Verifier, TakesAPathForAnEdge) {
  Offload offload;
  const auto middle = offload.builder.Compute(0, {}, {}, Lane::kTp);
  const auto late = offload.builder.Compute(0, {}, {offload.x}, Lane::kCp);
  offload.builder.Order(offload.make, offload.copy);
  offload.builder.Order(offload.copy, middle);
  offload.builder.Order(middle, late);
  ExpectValid(offload.builder.Build({.hazards = false}));
}

// A path through another rank's rendezvous partner does not order anything: NCCL promises no more
// than the order on each rank.
TEST(Verifier, WantsPathsInsideTheRank) {
  GraphBuilder builder(2);
  const BufferId x = builder.AddBuffer(0, 64);
  const BufferId y = builder.AddBuffer(1, 64);
  const auto make = builder.Compute(0, {}, {x});
  const auto [send, recv] = builder.SendRecv(x, y);
  const auto [back, overwrite] = builder.SendRecv(y, x);
  builder.Order(make, send);
  builder.Order(make, overwrite);
  builder.Order(recv, back);
  const TaskGraph graph = builder.Build({.hazards = false});
  ExpectViolation(graph, Rule::kHazard, {"WAR on buffer 0", "r0 send_fwd", "r0 recv_fwd"});
}

TEST(Verifier, FindsReadBeforeWrite) {
  GraphBuilder builder(1);
  const BufferId x = builder.AddBuffer(0, 64, {.role = Role::kActivation});
  builder.Compute(0, {x}, {x});
  ExpectViolation(builder.Build(), Rule::kReadBeforeWrite,
                  {"\"r0 compute add\" (task 0) reads buffer 0 (gpu activation, 64 bytes)"});
}

TEST(Verifier, AcceptsReadsOfPersistentBuffers) {
  GraphBuilder builder(1);
  builder.Compute(0, {builder.AddBuffer(0, 64, {.persistent = true})}, {});
  ExpectValid(builder.Build());
}

TEST(Verifier, FindsMissingLaneOrder) {
  GraphBuilder builder(1);
  builder.Compute(0, {}, {}, Lane::kCp);
  builder.Compute(0, {}, {}, Lane::kCp);
  ExpectViolation(builder.Build({.lanes = false}), Rule::kStructure,
                  {"no path orders the lane's tasks \"r0 cp add\" (task 0)"});
}

TEST(Verifier, TellsACycleFromABackwardEdge) {
  GraphBuilder builder(1);
  builder.Compute(0, {}, {}, Lane::kTp);
  builder.Compute(0, {}, {}, Lane::kCp);
  TaskGraph graph = builder.Build();
  std::vector<std::pair<TaskId, TaskId>> edges = {{1, 0}};
  graph.edges = FreezeEdges(2, edges);
  ExpectViolation(graph, Rule::kIssueOrder, {"\"r0 cp add\" (task 1) must precede \"r0 tp add\""});
  edges.emplace_back(0, 1);
  graph.edges = FreezeEdges(2, edges);
  ExpectViolation(graph, Rule::kCycle, {"\"r0 tp add\" (task 0)", "\"r0 cp add\" (task 1)"});
  edges = {{1, 1}};
  graph.edges = FreezeEdges(2, edges);
  ExpectViolation(graph, Rule::kCycle, {"(task 1) before the first"});
}

TEST(Verifier, FindsAnIncompleteRendezvous) {
  GraphBuilder builder(3);
  std::vector<BufferId> buffers;
  for (RankId rank = 0; rank < 3; ++rank) {
    buffers.push_back(builder.AddBuffer(rank, 64, {.persistent = true}));
  }
  builder.AllReduce(buffers);
  const TaskGraph graph = builder.Build();
  ExpectValid(graph);

  TaskGraph missing = graph;
  missing.rendezvous[0].participants = 4;
  ExpectViolation(missing, Rule::kRendezvousIncomplete,
                  {"rendezvous 0", "\"r0 tp all_reduce\"", "3 of 4 participants"});

  TaskGraph partial = graph;
  partial.groups[0].members = {0, 1};
  ExpectViolation(partial, Rule::kRendezvousIncomplete, {"\"r2 tp all_reduce\"", "group 0"});

  TaskGraph mixed = graph;
  mixed.shapes.push_back({.op = OpCode::kAllGather, .dims = {64}});
  mixed.tasks[1].shape = 1;
  ExpectViolation(mixed, Rule::kRendezvousIncomplete, {"all_gather", "does not fit"});

  TaskGraph other_size = graph;
  other_size.shapes.push_back({.op = OpCode::kAllReduce, .dims = {32}});
  other_size.tasks[2].shape = 1;
  ExpectViolation(other_size, Rule::kRendezvousIncomplete, {"does not fit", "size"});
}

TEST(Verifier, FindsARankThatJoinsTwice) {
  GraphBuilder builder(1);
  GraphBuilder::TaskSpec spec;
  spec.kind = TaskKind::kCollective;
  spec.shape = {.op = OpCode::kAllReduce};
  spec.rendezvous = builder.AddRendezvous(kNone, 2);
  builder.Add(spec);
  builder.Add(spec);
  ExpectViolation(builder.Build(), Rule::kRendezvousIncomplete, {"same rank", "(task 0) too"});
}

TEST(Verifier, FindsTwoSendsThatMeet) {
  GraphBuilder builder(2);
  const BufferId x = builder.AddBuffer(0, 64, {.persistent = true});
  const BufferId y = builder.AddBuffer(1, 64, {.persistent = true});
  builder.SendRecv(x, y);
  TaskGraph graph = builder.Build();
  graph.tasks[1].kind = TaskKind::kSend;
  graph.tasks[1].shape = graph.tasks[0].shape;
  ExpectViolation(graph, Rule::kRendezvousIncomplete, {"2 sends and 0 receives"});
}

// In a folded graph a representative stands for its class in groups that do not name it.
TEST(Verifier, CountsRepresentativesInAFoldedGraph) {
  GraphBuilder builder(2);
  const BufferId x = builder.AddBuffer(0, 64, {.persistent = true});
  const BufferId y = builder.AddBuffer(1, 64, {.persistent = true});
  builder.AllReduce({x, y});
  TaskGraph graph = builder.Build();
  graph.rank_class = {0, 1, 0, 1};  // Global ranks 2 and 3 are folded into 0 and 1.
  graph.ranks[0].class_size = graph.ranks[1].class_size = 2;
  graph.groups[0].members = {0, 2, 3};
  ExpectValid(graph);
  graph.groups[0].members = {0, 2};
  ExpectViolation(graph, Rule::kRendezvousIncomplete, {"\"r1 tp all_reduce\""});
}

// Two lanes on each rank, opposite orders: each lane alone is in order, together they deadlock.
TEST(Verifier, FindsARendezvousCycle) {
  GraphBuilder builder(2);
  const BufferId x = builder.AddBuffer(0, 64, {.persistent = true});
  const BufferId y = builder.AddBuffer(1, 64, {.persistent = true});
  const BufferId u = builder.AddBuffer(0, 64, {.persistent = true});
  const BufferId v = builder.AddBuffer(1, 64, {.persistent = true});
  builder.AllReduce({x, y}, Lane::kTp);
  builder.AllReduce({u, v}, Lane::kDp);
  TaskGraph graph = builder.Build();
  ExpectValid(graph);
  std::swap(graph.tasks[2], graph.tasks[3]);
  ExpectViolation(graph, Rule::kRendezvousCycle,
                  {"rank 0 issues \"r0 tp all_reduce\" (task 0) of rendezvous 0 before \"r0 dp",
                   "rank 1 issues \"r1 dp all_reduce\" (task 2) of rendezvous 1 before \"r1 tp"});
}

TEST(Verifier, FindsALongRendezvousCycle) {
  constexpr std::uint32_t kRanks = 12;
  GraphBuilder builder(kRanks);
  std::vector<BufferId> buffers;
  for (RankId rank = 0; rank < kRanks; ++rank) {
    buffers.push_back(builder.AddBuffer(rank, 64, {.persistent = true}));
  }
  // A ring in which everyone sends first: legal as long as each issue order is the global one.
  for (RankId rank = 0; rank < kRanks; ++rank) {
    builder.SendRecv(buffers[rank], buffers[(rank + 1) % kRanks]);
  }
  TaskGraph graph = builder.Build();
  ExpectValid(graph);
  // Rank 0 issues send, then recv; all others recv, then send: turn them round.
  for (RankId rank = 1; rank < kRanks; ++rank) {
    std::swap(graph.tasks[graph.rank_begin[rank]], graph.tasks[graph.rank_begin[rank] + 1]);
  }
  ExpectViolation(graph, Rule::kRendezvousCycle, {"rank 0 issues", "and 4 more steps"});
}

TEST(VectorClocks, SayWhichTasksPrecede) {
  GraphBuilder builder(2);
  const auto a = builder.Compute(1, {}, {}, Lane::kCompute);
  const auto b = builder.Compute(1, {}, {}, Lane::kTp);
  const auto c = builder.Compute(1, {}, {}, Lane::kCompute);
  const auto d = builder.Compute(1, {}, {}, Lane::kTp);
  builder.Compute(0, {}, {});
  builder.Order(c, d);
  const TaskGraph graph = builder.Build();
  const std::vector<std::uint32_t> clocks = VectorClocks(graph);
  const std::vector<std::uint32_t> positions = LanePositions(graph);
  const auto clock = [&](GraphBuilder::Handle task, Lane lane) {
    return clocks[builder.Id(task) * kLaneCount + static_cast<std::size_t>(lane)];
  };
  EXPECT_EQ(positions[builder.Id(a)], 0u);
  EXPECT_EQ(positions[builder.Id(d)], 1u);
  EXPECT_EQ(clock(a, Lane::kCompute), 0u);
  EXPECT_EQ(clock(b, Lane::kCompute), 0u);
  EXPECT_EQ(clock(c, Lane::kCompute), 1u);
  EXPECT_EQ(clock(c, Lane::kTp), 0u);
  EXPECT_EQ(clock(d, Lane::kCompute), 2u);
  EXPECT_EQ(clock(d, Lane::kTp), 1u);
}

TEST(Verifier, AcceptsRandomGraphs) {
  EXPECT_TRUE(rc::check([] {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    const auto ranks = *rc::gen::inRange<std::uint32_t>(1, 10);
    const auto tasks = *rc::gen::inRange<std::uint32_t>(0, 400);
    const std::optional<Violation> violation =
        Verify(RandomGraph({.seed = seed, .ranks = ranks, .tasks = tasks}));
    if (violation.has_value()) RC_FAIL(violation->message);
  }));
}

// The generator covers what the other tests count on.
TEST(RandomGraph, HasAllKindsOfTasksAndHazards) {
  const TaskGraph graph = RandomGraph({.seed = 5, .ranks = 4, .tasks = 600});
  std::array<int, kTaskKindCount> kinds{};
  for (const Task& task : graph.tasks) ++kinds[static_cast<std::size_t>(task.kind)];
  EXPECT_THAT(kinds, testing::Each(testing::Gt(10)));
  EXPECT_GT(graph.slices.size(), 10u);
  EXPECT_GT(graph.EdgeCount(), graph.TaskCount());
  const TaskGraph again = RandomGraph({.seed = 5, .ranks = 4, .tasks = 600});
  EXPECT_EQ(graph.operands, again.operands);
  EXPECT_EQ(graph.edges.m_forward.m_column, again.edges.m_forward.m_column);
}

}  // namespace
}  // namespace twinstep
