#include "exec/runtime/program.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "sim/str_cat.h"

namespace twinstep {
namespace {

Error Internal(std::string message) {
  return {.code = ExitCode::kInternal, .message = std::move(message)};
}

TaskPlace PlaceOf(const TaskGraph& graph, const Task& task, const ResolvedPlan& plan) {
  const RankInfo& rank = graph.ranks[task.rank];
  TaskPlace place{.tp = rank.tp,
                  .tensor_parallel = plan.t,
                  .cp = rank.cp,
                  .context_parallel = plan.c,
                  .micro_batch_size = plan.b,
                  .sequence_length = plan.sequence_length,
                  .sequence_parallel = plan.sequence_parallel,
                  .block = task.block == kNoTag ? 0 : task.block};
  if (task.micro_batch != kNoTag) {
    place.first_sample = (rank.dp * plan.m + task.micro_batch) * plan.b;
  }
  return place;
}

// Same-lane edges need no event: a lane is a FIFO.
void AddEvents(Program* program) {
  const TaskGraph& graph = *program->graph;
  program->event.assign(graph.tasks.size(), kNone);
  program->wait_begin.assign(graph.tasks.size() + 1, 0);
  const auto for_each_wait = [&graph](auto visit) {
    for (TaskId id = 0; id < graph.TaskCount(); ++id) {
      for (const TaskId next : graph.Successors(id)) {
        if (graph.tasks[next].lane != graph.tasks[id].lane) visit(id, next);
      }
    }
  };
  for_each_wait([program](TaskId id, TaskId next) {
    if (program->event[id] == kNone) program->event[id] = program->event_count++;
    ++program->wait_begin[next + 1];
  });
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    program->wait_begin[i + 1] += program->wait_begin[i];
  }
  program->waits.resize(program->wait_begin.back());
  std::vector<std::uint32_t> next_slot(program->wait_begin.begin(), program->wait_begin.end() - 1);
  for_each_wait([program, &next_slot](TaskId id, TaskId next) {
    program->waits[next_slot[next]++] = program->event[id];
  });
}

std::optional<Error> AddMembers(Program* program) {
  const TaskGraph& graph = *program->graph;
  program->member_begin.assign(graph.rendezvous.size() + 1, 0);
  for (const Task& task : graph.tasks) {
    if (task.rendezvous != kNone) ++program->member_begin[task.rendezvous + 1];
  }
  for (std::size_t i = 0; i < graph.rendezvous.size(); ++i) {
    program->member_begin[i + 1] += program->member_begin[i];
  }
  program->members.assign(program->member_begin.back(), kNone);
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    const Task& task = graph.tasks[id];
    if (task.rendezvous == kNone) continue;
    const Rendezvous& rendezvous = graph.rendezvous[task.rendezvous];
    const std::vector<std::uint32_t>& group = graph.groups[rendezvous.group].members;
    const std::uint32_t begin = program->member_begin[task.rendezvous];
    const std::uint32_t count = program->member_begin[task.rendezvous + 1] - begin;
    const std::uint32_t rank = graph.ranks[task.rank].global_rank;
    const auto place = std::find(group.begin(), group.end(), rank);
    if (count != rendezvous.participants || count != group.size() || place == group.end()) {
      return Internal(StrCat("task ", id, " (", graph.TaskName(id), ") joins rendezvous ",
                             task.rendezvous, " of ", rendezvous.participants,
                             " participants with ", count, " tasks of a group of ", group.size()));
    }
    TaskId& slot = program->members[begin + static_cast<std::uint32_t>(place - group.begin())];
    if (slot != kNone) {
      return Internal(StrCat("tasks ", slot, " and ", id, " of rank ", rank,
                             " both join rendezvous ", task.rendezvous));
    }
    slot = id;
  }
  return std::nullopt;
}

}  // namespace

Result<Program> MakeProgram(const TaskGraph& graph, const ArenaPlan& arena,
                            const ResolvedPlan& plan) {
  if (graph.IsFolded()) return Internal("a folded graph cannot be executed");
  Program program;
  program.graph = &graph;
  program.arena = &arena;
  program.places.reserve(graph.tasks.size());
  std::int64_t position_rows = 0;
  for (const TensorInfo& tensor : graph.tensors) {
    if (tensor.kind == TensorKind::kPositionEmbedding) position_rows = tensor.rows;
  }
  for (const Task& task : graph.tasks) {
    program.places.push_back(PlaceOf(graph, task, plan));
    program.places.back().position_rows = position_rows;
  }
  // Where no buffer holds gradients they take the place of parameters.
  for (const Buffer& buffer : graph.buffers) {
    if (buffer.role == Role::kParameter) program.gradient_dtype = buffer.dtype;
  }
  for (const Buffer& buffer : graph.buffers) {
    if (buffer.role == Role::kGradient) program.gradient_dtype = buffer.dtype;
    if (buffer.role == Role::kOptimizerState) program.state_dtype = buffer.dtype;
  }
  AddEvents(&program);
  if (std::optional<Error> error = AddMembers(&program)) return *std::move(error);
  return program;
}

}  // namespace twinstep
