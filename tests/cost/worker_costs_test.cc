// What tasks cost where threads of a host serve the ranks.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "sim/cost/graph_costs.h"
#include "sim/graph/op.h"
#include "tests/cost/cost_graph.h"

namespace twinstep {
namespace {

// Round numbers: 1 GFLOP/s, 1 GB/s a thread, 1.5 GB/s of DRAM behind a cache of 1 MB.
Cluster Threads() {
  Cluster cluster;
  cluster.set_nodes(1);
  cluster.mutable_gpu()->set_fp32_flops_per_s(1e9);
  cluster.mutable_gpu()->set_memory_bytes_per_s(1e9);
  cluster.mutable_gpu()->set_l2_bytes(1'000'000);
  Node& node = *cluster.mutable_node();
  node.set_gpus(4);
  node.mutable_pcie()->set_h2d_bytes_per_s(2e9);
  node.mutable_pcie()->set_d2h_bytes_per_s(2e9);
  node.mutable_host()->set_dram_bytes_per_s(1.5e9);
  node.mutable_workers()->set_threads(2);
  node.mutable_workers()->set_dispatch_s(3e-6);
  return cluster;
}

GraphCosts Costs(const TaskGraph& graph, const Cluster& cluster, const Profile* profile = nullptr) {
  Result<GraphCosts> costs = ComputeCosts(graph, Model(), cluster, profile);
  if (!costs.ok()) {
    ADD_FAILURE() << costs.error().message;
    return {};
  }
  return std::move(costs).value();
}

constexpr Picoseconds kMillisecond = 1'000'000'000;

void ExpectFixed(const TaskCost& cost, Picoseconds time) {
  EXPECT_EQ(cost.fixed_ps, time);
  EXPECT_EQ(cost.flow_count, 0u);
}

// All at one rate, over the node's memory.
void ExpectShares(const GraphCosts& costs, TaskId id, std::int64_t bytes, double bytes_per_s) {
  const TaskCost& cost = costs.Of(id);
  EXPECT_EQ(cost.fixed_ps, 0);
  ASSERT_EQ(cost.flow_count, 1u);
  const Flow& flow = costs.flows[cost.flow_begin];
  EXPECT_EQ(flow.bytes, bytes);
  EXPECT_DOUBLE_EQ(flow.max_bytes_per_s, bytes_per_s);
  ASSERT_EQ(flow.hop_count, 1u);
  EXPECT_EQ(costs.links[costs.hops[flow.hop_begin].link].kind, LinkKind::kDram);
  EXPECT_EQ(costs.hops[flow.hop_begin].multiplicity, 1);
}

TEST(WorkerCostsTest, ThreadsAreThoseOfTheCluster) {
  CostGraph graph(1);
  graph.Copy(0, true, 8);
  Cluster cluster = Threads();
  WorkerPool workers = Costs(graph.graph(), cluster).workers;
  EXPECT_EQ(workers.threads, 2u);
  EXPECT_EQ(workers.dispatch_ps, 3'000'000);
  EXPECT_EQ(workers.wake_ps, 3'000'000);  // As long, if nothing else is said.
  cluster.mutable_node()->mutable_workers()->set_wake_s(50e-6);
  EXPECT_EQ(Costs(graph.graph(), cluster).workers.wake_ps, 50'000'000);
  Profile profile;
  profile.set_dispatch_s(1e-6);
  EXPECT_EQ(Costs(graph.graph(), cluster, &profile).workers.dispatch_ps, 1'000'000);
}

TEST(WorkerCostsTest, SmallWorkStaysInTheCacheLargeWorkSharesMemory) {
  CostGraph graph(1);
  const OpShape small{.op = OpCode::kAdd, .dtype = Dtype::kFp32, .dims = {100, 100}};
  const OpShape large{.op = OpCode::kAdd, .dtype = Dtype::kFp32, .dims = {1000, 1000}};
  const TaskId a = graph.Compute(0, small), b = graph.Compute(0, large);
  const TaskId copy = graph.Copy(0, true, 400'000), large_copy = graph.Copy(0, false, 4'000'000);
  const GraphCosts costs = Costs(graph.graph(), Threads());
  ExpectFixed(costs.Of(a), 120'000'000);            // 3 x 40 kB.
  ExpectShares(costs, b, 12'000'000, 1e9);          // 3 x 4 MB.
  ExpectFixed(costs.Of(copy), kMillisecond / 5);    // At the rate of copies; 800 kB in all.
  ExpectShares(costs, large_copy, 8'000'000, 4e9);  // Read and written.
}

TEST(WorkerCostsTest, OneMemberHasTheWorkOfACollective) {
  const std::vector<std::uint32_t> members = {2, 0, 1};
  const std::pair<OpCode, std::int64_t> passes[] = {{OpCode::kAllReduce, 6},
                                                    {OpCode::kAllGather, 6},
                                                    {OpCode::kReduceScatter, 4},
                                                    {OpCode::kRingShift, 6}};
  for (const auto& [op, times] : passes) {
    SCOPED_TRACE(Name(op));
    CostGraph graph(3);
    std::vector<TaskId> tasks;
    for (RankId rank = 0; rank < 3; ++rank) {
      tasks.push_back(graph.Collective(op, rank, members, 100'000));
    }
    const GraphCosts costs = Costs(graph.graph(), Threads());
    ExpectFixed(costs.Of(tasks[0]), 0);
    ExpectFixed(costs.Of(tasks[1]), 0);
    ExpectFixed(costs.Of(tasks[2]), times * kMillisecond / 10);  // The group's first.
  }
}

TEST(WorkerCostsTest, TheSenderHasTheWorkOfAMessage) {
  CostGraph graph(2);
  const auto [send, recv] = graph.Message(0, 1, 100'000);
  const auto [large_send, large_recv] = graph.Message(1, 0, 10'000'000);
  const GraphCosts costs = Costs(graph.graph(), Threads());
  ExpectFixed(costs.Of(send), kMillisecond / 5);
  ExpectFixed(costs.Of(recv), 0);
  ExpectShares(costs, large_send, 20'000'000, 1e9);
  ExpectFixed(costs.Of(large_recv), 0);
}

TEST(WorkerCostsTest, HostWorkIsWorkOfAThread) {
  CostGraph graph(1);
  const OpShape adam{.op = OpCode::kAdam, .dtype = Dtype::kFp32, .dims = {1000}};
  const TaskId on_gpu = graph.Compute(0, adam), on_host = graph.Host(0, adam);
  const GraphCosts costs = Costs(graph.graph(), Threads());
  EXPECT_GT(costs.Of(on_gpu).fixed_ps, 0);
  EXPECT_EQ(costs.Of(on_host).fixed_ps, costs.Of(on_gpu).fixed_ps);
}

}  // namespace
}  // namespace twinstep
