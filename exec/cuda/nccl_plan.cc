#include "exec/cuda/nccl_plan.h"

#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "sim/str_cat.h"

namespace twinstep::cuda {
namespace {

// Which of the tasks that meet are this process's, each on a GPU of its own.
Result<std::vector<NcclMember>> OwnMembers(const TaskGraph& graph, std::span<const TaskId> tasks,
                                           const NcclPlanInput& input) {
  std::vector<NcclMember> own;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const RankId rank = graph.tasks[tasks[i]].rank;
    if (rank < input.own.first || rank >= input.own.end) continue;
    const int device = input.device_of_rank[rank];
    for (const NcclMember& other : own) {
      if (other.device != device) continue;
      return Error{.code = ExitCode::kNo,
                   .message = StrCat("rank ", rank, " shares GPU ", device,
                                     " with another of its group: NCCL needs a GPU a rank"),
                   .rule = "cuda-devices",
                   .rank = rank};
    }
    own.push_back({.index = static_cast<int>(i), .device = device});
  }
  return own;
}

}  // namespace

bool IsMessage(OpCode op) {
  return op != OpCode::kAllReduce && op != OpCode::kReduceScatter && op != OpCode::kAllGather;
}

Result<std::vector<NcclPlan>> PlanNcclGroups(const Program& program, const NcclPlanInput& input) {
  const TaskGraph& graph = *program.graph;
  const std::size_t share = input.own.end - input.own.first;
  std::vector<NcclPlan> plans;
  std::map<std::pair<GroupId, Lane>, std::size_t> index;
  for (RendezvousId id = 0; id < graph.rendezvous.size(); ++id) {
    const std::span<const TaskId> tasks = program.Members(id);
    std::set<std::size_t> owners;
    for (const TaskId task : tasks) owners.insert(graph.tasks[task].rank / share);
    if (owners.size() == 1 && input.peer_memory) continue;
    const Task& first = graph.tasks[tasks[0]];
    const OpShape& shape = graph.shapes[first.shape];
    const bool sums = shape.op == OpCode::kAllReduce || shape.op == OpCode::kReduceScatter;
    if (input.deterministic && sums && (shape.flags & kExactSum) == 0) {
      return Error{.code = ExitCode::kNo,
                   .message =
                       "NCCL's sums are not in rank order: deterministic training needs all "
                       "ranks in one process",
                   .rule = "deterministic"};
    }
    const auto [at, is_new] =
        index.try_emplace({graph.rendezvous[id].group, first.lane}, plans.size());
    if (is_new) {
      Result<std::vector<NcclMember>> own = OwnMembers(graph, tasks, input);
      if (!own.ok()) return own.error();
      plans.push_back({.own = std::move(own).value(),
                       .size = static_cast<int>(tasks.size()),
                       .rendezvous = {}});
    }
    NcclPlan& plan = plans[at->second];
    plan.has_messages = plan.has_messages || IsMessage(shape.op);
    plan.rendezvous.push_back(id);
  }
  return plans;
}

}  // namespace twinstep::cuda
