#include "sim/cost/fuse_costs.h"

#include <algorithm>
#include <map>
#include <vector>

#include "sim/str_cat.h"

namespace twinstep {
namespace {

TaskCost CostOfMembers(const GraphCosts& costs, const std::vector<std::uint32_t>& members) {
  TaskCost fused{.interference_sensitivity = 0, .modelled = false};
  double weighted = 0, rested_ps = 0;
  for (const std::uint32_t member : members) {
    const TaskCost& cost = costs.costs[member];
    fused.fixed_ps += cost.fixed_ps;
    fused.extrapolated = fused.extrapolated || cost.extrapolated;
    fused.modelled = fused.modelled || cost.modelled;
    weighted += static_cast<double>(cost.fixed_ps) * cost.interference_sensitivity;
    rested_ps += static_cast<double>(cost.fixed_ps) / static_cast<double>(cost.rested_speedup);
  }
  if (fused.fixed_ps > 0) {
    // Rounding could lead out of the range.
    fused.interference_sensitivity =
        static_cast<float>(std::clamp(weighted / static_cast<double>(fused.fixed_ps), 0.0, 1.0));
    fused.rested_speedup = static_cast<float>(static_cast<double>(fused.fixed_ps) / rested_ps);
  }
  return fused;
}

}  // namespace

Result<GraphCosts> FuseCosts(const FusedGraph& fused, const GraphCosts& costs) {
  if (costs.cost_of_task.size() != fused.members.size()) {
    return Error{.message = StrCat("costs of ", costs.cost_of_task.size(),
                                   " tasks do not fit a graph that was fused from ",
                                   fused.members.size())};
  }
  GraphCosts out = costs;
  out.cost_of_task.clear();
  out.cost_of_task.reserve(fused.graph.tasks.size());
  std::map<std::vector<std::uint32_t>, std::uint32_t> known;
  std::vector<std::uint32_t> members;
  for (TaskId id = 0; id < fused.graph.TaskCount(); ++id) {
    members.clear();
    for (const TaskId member : fused.MembersOf(id)) members.push_back(costs.cost_of_task[member]);
    if (members.size() == 1) {
      out.cost_of_task.push_back(members[0]);
      continue;
    }
    for (const std::uint32_t member : members) {
      if (costs.costs[member].flow_count > 0 || costs.costs[member].segment_count > 0) {
        return Error{.message = StrCat("task ", id, " (", fused.graph.TaskName(id),
                                       "): a computation with flows or segments cannot be fused")};
      }
    }
    const auto [it, is_new] =
        known.try_emplace(members, static_cast<std::uint32_t>(out.costs.size()));
    if (is_new) {
      TaskCost cost = CostOfMembers(costs, members);
      cost.segment_begin = static_cast<std::uint32_t>(out.segments.size());
      cost.segment_count = static_cast<std::uint32_t>(members.size());
      out.segments.insert(out.segments.end(), members.begin(), members.end());
      out.costs.push_back(cost);
    }
    out.cost_of_task.push_back(it->second);
  }
  return out;
}

}  // namespace twinstep
