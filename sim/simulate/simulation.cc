#include "sim/simulate/simulation.h"

#include <utility>

#include "sim/cost/framework_costs.h"
#include "sim/cost/gpu_speeds.h"
#include "sim/evaluate/error_bar.h"
#include "sim/format.h"
#include "sim/lower/lower.h"
#include "sim/plan/placement.h"
#include "sim/report/summarize.h"
#include "sim/simulate/closed_form.h"
#include "sim/simulate/memory_limits.h"
#include "sim/simulate/offload_budget.h"
#include "sim/simulate/size_guard.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

Report EchoOf(const SimulateInput& input) {
  Report report;
  report.model = input.model;
  report.cluster = input.cluster;
  report.requested_plan = input.plan;
  report.requested_gpus = input.gpus;
  report.engine = input.engine == EngineKind::kSimgrid ? "simgrid" : "fast";
  if (input.profile) report.profile = input.profile->name();
  if (input.framework) report.framework = input.framework->name();
  report.offload_solved = input.solve_offload;
  report.gpu_memory_budget_bytes = input.gpu_memory_budget_bytes.value_or(0);
  report.gpu_memory_capacity_bytes = input.gpu_memory_capacity_bytes;
  report.host_memory_budget_bytes = input.host_memory_budget_bytes;
  return report;
}

std::unique_ptr<Engine> MakeEngine(EngineKind kind) {
  return kind == EngineKind::kSimgrid ? MakeSimgridEngine() : MakeFastEngine();
}

void Tell(Progress* progress, const std::string& what) {
  if (progress != nullptr) progress->Step(what);
}

// Worker threads run the tasks of every rank, and GPUs that differ take times of their own: none
// stands for others.
bool SimulatesAllRanks(const SimulateInput& input, const ResolvedPlan& plan) {
  const Profile* profile = input.profile ? &*input.profile : nullptr;
  return input.all_ranks || input.cluster.node().workers().threads() > 0 ||
         RanksDiffer(profile, input.cluster, plan.gpus);
}

// That the task graph will fit in the memory of this machine.
Status CheckMachine(const SimulateInput& input, const ResolvedPlan& plan) {
  auto ranks = static_cast<std::size_t>(plan.gpus);
  if (!SimulatesAllRanks(input, plan)) {
    const Placement placement(plan, input.cluster.node().gpus());
    ranks = SymmetryClasses(placement, plan, input.cluster).representative.size();
  }
  return CheckSize(EstimateTasks(plan, ranks), AvailableMemoryBytes());
}

Result<SimulatedIteration> RunIteration(const SimulateInput& input, const ResolvedPlan& plan,
                                        Progress* progress, std::size_t memory_points) {
  const std::unique_ptr<Engine> engine = MakeEngine(input.engine);
  if (engine == nullptr) {
    return Error{.message = "--engine simgrid: this binary was built without SimGrid"};
  }
  SimulatedIteration run;
  Tell(progress, "lowering the plan");
  if (const Status fits = CheckMachine(input, plan); !fits.ok()) return fits.error();
  const Framework* framework = input.framework ? &*input.framework : nullptr;
  Result<TaskGraph> graph =
      Lower(input.model, input.cluster, plan,
            {.fold = !SimulatesAllRanks(input, plan), .framework = framework});
  if (!graph.ok()) return graph.error();
  run.graph = std::move(graph).value();
  const std::string size = StrCat(Count(run.graph.TaskCount()), " tasks of ",
                                  Count(static_cast<std::int64_t>(run.graph.ranks.size())),
                                  run.graph.ranks.size() == 1 ? " rank" : " ranks");

  Tell(progress, "costs of " + size);
  const Profile* profile = input.profile ? &*input.profile : nullptr;
  Result<GraphCosts> costs =
      ComputeFrameworkCosts(run.graph, input.model, input.cluster, profile, framework);
  if (!costs.ok()) return costs.error();
  run.costs = std::move(costs).value();

  Tell(progress, StrCat("replaying ", size, " (", engine->name(), ")"));
  Result<Replay> replay = engine->Run(run.graph, run.costs);
  if (!replay.ok()) return replay.error();
  run.replay = std::move(replay).value();

  Tell(progress, "placing buffers in memory");
  run.arena = PlanArena(run.graph);
  Result<MemoryTimeline> memory = MeasureMemory(run.graph, run.replay.start_ps, run.replay.end_ps,
                                                {.max_points = memory_points});
  if (!memory.ok()) return memory.error();
  run.memory = std::move(memory).value();
  return run;
}

bool IsAnswerNo(const Error& error) { return error.code == ExitCode::kNo; }

void AddWarnings(const SimulateInput& input, const SimulatedIteration& run, Report* report) {
  for (const std::string& warning : run.costs.warnings) report->warnings.push_back(warning);
  if (input.solve_offload && report->plan.offload_ratio == 0) {
    report->warnings.push_back(StrCat("--offload-ratio auto is 0: the plan fits in the budget of ",
                                      Bytes(static_cast<double>(*input.gpu_memory_budget_bytes)),
                                      " without offload"));
  }
}

}  // namespace

Result<ResolvedPlan> ResolveForSimulation(const SimulateInput& input) {
  Result<ResolvedPlan> plan =
      ResolvePlan(input.model, input.cluster, input.plan, input.gpus, input.rules);
  if (!plan.ok() || !input.gpu_memory_budget_bytes) return plan;
  return ApplyMemoryBudget(input, std::move(plan).value());
}

Result<Simulation> Simulate(const SimulateInput& input, Progress* progress,
                            std::size_t memory_points) {
  Simulation simulation;
  Report& report = simulation.report;
  report = EchoOf(input);
  const Result<ResolvedPlan> plan = ResolveForSimulation(input);
  if (!plan.ok()) {
    if (!IsAnswerNo(plan.error())) return plan.error();
    report.infeasible = plan.error();
    return simulation;
  }
  report.plan = plan.value();
  report.plan_is_valid = true;
  report.warnings = plan.value().warnings;
  report.error_bars =
      ErrorBarsOf({input.model, input.cluster, plan.value(), report.framework, report.profile});

  Result<SimulatedIteration> run = RunIteration(input, plan.value(), progress, memory_points);
  if (!run.ok()) {
    if (!IsAnswerNo(run.error())) return run.error();
    report.infeasible = run.error();
    return simulation;
  }
  simulation.iteration = std::move(run).value();
  const SimulatedIteration& it = *simulation.iteration;
  Tell(progress, "summing up");
  report.results = Summarize(report, {it.graph, it.costs, it.replay, it.arena, it.memory});
  if (input.engine == EngineKind::kClosedForm) {
    Result<ClosedFormReport> form = ClosedForm(
        input.model, plan.value(),
        {input.cluster, input.profile ? &*input.profile : nullptr, it.graph, it.costs, it.replay});
    if (!form.ok()) return form.error();
    report.closed_form = std::move(form).value();
  }
  report.infeasible = CheckMemoryLimits(report);
  AddWarnings(input, it, &report);
  return simulation;
}

}  // namespace twinstep
