#include "sim/cost/graph_costs.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <tuple>

#include "sim/plan/placement.h"
#include "tests/cost/cost_graph.h"
#include "tests/cost/test_clusters.h"

namespace twinstep {
namespace {

using Ranks = std::vector<std::uint32_t>;

GraphCosts Costs(const TaskGraph& graph, const Cluster& cluster, const Profile* profile = nullptr) {
  Result<GraphCosts> costs = ComputeCosts(graph, Model(), cluster, profile);
  if (!costs.ok()) {
    ADD_FAILURE() << costs.error().message;
    return {};
  }
  return std::move(costs).value();
}

std::string ErrorOf(const TaskGraph& graph, const Cluster& cluster) {
  const Result<GraphCosts> costs = ComputeCosts(graph, Model(), cluster, nullptr);
  return costs.ok() ? "no error" : costs.error().message;
}

// "kind node.index x multiplicity" of each hop of a task's only flow.
std::map<std::string, double> Route(const GraphCosts& costs, TaskId id, std::uint32_t flow = 0) {
  std::map<std::string, double> route;
  const Flow& at = costs.flows[costs.Of(id).flow_begin + flow];
  for (std::uint32_t i = 0; i < at.hop_count; ++i) {
    const RouteHop& hop = costs.hops[at.hop_begin + i];
    const Link& link = costs.links[hop.link];
    route[std::string(Name(link.kind)) + " " + std::to_string(link.node) + "." +
          std::to_string(link.index)] += hop.multiplicity;
  }
  return route;
}

const Flow& FlowOf(const GraphCosts& costs, TaskId id, std::uint32_t flow = 0) {
  return costs.flows[costs.Of(id).flow_begin + flow];
}

// Latency and the flows' bytes at the rate that caps and links alone allow.
double AloneSeconds(const GraphCosts& costs, const TaskCost& cost) {
  double longest = 0;
  for (std::uint32_t i = 0; i < cost.flow_count; ++i) {
    const Flow& flow = costs.flows[cost.flow_begin + i];
    longest = std::max(longest, static_cast<double>(flow.bytes) / flow.max_bytes_per_s);
  }
  return static_cast<double>(cost.fixed_ps) / kPicosecondsPerSecond + longest;
}

TEST(ComputeCostsTest, ComputeIsTheRooflineOnEveryRank) {
  CostGraph graph(2);
  const OpShape gemm{.op = OpCode::kGemmForward, .dims = {1000, 1000, 50000}};
  const TaskId a = graph.Compute(0, gemm), b = graph.Compute(1, gemm);
  const TaskId add = graph.Compute(1, {.op = OpCode::kAdd, .dims = {1000, 1000}});
  const GraphCosts costs = Costs(graph.graph(), PlainCluster());
  EXPECT_EQ(costs.Of(a).fixed_ps, 1'000'000'000);  // 1e11 FLOP at 1e14.
  EXPECT_EQ(costs.cost_of_task[a], costs.cost_of_task[b]);
  EXPECT_EQ(costs.Of(add).fixed_ps, 6'000'000);  // 6 MB at 1 TB/s.
  EXPECT_EQ(costs.Of(a).flow_count, 0u);
  EXPECT_TRUE(costs.links.empty());
  EXPECT_TRUE(costs.warnings.empty());
}

TEST(ComputeCostsTest, JitterIsTheExpectedSlowestGpu) {
  Cluster cluster = PlainCluster();
  cluster.set_compute_jitter(0.01);
  CostGraph graph(Ranks(1000, 0), {0});
  const TaskId id = graph.Compute(0, {.op = OpCode::kAdd, .dims = {1000, 1000}});
  EXPECT_NEAR(static_cast<double>(Costs(graph.graph(), cluster).Of(id).fixed_ps), 6e6 * 1.0324,
              6e6 * 0.0003);
}

TEST(ComputeCostsTest, CopiesCrossPcieAndDram) {
  CostGraph graph(2);
  const TaskId up = graph.Copy(0, true, 20'000), down = graph.Copy(1, false, 20'000);
  const GraphCosts costs = Costs(graph.graph(), PlainCluster());
  EXPECT_EQ(Route(costs, up),
            (std::map<std::string, double>{{"pcie_h2d 0.0", 1}, {"dram 0.0", 1}}));
  EXPECT_EQ(Route(costs, down),
            (std::map<std::string, double>{{"pcie_d2h 0.1", 1}, {"dram 0.0", 1}}));
  EXPECT_EQ(FlowOf(costs, up).bytes, 20'000);
  EXPECT_EQ(FlowOf(costs, up).max_bytes_per_s, 20e9);
  EXPECT_EQ(costs.Of(up).fixed_ps, 0);
}

TEST(ComputeCostsTest, DuplexLimitAndUplinksAreLinks) {
  Cluster cluster = PlainCluster();
  Pcie& pcie = *cluster.mutable_node()->mutable_pcie();
  pcie.set_duplex_bytes_per_s(25e9);
  pcie.set_gpus_per_uplink(2);
  pcie.set_uplink_bytes_per_s(15e9);
  CostGraph graph(4);
  const TaskId up = graph.Copy(3, true, 1);
  const GraphCosts costs = Costs(graph.graph(), cluster);
  EXPECT_EQ(
      Route(costs, up),
      (std::map<std::string, double>{
          {"pcie_h2d 0.3", 1}, {"pcie_duplex 0.3", 1}, {"uplink_h2d 0.1", 1}, {"dram 0.0", 1}}));
  // A duplex figure that is no limit is no link.
  pcie.set_duplex_bytes_per_s(30e9);
  EXPECT_EQ(Route(Costs(graph.graph(), cluster), up).count("pcie_duplex 0.3"), 0u);
}

TEST(ComputeCostsTest, MessageIsHalfASendAndHalfAReceive) {
  CostGraph graph(8);
  const auto inside = graph.Message(1, 2, 4000, {1, 2});
  const auto outside = graph.Message(1, 6, 4000, {1, 6});
  const auto no_group = graph.Message(6, 1, 4000);
  const GraphCosts costs = Costs(graph.graph(), PlainCluster());
  for (const TaskId id : inside) {
    EXPECT_EQ(Route(costs, id),
              (std::map<std::string, double>{{"nvlink_out 0.1", 0.5}, {"nvlink_in 0.2", 0.5}}));
    EXPECT_EQ(FlowOf(costs, id).bytes, 4000);
    EXPECT_EQ(FlowOf(costs, id).max_bytes_per_s, 100e9);
  }
  for (const TaskId id : outside) {
    EXPECT_EQ(Route(costs, id), (std::map<std::string, double>{{"pcie_d2h 0.1", 0.5},
                                                               {"nic_out 0.1", 0.5},
                                                               {"nic_in 1.2", 0.5},
                                                               {"pcie_h2d 1.2", 0.5}}));
    EXPECT_EQ(FlowOf(costs, id).max_bytes_per_s, 5e9);
  }
  for (const TaskId id : no_group) {
    EXPECT_EQ(Route(costs, id).at("nic_out 1.2"), 0.5);
    EXPECT_EQ(Route(costs, id).at("nic_in 0.1"), 0.5);
  }
}

TEST(ComputeCostsTest, CollectiveOverNodesHasAFlowALevel) {
  CostGraph graph(8);
  const TaskId id = graph.Collective(OpCode::kAllGather, 5, {0, 1, 4, 5}, 8000);
  const GraphCosts costs = Costs(graph.graph(), PlainCluster());
  ASSERT_EQ(costs.Of(id).flow_count, 2u);
  EXPECT_EQ(Route(costs, id, 0),
            (std::map<std::string, double>{{"nvlink_out 1.1", 1}, {"nvlink_in 1.1", 1}}));
  EXPECT_EQ(FlowOf(costs, id, 0).bytes, 3000);
  EXPECT_EQ(Route(costs, id, 1),
            (std::map<std::string, double>{
                {"pcie_d2h 1.1", 1}, {"pcie_h2d 1.1", 1}, {"nic_out 1.1", 1}, {"nic_in 1.1", 1}}));
  EXPECT_EQ(FlowOf(costs, id, 1).bytes, 3000);
}

TEST(ComputeCostsTest, PeersWithoutNvlinkPassThroughTheHost) {
  CostGraph graph(4);
  const TaskId id = graph.Collective(OpCode::kAllGather, 0, {0, 1, 2, 3}, 8000);
  const auto message = graph.Message(0, 1, 100, {0, 1});
  const GraphCosts costs = Costs(graph.graph(), Rtx3090Node());
  EXPECT_EQ(Route(costs, id), (std::map<std::string, double>{
                                  {"pcie_d2h 0.0", 1}, {"pcie_h2d 0.0", 1}, {"dram 0.0", 2}}));
  EXPECT_EQ(Route(costs, message[0]),
            (std::map<std::string, double>{
                {"pcie_d2h 0.0", 0.5}, {"pcie_h2d 0.1", 0.5}, {"dram 0.0", 1}}));
}

TEST(ComputeCostsTest, PeersBelowSwitchesShareTheUplink) {
  Cluster cluster = PlainCluster();
  cluster.mutable_node()->mutable_nvlink()->set_bytes_per_s(0);
  cluster.mutable_node()->mutable_pcie()->set_gpus_per_uplink(2);
  CostGraph graph(4);
  const TaskId all = graph.Collective(OpCode::kAllGather, 0, {0, 1, 2, 3}, 8000);
  const TaskId pair = graph.Collective(OpCode::kAllGather, 0, {0, 1}, 8000);
  const auto near = graph.Message(0, 1, 100, {0, 1}), far = graph.Message(0, 2, 100, {0, 2});
  const GraphCosts costs = Costs(graph.graph(), cluster);
  // One of the two members below the switch reaches beyond it: half each, on average.
  EXPECT_EQ(Route(costs, all).at("uplink_d2h 0.0"), 0.5);
  EXPECT_EQ(Route(costs, pair).count("uplink_d2h 0.0"), 0u);
  EXPECT_EQ(Route(costs, near[0]).count("uplink_d2h 0.0"), 0u);
  EXPECT_EQ(Route(costs, far[0]).at("uplink_d2h 0.0"), 0.5);
  EXPECT_EQ(Route(costs, far[0]).at("uplink_h2d 0.1"), 0.5);
}

TEST(ComputeCostsTest, HostAdamSharesCoresAndDram) {
  CostGraph graph(4);
  const TaskId id = graph.Host(2, {.op = OpCode::kAdam, .dims = {1'000'000}});
  const TaskId sum = graph.Host(2, {.op = OpCode::kAccumulate, .dims = {1'000'000}});
  const GraphCosts costs = Costs(graph.graph(), PlainCluster());
  // 1e9 parameters a second of 28 bytes: half of DRAM's 56 GB/s, all of the cores.
  EXPECT_EQ(FlowOf(costs, id).bytes, 28'000'000);
  EXPECT_EQ(FlowOf(costs, id).max_bytes_per_s, 28e9);
  EXPECT_EQ(Route(costs, id),
            (std::map<std::string, double>{{"host_compute 0.0", 1}, {"dram 0.0", 1}}));
  EXPECT_EQ(FlowOf(costs, sum).bytes, 6'000'000);
  // Alone it keeps its rate where that is more than triad's figure; no rate given: 4/3 of triad.
  Cluster cluster = PlainCluster();
  cluster.mutable_node()->mutable_host()->set_adam_params_per_s(4e9);
  EXPECT_EQ(Route(Costs(graph.graph(), cluster), id).at("dram 0.0"), 0.5);
  cluster.mutable_node()->mutable_host()->set_adam_params_per_s(0);
  EXPECT_DOUBLE_EQ(FlowOf(Costs(graph.graph(), cluster), id).max_bytes_per_s, 56e9 * 4 / 3);
}

TEST(ComputeCostsTest, HostAdamTakesNoMoreThanItsCoresMove) {
  CostGraph graph(1);
  const TaskId id = graph.Host(0, {.op = OpCode::kAdam, .dims = {1'000'000}});
  Cluster cluster = PlainCluster();
  Host* host = cluster.mutable_node()->mutable_host();
  host->set_core_bytes_per_s(3e9);
  host->set_cores(32);
  EXPECT_EQ(FlowOf(Costs(graph.graph(), cluster), id).max_bytes_per_s, 28e9);
  host->set_cores(2);
  EXPECT_DOUBLE_EQ(FlowOf(Costs(graph.graph(), cluster), id).max_bytes_per_s, 2 * 3e9 * 4 / 3);
  // What was measured counts.
  Profile profile;
  profile.set_host_adam_params_per_s(1e9);
  EXPECT_EQ(FlowOf(Costs(graph.graph(), cluster, &profile), id).max_bytes_per_s, 28e9);
}

TEST(ComputeCostsTest, InterferenceWithoutZeros) {
  Cluster cluster = PlainCluster();
  cluster.mutable_gpu()->mutable_interference()->set_compute_beside_copy(1.12);
  CostGraph graph(1);
  const GraphCosts costs = Costs(graph.graph(), cluster);
  EXPECT_EQ(costs.interference.compute_beside_copy(), 1.12);
  EXPECT_EQ(costs.interference.copy_beside_compute(), 1);
  EXPECT_EQ(costs.interference.collective_beside_compute(), 1);
  Profile profile;
  profile.mutable_interference()->set_copy_beside_compute(1.5);
  EXPECT_EQ(Costs(graph.graph(), cluster, &profile).interference.copy_beside_compute(), 1.5);
  EXPECT_EQ(Costs(graph.graph(), cluster, &profile).interference.compute_beside_copy(), 1);
}

// 2 GPUs of 1 TB/s, whose collectives of 8 MB were measured.
Profile ProfileOfTurns(bool takes_turns) {
  Profile profile;
  for (const char* op : {"all_reduce", "reduce_scatter", "all_gather", "send"}) {
    CollectiveSample& sample = *profile.add_collectives();
    sample.set_op(op);
    sample.set_group_size(2);
    sample.set_ranks_per_node(2);
    sample.set_bytes(8'000'000);
    sample.set_median_s(100e-6);
    sample.set_beside_compute_s(150e-6);
    sample.set_takes_turns(takes_turns && std::string(op) != "send");
  }
  return profile;
}

TEST(ComputeCostsTest, SumsAreKernelsAndGathersCopyTheirOwnShardFirst) {
  CostGraph graph(2);
  const TaskId sum = graph.Collective(OpCode::kAllReduce, 0, {0, 1}, 8'000'000);
  const TaskId scatter = graph.Collective(OpCode::kReduceScatter, 0, {0, 1}, 8'000'000);
  const TaskId gather = graph.Collective(OpCode::kAllGather, 0, {0, 1}, 8'000'000);
  const TaskId in_place = graph.Collective(OpCode::kAllGather, 0, {0, 1}, 8'000'000);
  const TaskId message = graph.Message(0, 1, 8'000'000)[0];
  Task& task = graph.graph().tasks[in_place];
  task.operand_begin = static_cast<std::uint32_t>(graph.graph().operands.size());
  task.read_count = task.write_count = 1;
  graph.graph().operands.resize(task.operand_begin + 2, {.buffer = 7});

  for (const bool takes_turns : {false, true}) {
    const Profile profile = ProfileOfTurns(takes_turns);
    const GraphCosts costs = Costs(graph.graph(), PlainCluster(), &profile);
    const KernelTurn whole = takes_turns ? KernelTurn::kWhole : KernelTurn::kNever;
    const KernelTurn begins = takes_turns ? KernelTurn::kBegins : KernelTurn::kNever;
    EXPECT_EQ(costs.Of(sum).turn, whole);
    EXPECT_EQ(costs.Of(scatter).turn, whole);
    EXPECT_EQ(costs.Of(gather).turn, begins);
    EXPECT_EQ(costs.Of(in_place).turn, KernelTurn::kNever);
    EXPECT_EQ(costs.Of(message).turn, KernelTurn::kNever);
    // However it does it, it takes what was measured.
    for (const TaskId id : {sum, scatter, gather, in_place, message}) {
      EXPECT_NEAR(AloneSeconds(costs, costs.Of(id)), 100e-6, 1e-11);
    }
    // Kernels that take turns are never beside computation.
    EXPECT_EQ(costs.Of(sum).beside_compute, takes_turns ? 1.0F : 1.5F);
    EXPECT_EQ(costs.Of(gather).beside_compute, 1.5F);
    EXPECT_EQ(costs.Of(in_place).beside_compute, 1.5F);
    // 4 MB read and written at 1 TB/s.
    EXPECT_EQ(costs.Of(gather).fixed_ps, takes_turns ? 8'000'000 : 0);
  }
}

TEST(ComputeCostsTest, OperatorsLetKernelsInAsMeasured) {
  CostGraph graph(1);
  const TaskId add = graph.Compute(0, {.op = OpCode::kAdd, .dims = {1000, 1000}});
  const TaskId mul = graph.Compute(0, {.op = OpCode::kMulForward, .dims = {1000, 1000}});
  Profile profile;
  for (const char* op : {"add", "mul_forward"}) {
    OperatorSample& sample = *profile.add_operators();
    sample.set_op(op);
    sample.set_dtype(Name(Dtype::kBf16));
    for (const std::int64_t dim : {1000, 1000, 0, 0, 0, 0}) sample.add_dims(dim);
    sample.set_median_s(8e-6);
    if (std::string(op) == "add") sample.set_lets_in_s(6e-6);
  }
  const GraphCosts costs = Costs(graph.graph(), PlainCluster(), &profile);
  EXPECT_EQ(costs.Of(add).fixed_ps, 8'000'000);
  EXPECT_EQ(costs.Of(add).lets_in_ps, 6'000'000);
  EXPECT_EQ(costs.Of(mul).lets_in_ps, 0);
}

TEST(ComputeCostsTest, DelaysBetweenLanesAreOfGpusOnly) {
  CostGraph graph(1);
  Profile profile;
  profile.set_lane_handoff_s(3e-6);
  profile.set_meeting_s(4e-6);
  const GraphCosts costs = Costs(graph.graph(), PlainCluster(), &profile);
  EXPECT_EQ(costs.handoff_ps, 3'000'000);
  EXPECT_EQ(costs.meeting_ps, 4'000'000);
  Cluster cpu = PlainCluster();
  cpu.mutable_node()->mutable_workers()->set_threads(2);
  EXPECT_EQ(Costs(graph.graph(), cpu, &profile).handoff_ps, 0);
  EXPECT_EQ(Costs(graph.graph(), cpu, &profile).meeting_ps, 0);
}

TEST(ComputeCostsTest, ErrorsNameWhatIsWrong) {
  const OpShape gemm{.op = OpCode::kGemmForward, .dims = {64, 64, 64}};
  CostGraph compute(1);
  compute.Compute(0, gemm);
  EXPECT_EQ(ErrorOf(compute.graph(), Cluster()),
            "cluster field gpu.memory_bytes_per_s is missing: gemm_forward needs it");
  CostGraph copy(1);
  copy.Copy(0, true, 1);
  EXPECT_EQ(ErrorOf(copy.graph(), Cluster()),
            "cluster field node.pcie.h2d_bytes_per_s is missing: copy_h2d needs it");
  CostGraph far(8);
  far.Collective(OpCode::kAllReduce, 0, {0, 7}, 100);
  EXPECT_EQ(ErrorOf(far.graph(), H200Node()), "no error");
  EXPECT_EQ(ErrorOf(far.graph(), Cluster()),
            "cluster field node.nic.bytes_per_s (or count) is missing: all_reduce needs it");
  CostGraph no_group(2);
  no_group.Collective(OpCode::kAllReduce, 1, {}, 100);
  EXPECT_EQ(ErrorOf(no_group.graph(), PlainCluster()),
            "all_reduce of rank 1 (lane tp) has no group");
  CostGraph stranger(2);
  stranger.Collective(OpCode::kAllReduce, 1, {0, 1, 9}, 100);
  EXPECT_EQ(ErrorOf(stranger.graph(), PlainCluster()),
            "group 0 has member 9, which is no rank of the graph");
  CostGraph half(2);
  half.Message(0, 1, 100);
  half.graph().tasks.pop_back();
  EXPECT_EQ(ErrorOf(half.graph(), PlainCluster()), "rendezvous 0 has a send on rank 0 and no recv");
  CostGraph shape(1);
  shape.Compute(0, gemm);
  shape.graph().tasks[0].shape = 7;
  EXPECT_EQ(ErrorOf(shape.graph(), PlainCluster()), "task 0 has shape 7 of 1 and rank 0 of 1");
  Cluster slow = PlainCluster();
  slow.mutable_node()->mutable_pcie()->set_h2d_bytes_per_s(1e-9);
  EXPECT_NE(ErrorOf(copy.graph(), slow).find("takes too long"), std::string::npos);
}

TEST(ComputeCostsTest, FoldedLinksCarryTheirClass) {
  // 8 GPUs, 4 a node on 2 NIC ports, all alike: one class, and its port is crossed by two.
  Cluster cluster = PlainCluster();
  cluster.mutable_node()->mutable_nic()->set_count(2);
  CostGraph graph(Ranks(8, 0), {0});
  const TaskId reduce = graph.Collective(OpCode::kAllReduce, 0, {0, 1, 2, 3, 4, 5, 6, 7}, 8000);
  const TaskId copy = graph.Copy(0, true, 100);
  const GraphCosts costs = Costs(graph.graph(), cluster);
  EXPECT_EQ(Route(costs, reduce, 1).at("nic_out 0.0"), 2);
  EXPECT_EQ(Route(costs, copy).at("dram 0.0"), 4);
  EXPECT_EQ(Route(costs, copy).at("pcie_h2d 0.0"), 1);
}

TEST(ComputeCostsTest, SharedNicsCarryWhatTheirProtocolLeaves) {
  Cluster cluster = PlainCluster();
  Nic& nic = *cluster.mutable_node()->mutable_nic();
  nic.set_count(2);
  nic.set_collective_efficiency(0.8);
  nic.set_p2p_efficiency(0.7);
  CostGraph graph(Ranks(8, 0), {0});
  graph.Collective(OpCode::kAllReduce, 0, {0, 1, 2, 3, 4, 5, 6, 7}, 8000);
  const GraphCosts costs = Costs(graph.graph(), cluster);
  int nics = 0;
  for (const Link& link : costs.links) {
    if (link.kind != LinkKind::kNicOut) continue;
    EXPECT_DOUBLE_EQ(link.bytes_per_s, 0.8 * 5e9);
    ++nics;
  }
  EXPECT_GT(nics, 0);
}

TEST(ComputeCostsTest, OnlyGroupsWithoutASwitchInCommonPassThroughTheHost) {
  Cluster cluster = PlainCluster();  // 4 GPUs a node.
  cluster.mutable_node()->mutable_pcie()->set_gpus_per_uplink(2);
  cluster.mutable_node()->mutable_nic()->set_through_host_bytes_per_s(4e9);
  const auto nic_rate = [&](const std::vector<std::uint32_t>& members) {
    CostGraph graph(8);
    const TaskId task = graph.Collective(OpCode::kAllReduce, 0, members, 8000);
    const GraphCosts costs = Costs(graph.graph(), cluster);
    const TaskCost& cost = costs.costs[costs.cost_of_task[task]];
    return costs.flows[cost.flow_begin + cost.flow_count - 1].max_bytes_per_s;
  };
  EXPECT_DOUBLE_EQ(nic_rate({0, 2, 4, 6}), 1e9);  // A switch each.
  EXPECT_DOUBLE_EQ(nic_rate({0, 1, 4, 5}), 5e9);  // Both below one.
  EXPECT_DOUBLE_EQ(nic_rate({0, 4}), 5e9);        // One a node.
}

// Every rank takes part in one collective of each kind of group, sends to the next stage, copies
// both ways and runs Adam on its host.
template <typename Rank>
void AddEverything(const Placement& placement, const ResolvedPlan& plan, CostGraph* graph,
                   std::int64_t global_rank, const Rank& represented) {
  using Kind = Placement::GroupKind;
  const RankId rank = represented(global_rank);
  const auto bytes = [&](std::int64_t base) {
    return base * (1 + placement.CoordinatesOf(global_rank).pp);
  };
  for (const Kind kind : {Kind::kTp, Kind::kCp, Kind::kDp, Kind::kDpCp}) {
    graph->Collective(OpCode::kReduceScatter, rank, placement.GroupOf(global_rank, kind),
                      bytes(720720 * (1 + static_cast<int>(kind))));
  }
  graph->Collective(OpCode::kAllReduce, rank, placement.GroupOf(global_rank, Kind::kWorld), 5040);
  graph->Copy(rank, true, bytes(1000));
  graph->Copy(rank, false, bytes(3000));
  graph->Host(rank, {.op = OpCode::kAdam, .dims = {bytes(500)}});
  if (plan.p > 1) {
    Coordinates at = placement.CoordinatesOf(global_rank);
    at.pp = (at.pp + 1) % plan.p;
    const std::int64_t peer = placement.RankOf(at);
    graph->Message(rank, represented(peer), bytes(7000),
                   {static_cast<std::uint32_t>(global_rank), static_cast<std::uint32_t>(peer)});
  }
}

RC_GTEST_PROP(ComputeCostsProperty, FoldedCostsAreThoseOfTheRealRanks, ()) {
  const auto size = [] { return *rc::gen::inRange<std::int64_t>(1, 4); };
  ResolvedPlan plan;
  plan.t = size();
  plan.c = size();
  plan.d = size();
  plan.p = size();
  plan.gpus = plan.t * plan.c * plan.d * plan.p;
  plan.rank_order = *rc::gen::element<std::string>("tp-cp-dp-pp", "pp-tp-cp-dp", "dp-tp-pp-cp");
  Cluster cluster = *rc::gen::elementOf(std::vector<Cluster>{H800Cluster(), A100Node()});
  Node& node = *cluster.mutable_node();
  node.set_gpus(*rc::gen::inRange(1, 9));
  node.mutable_nic()->set_count(*rc::gen::inRange(1, 9));
  node.mutable_pcie()->set_gpus_per_uplink(*rc::gen::inRange(1, 4));
  if (*rc::gen::arbitrary<bool>()) node.mutable_nvlink()->set_bytes_per_s(0);
  const Placement placement(plan, node.gpus());
  const RankClasses classes = SymmetryClasses(placement, plan, cluster);

  CostGraph whole(static_cast<std::uint32_t>(plan.gpus));
  CostGraph folded(classes.class_of, classes.representative);
  for (std::int64_t rank = 0; rank < plan.gpus; ++rank) {
    AddEverything(placement, plan, &whole, rank,
                  [](std::int64_t of) { return static_cast<RankId>(of); });
  }
  for (const std::uint32_t rank : classes.representative) {
    AddEverything(placement, plan, &folded, rank, [&](std::int64_t of) {
      return static_cast<RankId>(classes.class_of[static_cast<std::size_t>(of)]);
    });
  }
  const GraphCosts whole_costs = Costs(whole.graph(), cluster);
  const GraphCosts folded_costs = Costs(folded.graph(), cluster);

  // Each rank's tasks cost alone what its representative's cost. (Messages run forward, so a
  // representative's block of tasks is its own whatever its peer's representative is.)
  const std::size_t block = whole.graph().tasks.size() / static_cast<std::size_t>(plan.gpus);
  for (std::size_t rank = 0; rank < classes.class_of.size(); ++rank) {
    for (std::size_t i = 0; i < block; ++i) {
      const TaskCost& a = whole_costs.Of(static_cast<TaskId>(rank * block + i));
      const TaskCost& b = folded_costs.Of(static_cast<TaskId>(classes.class_of[rank] * block + i));
      RC_ASSERT(a.fixed_ps == b.fixed_ps);
      RC_ASSERT(a.flow_count == b.flow_count);
      RC_ASSERT(AloneSeconds(whole_costs, a) == AloneSeconds(folded_costs, b));
    }
  }

  // The bytes that cross each kind of link, with the capacity of all links they are spread over.
  const auto loads = [](const TaskGraph& graph, const GraphCosts& costs) {
    std::vector<double> load(costs.links.size(), 0);
    for (TaskId id = 0; id < graph.TaskCount(); ++id) {
      const TaskCost& cost = costs.Of(id);
      for (std::uint32_t f = 0; f < cost.flow_count; ++f) {
        const Flow& flow = costs.flows[cost.flow_begin + f];
        for (std::uint32_t h = 0; h < flow.hop_count; ++h) {
          const RouteHop& hop = costs.hops[flow.hop_begin + h];
          load[hop.link] += hop.multiplicity * static_cast<double>(flow.bytes);
        }
      }
    }
    return load;
  };
  const std::vector<double> whole_load = loads(whole.graph(), whole_costs);
  const std::vector<double> folded_load = loads(folded.graph(), folded_costs);
  std::map<std::tuple<int, std::uint32_t, std::uint32_t>, double> real;
  for (std::size_t i = 0; i < whole_load.size(); ++i) {
    const Link& link = whole_costs.links[i];
    real[{static_cast<int>(link.kind), link.node, link.index}] = whole_load[i];
  }
  // A folded link is named by its lowest class's representative, whose real link it is.
  for (std::size_t i = 0; i < folded_load.size(); ++i) {
    const Link& link = folded_costs.links[i];
    const double expected = real.at({static_cast<int>(link.kind), link.node, link.index});
    RC_ASSERT(std::abs(folded_load[i] - expected) <= 1e-9 * expected);
  }
}

TEST(ComputeCostsTest, TwoRunsGiveTheSame) {
  CostGraph graph(8);
  for (RankId rank = 0; rank < 8; ++rank) {
    graph.Collective(OpCode::kAllReduce, rank, {0, 1, 2, 3, 4, 5, 6, 7}, 1 << 20);
    graph.Copy(rank, true, 1 << 20);
  }
  const GraphCosts a = Costs(graph.graph(), H800Cluster());
  const GraphCosts b = Costs(graph.graph(), H800Cluster());
  EXPECT_EQ(a.cost_of_task, b.cost_of_task);
  ASSERT_EQ(a.links.size(), b.links.size());
  for (std::size_t i = 0; i < a.links.size(); ++i) {
    EXPECT_EQ(a.links[i].kind, b.links[i].kind);
    EXPECT_EQ(a.links[i].node, b.links[i].node);
    EXPECT_EQ(a.links[i].index, b.links[i].index);
  }
  // Interned: ranks differ by their links, so 2 costs a rank.
  EXPECT_EQ(a.costs.size(), 16u);
}

}  // namespace
}  // namespace twinstep
