// Hand-made costs for tests.
//
//   CostBuilder costs(graph);                       // Every task takes no time.
//   std::uint32_t pcie = costs.AddLink(LinkKind::kPcieH2D, 50e9);
//   costs.Set(id, 1000, {{.bytes = 4096, .hops = {{pcie, 1}}}});
//   Result<Replay> replay = MakeFastEngine()->Run(graph, costs.costs());
#pragma once

#include <cstdint>
#include <vector>

#include "sim/cost/graph_costs.h"
#include "sim/graph/task_graph.h"

namespace twinstep {

class CostBuilder {
 public:
  struct FlowSpec {
    std::int64_t bytes = 0;
    double max_bytes_per_s = 0;  // 0 = the links decide.
    std::vector<RouteHop> hops = {};
    std::uint32_t host = kNone;  // Of a copy under SetHostCopies().
    std::uint32_t host_gpus = 1;
    bool to_gpu = false;
  };

  explicit CostBuilder(const TaskGraph& graph) {
    costs_.cost_of_task.assign(graph.tasks.size(), 0);
    costs_.costs.emplace_back();
    costs_.interference.set_compute_beside_copy(1);
    costs_.interference.set_compute_beside_collective(1);
    costs_.interference.set_copy_beside_compute(1);
    costs_.interference.set_collective_beside_compute(1);
  }

  std::uint32_t AddLink(LinkKind kind, double bytes_per_s) {
    costs_.links.push_back({.kind = kind, .bytes_per_s = bytes_per_s});
    return static_cast<std::uint32_t>(costs_.links.size()) - 1;
  }

  std::uint32_t AddCost(Picoseconds fixed_ps, const std::vector<FlowSpec>& flows = {},
                        float sensitivity = 1) {
    TaskCost cost;
    cost.fixed_ps = fixed_ps;
    cost.flow_begin = static_cast<std::uint32_t>(costs_.flows.size());
    cost.flow_count = static_cast<std::uint32_t>(flows.size());
    cost.interference_sensitivity = sensitivity;
    for (const FlowSpec& spec : flows) {
      Flow flow;
      flow.bytes = spec.bytes;
      flow.max_bytes_per_s = spec.max_bytes_per_s;
      flow.host = spec.host;
      flow.host_gpus = spec.host_gpus;
      flow.to_gpu = spec.to_gpu;
      flow.hop_begin = static_cast<std::uint32_t>(costs_.hops.size());
      flow.hop_count = static_cast<std::uint32_t>(spec.hops.size());
      costs_.flows.push_back(flow);
      costs_.hops.insert(costs_.hops.end(), spec.hops.begin(), spec.hops.end());
    }
    costs_.costs.push_back(cost);
    return static_cast<std::uint32_t>(costs_.costs.size()) - 1;
  }

  void Set(TaskId task, std::uint32_t cost) { costs_.cost_of_task[task] = cost; }
  void Set(TaskId task, Picoseconds fixed_ps, const std::vector<FlowSpec>& flows,
           float sensitivity = 1) {
    Set(task, AddCost(fixed_ps, flows, sensitivity));
  }

  void SetHostCopies(std::uint32_t hosts, const HostCopyRates& rates) {
    costs_.hosts = hosts;
    costs_.host_copies = rates;
  }

  Interference& interference() { return costs_.interference; }
  WorkerPool& workers() { return costs_.workers; }
  GraphCosts& costs() { return costs_; }

 private:
  GraphCosts costs_;
};

}  // namespace twinstep
