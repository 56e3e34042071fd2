#include "sim/cost/fuse_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "sim/engine/engine.h"
#include "tests/engine/cost_builder.h"
#include "tests/graph/graph_builder.h"

namespace twinstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Three computations in a chain, and a copy beside them that starts at once.
struct Chain {
  Chain() {
    GraphBuilder builder(1);
    const BufferId x = builder.AddBuffer(0, 64, {.persistent = true});
    const BufferId y = builder.AddBuffer(0, 64, {.persistent = true});
    const BufferId host = builder.AddBuffer(0, 64, {.pool = Pool::kPinnedHost});
    for (int i = 0; i < 3; ++i) compute.push_back(builder.Compute(0, {x}, {x}));
    const auto copying = builder.CopyD2H(y, host);
    graph = builder.Build();
    for (auto& id : compute) id = builder.Id(id);
    copy = builder.Id(copying);
  }
  TaskGraph graph;
  std::vector<TaskId> compute;
  TaskId copy;
};

TEST(FuseCostsTest, MembersBecomeSegments) {
  const Chain chain;
  CostBuilder costs(chain.graph);
  const std::uint32_t a = costs.AddCost(1000, {}, 0);
  const std::uint32_t b = costs.AddCost(3000, {}, 1);
  costs.Set(chain.compute[0], a);
  costs.Set(chain.compute[1], b);
  costs.Set(chain.compute[2], a);
  const FusedGraph fused = Fuse(chain.graph);
  ASSERT_EQ(fused.graph.TaskCount(), 2u);
  const Result<GraphCosts> result = FuseCosts(fused, costs.costs());
  ASSERT_TRUE(result.ok()) << result.error().message;
  const TaskCost& cost = result.value().Of(0);
  EXPECT_EQ(cost.fixed_ps, 5000);
  EXPECT_FLOAT_EQ(cost.interference_sensitivity, 0.6f);
  EXPECT_EQ(cost.segment_count, 3u);
  EXPECT_THAT(result.value().segments, ElementsAre(a, b, a));
}

TEST(FuseCostsTest, EachSegmentSlowsByItsOwnSensitivity) {
  const Chain chain;
  CostBuilder costs(chain.graph);
  const std::uint32_t link = costs.AddLink(LinkKind::kPcieD2H, 1e9);
  costs.Set(chain.compute[0], costs.AddCost(1000, {}, 0));
  costs.Set(chain.compute[1], costs.AddCost(1000, {}, 1));
  costs.Set(chain.compute[2], costs.AddCost(0));
  costs.Set(chain.copy, 500, {{.bytes = 1, .hops = {{link, 1}}}}, 1);
  GraphCosts unfused = costs.costs();
  unfused.interference.set_compute_beside_copy(2);
  unfused.flows[0].max_bytes_per_s = 1e9;  // 1000 ps: the copy ends at 1500 ps.
  const FusedGraph fused = Fuse(chain.graph);
  const GraphCosts fused_costs = FuseCosts(fused, unfused).value();
  const std::unique_ptr<Engine> fast = MakeFastEngine();
  const std::unique_ptr<Engine> simgrid = MakeSimgridEngine();
  for (Engine* engine : {fast.get(), simgrid.get()}) {
    if (engine == nullptr) continue;
    // The first does not suffer; half of the first 500 ps of the second are lost.
    EXPECT_EQ(engine->Run(chain.graph, unfused).value().makespan_ps, 2250) << engine->name();
    EXPECT_EQ(engine->Run(fused.graph, fused_costs).value().makespan_ps, 2250) << engine->name();
  }
}

TEST(FuseCostsTest, WhatCannotBeFusedIsAnError) {
  const Chain chain;
  const FusedGraph fused = Fuse(chain.graph);
  CostBuilder costs(chain.graph);
  costs.Set(chain.compute[1], 10, {{.bytes = 8, .max_bytes_per_s = 1e9}}, 1);
  EXPECT_THAT(FuseCosts(fused, costs.costs()).error().message,
              HasSubstr("a computation with flows or segments cannot be fused"));
  GraphCosts of_another = costs.costs();
  of_another.cost_of_task.pop_back();
  EXPECT_THAT(FuseCosts(fused, of_another).error().message, HasSubstr("costs of 3 tasks"));
}

TEST(FuseCostsTest, EnginesRefuseSegmentsThatAreNotTheTask) {
  const Chain chain;
  CostBuilder costs(chain.graph);
  costs.Set(chain.compute[0], costs.AddCost(1000));
  const FusedGraph fused = Fuse(chain.graph);
  const GraphCosts good = FuseCosts(fused, costs.costs()).value();
  const auto error = [&](const GraphCosts& bad) {
    const Result<Replay> replay = MakeFastEngine()->Run(fused.graph, bad);
    return replay.ok() ? std::string("none") : replay.error().message;
  };
  EXPECT_EQ(error(good), "none");
  GraphCosts bad = good;
  bad.costs.back().fixed_ps += 1;
  EXPECT_THAT(error(bad), HasSubstr("where its segments take 1000 ps"));
  bad = good;
  bad.segments[0] = 99;
  EXPECT_THAT(error(bad), HasSubstr("segment 0 is no cost of a single computation"));
  bad = good;
  bad.costs.back().segment_count = 99;
  EXPECT_THAT(error(bad), HasSubstr("segments 0 + 99 of 3"));
}

}  // namespace
}  // namespace twinstep
