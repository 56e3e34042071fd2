#include "sim/engine/max_min.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

namespace twinstep {
namespace {

struct Network {
  // Capacities in rate units.
  explicit Network(const std::vector<double>& capacities) { table.link_capacity = capacities; }
  // A flow over links with weights.
  void Add(const std::vector<std::pair<std::uint32_t, double>>& hops, FixedRate cap) {
    SharedFlow flow{.work = 1,
                    .cap = cap,
                    .hop_begin = static_cast<std::uint32_t>(table.hops.size()),
                    .hop_count = static_cast<std::uint32_t>(hops.size())};
    for (const auto& [link, weight] : hops) {
      const double alone = table.link_capacity[link] / weight;
      flow.cap = std::min(flow.cap, static_cast<FixedRate>(std::nearbyint(alone)));
    }
    for (const auto& [link, weight] : hops) {
      const double demand = weight * static_cast<double>(flow.cap);
      table.hops.push_back({link, weight, static_cast<Work>(demand)});
    }
    table.flows.push_back(flow);
  }
  CostTable table;
};

constexpr FixedRate kNoCap = FixedRate{1} << 60;

std::set<std::uint32_t> Settle(MaxMin& solver) {
  const auto changed = solver.Settle();
  return {changed.begin(), changed.end()};
}

TEST(MaxMinTest, OnlyTheAffectedChange) {
  Network network({1e9, 1e9});
  network.Add({{0, 1}}, kNoCap);
  network.Add({{0, 1}}, kNoCap);
  network.Add({{1, 1}}, kNoCap);
  MaxMin solver(network.table);
  solver.Add(0, 0);
  solver.Add(2, 2);
  EXPECT_EQ(Settle(solver), (std::set<std::uint32_t>{0, 2}));
  EXPECT_EQ(solver.rate(0), 1'000'000'000u);
  solver.Add(1, 1);
  EXPECT_EQ(Settle(solver), (std::set<std::uint32_t>{0, 1}));
  EXPECT_EQ(solver.rate(0), 500'000'000u);
  EXPECT_EQ(solver.rate(1), 500'000'000u);
  EXPECT_EQ(solver.rate(2), 1'000'000'000u);
  solver.Remove(0);
  EXPECT_EQ(Settle(solver), (std::set<std::uint32_t>{1}));
  EXPECT_EQ(solver.rate(1), 1'000'000'000u);
  EXPECT_TRUE(Settle(solver).empty());
}

TEST(MaxMinTest, AChangeTravelsOverFullLinks) {
  // Flow 0 over links 0 and 1, flow 1 over 0, flow 2 over 1 and 2, flow 3 over 2.
  Network network({1e9, 2e9, 3e9});
  network.Add({{0, 1}, {1, 1}}, kNoCap);
  network.Add({{0, 1}}, kNoCap);
  network.Add({{1, 1}, {2, 1}}, kNoCap);
  network.Add({{2, 1}}, kNoCap);
  MaxMin solver(network.table);
  for (const std::uint32_t id : {0u, 2u, 3u}) solver.Add(id, id);
  Settle(solver);
  EXPECT_EQ(solver.rate(0), 1'000'000'000u);
  EXPECT_EQ(solver.rate(2), 1'000'000'000u);
  EXPECT_EQ(solver.rate(3), 2'000'000'000u);
  solver.Add(1, 1);
  EXPECT_EQ(Settle(solver), (std::set<std::uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(solver.rate(0), 500'000'000u);
  EXPECT_EQ(solver.rate(2), 1'500'000'000u);
  EXPECT_EQ(solver.rate(3), 1'500'000'000u);
}

TEST(MaxMinTest, AddedAndRemovedBeforeSettlingIsNothing) {
  Network network({1e9});
  network.Add({{0, 1}}, kNoCap);
  network.Add({{0, 2}}, kNoCap);
  MaxMin solver(network.table);
  solver.Add(0, 0);
  Settle(solver);
  solver.Add(1, 1);
  solver.Remove(1);
  EXPECT_TRUE(Settle(solver).empty());
  EXPECT_EQ(solver.rate(0), 1'000'000'000u);
}

TEST(MaxMinTest, CapsOfCopiesFollowTheirNumber) {
  Network network({12e9});
  for (int i = 0; i < 3; ++i) network.Add({{0, 1}}, 5'000'000'000u);
  network.table.hosts = 1;
  network.table.host_copies.gpus = 1;
  // Beside one that comes down, one that goes up has 2e9.
  network.table.host_caps = {.h2d = {kNoCap, kNoCap, kNoCap, 2'000'000'000u},
                             .d2h = {kNoCap, kNoCap, kNoCap, kNoCap}};
  network.table.flows[0].host = network.table.flows[1].host = 0;
  network.table.flows[0].to_gpu = true;
  MaxMin solver(network.table);
  solver.Add(0, 0);
  solver.Add(2, 2);
  Settle(solver);
  EXPECT_EQ(solver.rate(0), 5'000'000'000u);
  solver.Add(1, 1);
  EXPECT_EQ(Settle(solver), (std::set<std::uint32_t>{0, 1}));
  EXPECT_EQ(solver.rate(0), 2'000'000'000u);
  EXPECT_EQ(solver.rate(1), 5'000'000'000u);
  EXPECT_EQ(solver.rate(2), 5'000'000'000u);
  solver.Remove(1);
  EXPECT_EQ(Settle(solver), (std::set<std::uint32_t>{0}));
  EXPECT_EQ(solver.rate(0), 5'000'000'000u);
}

// The cap of a flow now.
FixedRate CapOf(const CostTable& table, std::uint32_t id, const std::set<std::uint32_t>& active) {
  const SharedFlow& flow = table.flows[id];
  if (flow.host == kNone) return flow.cap;
  std::uint32_t up = 0, down = 0;
  for (const std::uint32_t other : active) {
    const SharedFlow& at = table.flows[other];
    if (at.host == flow.host) (at.to_gpu ? up : down) += at.host_gpus;
  }
  const std::size_t state = table.host_copies.StateOf(up, down);
  return std::min(flow.cap, (flow.to_gpu ? table.host_caps.h2d : table.host_caps.d2h)[state]);
}

// Rates are max-min fair if and only if every flow is at its cap or crosses a full link where no
// other flow is faster (Bertsekas and Gallager, 6.5.2).
void CheckFair(const Network& network, const MaxMin& solver,
               const std::set<std::uint32_t>& active) {
  const CostTable& table = network.table;
  std::vector<double> load(table.link_capacity.size(), 0), fastest(load);
  const auto hops = [&](std::uint32_t id) {
    return std::span(table.hops.data() + table.flows[id].hop_begin, table.flows[id].hop_count);
  };
  for (const std::uint32_t id : active) {
    const auto rate = static_cast<double>(solver.rate(id));
    for (const SharedHop& hop : hops(id)) {
      load[hop.link] += rate * hop.weight;
      fastest[hop.link] = std::max(fastest[hop.link], rate);
    }
  }
  constexpr double kRounding = 1e-6;
  for (std::size_t link = 0; link < load.size(); ++link) {
    RC_ASSERT(load[link] <= table.link_capacity[link] * (1 + kRounding));
  }
  for (const std::uint32_t id : active) {
    const FixedRate cap = CapOf(table, id, active);
    RC_ASSERT(solver.rate(id) <= cap);
    const auto rate = static_cast<double>(solver.rate(id));
    bool is_limited = solver.rate(id) == cap;
    for (const SharedHop& hop : hops(id)) {
      is_limited =
          is_limited || (load[hop.link] >= table.link_capacity[hop.link] * (1 - kRounding) &&
                         rate >= fastest[hop.link] * (1 - kRounding));
    }
    RC_ASSERT(is_limited);
  }
}

RC_GTEST_PROP(MaxMinProperty, RatesStayFairAndChangesAreReported, ()) {
  const auto links = *rc::gen::inRange(1u, 6u);
  std::vector<double> capacities;
  for (std::uint32_t i = 0; i < links; ++i) {
    capacities.push_back(1e9 * *rc::gen::inRange(1, 10));
  }
  Network network(capacities);
  const auto flows = *rc::gen::inRange(1u, 12u);
  for (std::uint32_t i = 0; i < flows; ++i) {
    std::vector<std::pair<std::uint32_t, double>> hops;
    for (std::uint32_t link = 0; link < links; ++link) {
      if (*rc::gen::inRange(0, 2) == 0) continue;
      hops.emplace_back(link, *rc::gen::element(0.5, 1.0, 2.0, 3.0));
    }
    if (hops.empty()) hops.emplace_back(0u, 1.0);
    network.Add(hops, static_cast<FixedRate>(*rc::gen::inRange(1, 12)) * 500'000'000u);
  }
  if (*rc::gen::arbitrary<bool>()) {
    network.table.hosts = 2;
    network.table.host_copies.gpus = 2;
    for (auto* caps : {&network.table.host_caps.h2d, &network.table.host_caps.d2h}) {
      for (int i = 0; i < 9; ++i) {
        caps->push_back(static_cast<FixedRate>(*rc::gen::inRange(1, 12)) * 400'000'000u);
      }
    }
    for (SharedFlow& flow : network.table.flows) {
      flow.host = *rc::gen::element(0u, 1u, kNone);
      flow.host_gpus = *rc::gen::inRange(1u, 3u);
      flow.to_gpu = *rc::gen::arbitrary<bool>();
    }
  }
  MaxMin solver(network.table);
  std::set<std::uint32_t> active;
  std::vector<FixedRate> known(flows, 0);
  for (int step = 0; step < 20; ++step) {
    const auto changes = *rc::gen::inRange(1, 4);
    for (int i = 0; i < changes; ++i) {
      const auto id = *rc::gen::inRange(0u, flows);
      if (active.erase(id) > 0) {
        solver.Remove(id);
      } else {
        active.insert(id);
        solver.Add(id, id);
        known[id] = 0;
      }
    }
    for (const std::uint32_t id : solver.Settle()) {
      RC_ASSERT(active.count(id) == 1);
      known[id] = solver.rate(id);
    }
    for (const std::uint32_t id : active) RC_ASSERT(known[id] == solver.rate(id));
    CheckFair(network, solver, active);
  }
}

}  // namespace
}  // namespace twinstep
