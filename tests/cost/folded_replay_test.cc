// A folded graph replays as the whole one does, shared links and interference included, also where
// stages straddle nodes, NIC ports and uplinks are shared and the last node is not full.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "hw_specs/find_cluster.h"
#include "model_zoo/find_model.h"
#include "sim/cost/graph_costs.h"
#include "sim/engine/engine.h"
#include "sim/lower/lower.h"
#include "sim/plan/resolved_plan.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

template <typename T>
T Need(Result<T> result) {
  if (!result.ok()) {
    ADD_FAILURE() << result.error().message;
    return {};
  }
  return std::move(result).value();
}

struct Case {
  std::int64_t t, c, p, d;
  std::string rank_order;
  std::int64_t gpus_per_node, nics, gpus_per_uplink;
  bool nvlink;
  double link_bytes_per_s;
};

// The more GPUs copy down, the less each gets up.
Profile LimitedCopies() {
  Profile profile;
  for (const std::int64_t up : {0, 1, 4}) {
    for (const std::int64_t down : {0, 1, 4}) {
      HostCopySample* const sample = profile.add_host_copies();
      sample->set_up(up);
      sample->set_down(down);
      sample->set_bytes(1'000'000);
      if (up > 0) sample->set_h2d_s(0.5 + 0.2 * static_cast<double>(up + 2 * down));
      if (down > 0) sample->set_d2h_s(0.5 + 0.1 * static_cast<double>(down));
    }
  }
  return profile;
}

TEST(FoldedReplayTest, FoldedIsWhole) {
  const Profile limited = LimitedCopies();
  int slowed = 0;
  const Model model = Need(FindModel("tiny-llama"));
  for (const Case& at : {Case{1, 1, 2, 2, "tp-cp-dp-pp", 4, 4, 1, true, 1e7},
                         Case{2, 1, 2, 3, "tp-cp-dp-pp", 4, 4, 1, true, 12.5e9},
                         Case{2, 1, 2, 3, "tp-cp-dp-pp", 4, 2, 2, true, 1e8},
                         Case{1, 1, 2, 3, "tp-cp-dp-pp", 4, 1, 1, true, 1e7},
                         Case{2, 2, 2, 2, "pp-tp-cp-dp", 8, 4, 2, false, 1e8},
                         Case{1, 2, 2, 3, "dp-tp-pp-cp", 3, 2, 2, false, 1e7}}) {
    Cluster cluster = Need(FindCluster("h800"));
    cluster.mutable_node()->set_gpus(at.gpus_per_node);
    cluster.mutable_node()->mutable_nic()->set_count(at.nics);
    cluster.mutable_node()->mutable_pcie()->set_gpus_per_uplink(at.gpus_per_uplink);
    if (!at.nvlink) cluster.mutable_node()->mutable_nvlink()->set_bytes_per_s(0);
    // Links so slow that a tiny model's messages share them most of the time.
    cluster.mutable_node()->mutable_nic()->set_bytes_per_s(at.link_bytes_per_s);
    cluster.mutable_node()->mutable_pcie()->set_uplink_bytes_per_s(at.link_bytes_per_s);
    cluster.mutable_node()->mutable_host()->set_dram_bytes_per_s(2 * at.link_bytes_per_s);
    Plan plan;
    plan.set_tensor_parallel(at.t);
    plan.set_context_parallel(at.c);
    plan.set_pipeline_parallel(at.p);
    plan.set_rank_order(at.rank_order);
    plan.set_global_batch(4 * at.d);
    plan.set_sequence_length(64);
    plan.set_offload_ratio(0.5);
    const std::string name = StrCat(at.t, " ", at.c, " ", at.p, " ", at.d, " ", at.rank_order, " ",
                                    at.gpus_per_node, " a node");
    const ResolvedPlan resolved =
        Need(ResolvePlan(model, cluster, plan, at.t * at.c * at.p * at.d));
    Picoseconds unlimited_ps = 0;
    for (const Profile* profile : {static_cast<const Profile*>(nullptr), &limited}) {
      Picoseconds makespan[2] = {};
      std::size_t ranks[2] = {};
      for (const bool fold : {false, true}) {
        const TaskGraph graph = Need(Lower(model, cluster, resolved, {.fold = fold}));
        const GraphCosts costs = Need(ComputeCosts(graph, model, cluster, profile));
        makespan[fold] = Need(MakeFastEngine()->Run(graph, costs)).makespan_ps;
        ranks[fold] = graph.ranks.size();
      }
      EXPECT_GT(makespan[0], 0) << name;
      if (profile == nullptr) unlimited_ps = makespan[0];
      if (makespan[0] > unlimited_ps) ++slowed;
      EXPECT_LE(ranks[1], ranks[0]) << name;
      EXPECT_LE(std::abs(static_cast<double>(makespan[1] - makespan[0])),
                1e-9 * static_cast<double>(makespan[0]))
          << name << ": whole " << makespan[0] << " ps on " << ranks[0] << " ranks, folded "
          << makespan[1] << " ps on " << ranks[1];
    }
  }
  EXPECT_GE(slowed, 3);  // By the limits of copies.
}

}  // namespace
}  // namespace twinstep
