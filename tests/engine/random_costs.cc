#include "tests/engine/random_costs.h"

#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "tests/engine/cost_builder.h"

namespace twinstep {
namespace {

class Generator {
 public:
  Generator(const TaskGraph& graph, const RandomCostOptions& options)
      : graph_(graph), o_(options), random_(options.seed), costs_(graph) {}

  GraphCosts Run() {
    MakeLinks();
    for (TaskId id = 0; id < graph_.TaskCount(); ++id) costs_.Set(id, Draw(graph_.tasks[id]));
    if (o_.interference) {
      costs_.interference().set_compute_beside_copy(Between(1, 1.5));
      costs_.interference().set_compute_beside_collective(Between(1, 1.5));
      costs_.interference().set_copy_beside_compute(Between(1, 1.3));
      costs_.interference().set_collective_beside_compute(Between(1, 1.3));
      costs_.interference().set_h2d_beside_host(Between(1, 1.5));
      costs_.interference().set_d2h_beside_host(Between(1, 1.5));
      costs_.interference().set_compute_beside_d2h(Between(1, 1.5));
      costs_.interference().set_compute_beside_h2d(Between(1, 1.5));
      costs_.interference().set_h2d_beside_compute(Between(1, 1.3));
      costs_.interference().set_d2h_beside_compute(Between(1, 1.3));
      costs_.interference().set_h2d_beside_host_and_d2h(Between(1, 1.5));
      costs_.interference().set_d2h_beside_host_and_h2d(Between(1, 1.5));
      DrawSlowdowns();
    }
    if (o_.clocks) {
      costs_.costs().clocks = {.boost_ps = std::llround(Between(1e6, 5e8)),
                               .boost_per_rest = Between(0.1, 4),
                               .left_ps = {}};
      for (TaskCost& cost : costs_.costs().costs) {
        cost.rested_speedup = static_cast<float>(Between(1, 1.3));
        for (float* slowdown :
             {&cost.rested_beside_h2d, &cost.rested_beside_d2h, &cost.rested_beside_both}) {
          if (Below(3) == 0) *slowdown = static_cast<float>(Between(1, 2));
        }
      }
    }
    if (o_.host_copies) DrawHostCopies();
    if (o_.turns) DrawTurns();
    if (o_.delays) {
      costs_.costs().handoff_ps = std::llround(Between(1, 5e6));
      costs_.costs().meeting_ps = std::llround(Between(1, 5e6));
    }
    return costs_.costs();
  }

 private:
  // Fewer states than four ranks' copies have.
  void DrawHostCopies() {
    HostCopyRates rates{.gpus = 3, .h2d_bytes_per_s = {}, .d2h_bytes_per_s = {}};
    for (std::vector<double>* list : {&rates.h2d_bytes_per_s, &rates.d2h_bytes_per_s}) {
      for (std::uint32_t state = 0; state < (rates.gpus + 1) * (rates.gpus + 1); ++state) {
        const double rate = Between(2e9, 60e9) * o_.link_speed;
        list->push_back(Below(3) == 0 ? HUGE_VAL : rate);
      }
    }
    costs_.SetHostCopies(static_cast<std::uint32_t>(graph_.ranks.size() + 3) / 4, rates);
    for (TaskId id = 0; id < graph_.TaskCount(); ++id) {
      const Task& task = graph_.tasks[id];
      if (!IsCopy(task.kind)) continue;
      const TaskCost& cost = costs_.costs().Of(id);
      for (std::uint32_t i = 0; i < cost.flow_count; ++i) {
        Flow& flow = costs_.costs().flows[cost.flow_begin + i];
        flow.host = task.rank / 4;
        flow.host_gpus = o_.multiplicities ? 1 + Below(2) : 1;
        flow.to_gpu = task.kind == TaskKind::kH2D;
      }
    }
  }

  void DrawTurns() {
    static constexpr std::array kTurns = {KernelTurn::kNever, KernelTurn::kBegins,
                                          KernelTurn::kWhole};
    for (TaskId id = 0; id < graph_.TaskCount(); ++id) {
      const TaskKind kind = graph_.tasks[id].kind;
      const bool is_between_ranks =
          kind == TaskKind::kCollective || kind == TaskKind::kSend || kind == TaskKind::kRecv;
      TaskCost& cost = costs_.costs().costs[costs_.costs().cost_of_task[id]];
      if (is_between_ranks) cost.turn = kTurns[Below(kTurns.size())];
      if (kind == TaskKind::kCompute && Below(2) == 0) {
        const auto fixed = static_cast<double>(cost.fixed_ps);
        cost.lets_in_ps = std::llround(Between(0, 1) * fixed);
      }
    }
  }

