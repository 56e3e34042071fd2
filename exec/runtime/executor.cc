#include "exec/runtime/executor.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "exec/runtime/stall_report.h"
#include "sim/graph/structure.h"
#include "sim/graph/verifier.h"

namespace twinstep {
namespace {

constexpr std::int64_t kPicosecondsPerNanosecond = 1000;

Error Internal(std::string message) {
  return {.code = ExitCode::kInternal, .message = std::move(message)};
}

}  // namespace

Result<std::unique_ptr<Executor>> Executor::Create(const TaskGraph& graph, const ArenaPlan& arena,
                                                   const ResolvedPlan& plan, Backend* backend,
                                                   const ExecutorOptions& options) {
  const std::optional<Violation> violation = options.verify ? Verify(graph) : CheckStructure(graph);
  if (violation.has_value()) return Internal(violation->message);
  if (arena.offset.size() != graph.buffers.size() ||
      arena.arena_bytes.size() != graph.ranks.size()) {
    return Internal("the arena plan is another graph's");
  }
  Result<Program> program = MakeProgram(graph, arena, plan);
  if (!program.ok()) return program.error();
  std::unique_ptr<Executor> executor(new Executor(std::move(program).value(), backend, options));
  Result<IssueOrder> order = IssueOrder::Make(*executor->program_);
  if (!order.ok()) return order.error();
  executor->order_ = std::move(order).value();
  const Status prepared = backend->Prepare(executor->program_);
  if (!prepared.ok()) return prepared.error();
  return executor;
}

void Executor::Issue(TaskId first) {
  const RendezvousId rendezvous = program_->graph->tasks[first].rendezvous;
  const std::span<const TaskId> tasks =
      rendezvous == kNone ? std::span<const TaskId>(&first, 1) : program_->Members(rendezvous);
  for (const TaskId id : tasks) {
    for (const EventId event : program_->Waits(id)) backend_->Wait(event, id);
  }
  if (rendezvous == kNone) {
    backend_->Launch(first);
  } else {
    backend_->Exchange(rendezvous);
  }
  for (const TaskId id : tasks) {
    if (program_->event[id] != kNone) backend_->Record(program_->event[id], id);
  }
}

Status Executor::RunIteration(const StepValues& step) {
  if (broken_.has_value()) return *broken_;
  std::optional<std::uint64_t> seed;
  if (options_.shuffle_seed.has_value()) {
    seed = *options_.shuffle_seed + static_cast<std::uint64_t>(step.step) * 0x9e3779b97f4a7c15u;
    order_->Shuffle(*seed);
  }
  backend_->BeginIteration(step, seed, options_.stall_limit_s);
  for (const TaskId first : order_->order()) Issue(first);
  switch (backend_->Synchronize()) {
    case Outcome::kDone:
      return Unit{};
    case Outcome::kStalled:
      broken_ = StallError(*program_, *backend_, options_.stall_limit_s);
      break;
    case Outcome::kFailed:
      broken_ = backend_->error();
      break;
  }
  return *broken_;
}

Execution Executor::LastExecution() const {
  const TaskGraph& graph = *program_->graph;
  Execution result;
  result.ready_ps.assign(graph.tasks.size(), 0);
  result.start_ps.resize(graph.tasks.size());
  result.end_ps.resize(graph.tasks.size());
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    const TaskTime time = backend_->Time(id);
    result.start_ps[id] = time.start_ns * kPicosecondsPerNanosecond;
    result.end_ps[id] = time.end_ns * kPicosecondsPerNanosecond;
    result.iteration_ps = std::max(result.iteration_ps, result.end_ps[id]);
  }
  for (RankId rank = 0; rank < graph.ranks.size(); ++rank) {
    std::array<std::int64_t, kLaneCount> lane_end{};
    for (TaskId id = graph.rank_begin[rank]; id < graph.rank_begin[rank + 1]; ++id) {
      std::int64_t& end = lane_end[static_cast<std::size_t>(graph.tasks[id].lane)];
      result.ready_ps[id] = std::max(result.ready_ps[id], end);
      end = result.end_ps[id];
      for (const TaskId next : graph.Successors(id)) {
        result.ready_ps[next] = std::max(result.ready_ps[next], result.end_ps[id]);
      }
    }
  }
  return result;
}

}  // namespace twinstep