  // Some costs have what was measured of them, and need no factors.
  void DrawSlowdowns() {
    for (TaskCost& cost : costs_.costs().costs) {
      for (float* slowdown : {&cost.beside_h2d, &cost.beside_d2h, &cost.beside_both,
                              &cost.beside_collective, &cost.beside_compute}) {
        if (Below(3) == 0) *slowdown = static_cast<float>(Between(1, 2));
      }
    }
  }

  // Not std::uniform_real_distribution, whose results depend on the library.
  double Between(double low, double high) {
    return low + (high - low) * static_cast<double>(random_() >> 11) * 0x1p-53;
  }
  std::uint32_t Below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }

  std::uint32_t Link(LinkKind kind, double low, double high) {
    return costs_.AddLink(kind, Between(low, high) * o_.link_speed);
  }

  void MakeLinks() {
    const std::size_t ranks = graph_.ranks.size();
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      auto& own = own_.emplace_back();
      for (std::uint32_t& link : own) link = Link(LinkKind::kNvlinkOut, 20e9, 60e9);
      port_.push_back(Link(LinkKind::kNicOut, 20e9, 60e9));
    }
    for (std::size_t i = 0; i < (ranks + 1) / 2; ++i) {
      uplink_.push_back(Link(LinkKind::kUplinkH2D, 20e9, 80e9));
    }
    for (std::size_t i = 0; i < (ranks + 3) / 4; ++i) {
      dram_.push_back(Link(LinkKind::kDram, 40e9, 120e9));
    }
  }

  double Multiplicity() {
    static constexpr std::array kChoices = {1.0, 2.0, 4.0, 0.5};
    const std::uint32_t draw = Below(kChoices.size());
    return o_.multiplicities ? kChoices[draw] : 1;
  }

  CostBuilder::FlowSpec DrawFlow(const Task& task) {
    CostBuilder::FlowSpec flow;
    flow.bytes = Below(8) == 0 ? 0 : std::llround(Between(1e3, 4e6));
    const double cap = Between(5e9, 80e9) * o_.link_speed;
    if (Below(2) == 0) flow.max_bytes_per_s = cap;
    flow.hops.push_back({own_[task.rank][static_cast<std::size_t>(task.lane)], 1});
    const bool is_copy = IsCopy(task.kind);
    const std::array<RouteHop, 3> shared = {RouteHop{port_[task.rank], Multiplicity()},
                                            RouteHop{uplink_[task.rank / 2], Multiplicity()},
                                            RouteHop{dram_[task.rank / 4], Multiplicity()}};
    if (o_.sharing && is_copy) flow.hops.insert(flow.hops.end(), shared.begin() + 1, shared.end());
    if (o_.sharing && task.kind == TaskKind::kHost) flow.hops.push_back(shared[2]);
    if (o_.sharing && !is_copy) flow.hops.push_back(shared[0]);
    return flow;
  }

  std::uint32_t Draw(const Task& task) {
    const bool is_movement = task.kind != TaskKind::kCompute && task.kind != TaskKind::kHost;
    const double longest = is_movement ? 10e6 : 100e6;
    const double time = Below(6) == 0 ? 0 : Between(1, longest);
    const double speed = is_movement ? 1 : o_.device_speed;
    const auto sensitivity = static_cast<float>(Below(5)) / 4;
    std::vector<CostBuilder::FlowSpec> flows;
    // Two flows of a task would share the lane's own link.
    const std::uint32_t most = task.kind == TaskKind::kCompute ? 0 : o_.sharing ? 2 : 1;
    const std::uint32_t count = Below(most + 1);
    for (std::uint32_t i = 0; i < count; ++i) flows.push_back(DrawFlow(task));
    return costs_.AddCost(std::llround(time / speed), flows, sensitivity);
  }

  const TaskGraph& graph_;
  const RandomCostOptions o_;
  std::mt19937_64 random_;
  CostBuilder costs_;
  std::vector<std::array<std::uint32_t, kLaneCount>> own_;  // By rank and lane.
  std::vector<std::uint32_t> port_, uplink_, dram_;         // By rank, pair and four.
};

}  // namespace

GraphCosts RandomCosts(const TaskGraph& graph, const RandomCostOptions& options) {
  return Generator(graph, options).Run();
}

}  // namespace twinstep
