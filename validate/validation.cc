#include "validate/validation.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "exec/profile/machine.h"
#include "exec/runtime/execution_trace.h"
#include "exec/train/training.h"
#include "sim/cost/graph_costs.h"
#include "sim/engine/engine.h"
#include "sim/graph/memory_timeline.h"
#include "sim/str_cat.h"
#include "traces/memory_curves.h"
#include "traces/trace_builder.h"
#include "validate/busy_machine.h"

namespace twinstep {
namespace {

constexpr std::size_t kMemoryPoints = 500;
constexpr double kWarmUpSeconds = 2;
// Pinned memory is mapped into the GPU's address space: eight bytes of page table a page of four
// kilobytes.
constexpr std::int64_t kPinnedBytesPerTableByte = 512;

struct Simulated {
  Trace trace;
  std::vector<Evidence> evidence;  // By task.
};

std::vector<Evidence> EvidenceOf(const GraphCosts& costs) {
  std::vector<Evidence> evidence;
  evidence.reserve(costs.cost_of_task.size());
  for (const std::uint32_t index : costs.cost_of_task) {
    const TaskCost& cost = costs.costs[index];
    evidence.push_back(cost.modelled       ? Evidence::kModelled
                       : cost.extrapolated ? Evidence::kExtrapolated
                                           : Evidence::kMeasured);
  }
  return evidence;
}

Result<Simulated> SimulateGraph(const ValidateInput& input, const TaskGraph& graph,
                                std::vector<std::string>* warnings) {
  const Profile* profile = input.profile ? &*input.profile : nullptr;
  const Result<GraphCosts> costs = ComputeCosts(graph, input.train.model, input.cluster, profile);
  if (!costs.ok()) return costs.error();
  warnings->insert(warnings->end(), costs.value().warnings.begin(), costs.value().warnings.end());
  const Result<Replay> replay = MakeFastEngine()->Run(graph, costs.value());
  if (!replay.ok()) return replay.error();
  const Result<MemoryTimeline> memory = MeasureMemory(
      graph, replay.value().start_ps, replay.value().end_ps, {.max_points = kMemoryPoints});
  if (!memory.ok()) return memory.error();
  return Simulated{
      BuildTrace(graph, replay.value(), input.train.model.name(), MemoryCurves(memory.value())),
      EvidenceOf(costs.value())};
}

// The training runs here, whatever machine the profile is of.
std::optional<std::string> ForeignProfile(const ValidateInput& input) {
  if (!input.profile || input.profile->machine().empty()) return std::nullopt;
  const std::string here = input.train.backend == BackendKind::kCuda
                               ? DescribeWithGpu(ReadMachine(), input.train.cluster.gpu().name())
                               : Describe(ReadMachine());
  if (input.profile->machine() == here) return std::nullopt;
  return StrCat("the profile was measured on '", input.profile->machine(), "', and this is '", here,
                "': errors are the machines' differences too");
}

// A tolerance that judges nothing must not look like one that is met.
std::optional<std::string> UnusedTolerance(const ValidateInput& input,
                                           const TraceComparison& comparison) {
  const auto judges = [](const Verdict& x) { return x.what.ends_with("exposed"); };
  if (!input.tolerances.exposed || std::ranges::any_of(comparison.verdicts, judges)) {
    return std::nullopt;
  }
  return "--tolerance-exposed judged nothing: no communication or copies are exposed for 5 % of "
         "the "
         "iteration";
}

// The driver counts what every process takes: on a machine of one's own that is this one's.
std::optional<DeviceMemory> MemoryOf(const ValidateInput& input, const ArenaPlan& arena,
                                     const Backend& backend) {
  const auto memory = backend.Memory();
  if (!memory) return std::nullopt;
  std::int64_t overhead = input.cluster.gpu().runtime_overhead_bytes();
  if (input.profile && input.profile->runtime_overhead_bytes() > 0) {
    overhead = input.profile->runtime_overhead_bytes();
  }
  std::int64_t pinned = 0;
  for (const auto& bytes : arena.arena_bytes) {
    pinned += bytes[static_cast<std::size_t>(Pool::kPinnedHost)];
  }
  return DeviceMemory{
      .predicted_bytes = memory->arena_bytes + overhead + pinned / kPinnedBytesPerTableByte,
      .driver_bytes = memory->used_bytes};
}

// Never less than is taken, and not much more.
void JudgeDeviceMemory(const ValidateInput& input, Validation* validation) {
  if (!input.tolerances.memory || !validation->device_memory) return;
  const double error = validation->device_memory->Error();
  const double tolerance = *input.tolerances.memory;
  validation->comparison.verdicts.push_back({.what = "device memory, never less",
                                             .error = error,
                                             .tolerance = tolerance,
                                             .ok = error >= 0 && error <= tolerance});
}

Status RunFiniteStep(Training* training) {
  const Result<TrainingStep> step = training->RunStep();
  if (!step.ok()) return step.error();
  if (std::isfinite(step.value().loss)) return Unit{};
  return Error{
      .code = ExitCode::kNo,
      .message = StrCat("the loss of step ", step.value().step, " is ", step.value().loss)};
}

// A GPU's clocks follow its load: they are steady after some seconds.
Status WarmUp(Training* training) {
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < std::chrono::duration<double>(kWarmUpSeconds)) {
    if (const Status done = RunFiniteStep(training); !done.ok()) return done;
  }
  return Unit{};
}

// The steps without those dropped.
Result<std::vector<Execution>> Execute(const ValidateInput& input, Training* training,
                                       Progress* progress) {
  const bool on_gpu = input.train.backend == BackendKind::kCuda;
  std::vector<Execution> steps;
  if (on_gpu) {
    if (const Status warm = WarmUp(training); !warm.ok()) return warm.error();
  }
  for (std::int64_t step = 1; step <= input.train.schedule.steps; ++step) {
    progress->Step(StrCat("step ", step));
    // Before a step on a GPU one that nobody looks at: meanwhile the device would cool down.
    if (on_gpu) {
      if (const Status unseen = RunFiniteStep(training); !unseen.ok()) return unseen.error();
    }
    if (const Status done = RunFiniteStep(training); !done.ok()) return done.error();
    if (step > input.dropped_steps) {
      steps.push_back(training->executor().LastExecution());
    }
  }
  return steps;
}

}  // namespace

double DeviceMemory::Error() const {
  return static_cast<double>(predicted_bytes) / static_cast<double>(driver_bytes) - 1;
}

std::size_t StepsOfValidation(const ValidateInput& input) {
  return 2 + static_cast<std::size_t>(input.train.schedule.steps);
}

Result<Validation> Validate(const ValidateInput& input, Progress* progress,
                            std::vector<std::string>* warnings) {
  progress->Step("lowering the plan");
  *warnings = input.train.plan.warnings;
  const Result<std::unique_ptr<Training>> started = Training::Start(input.train, warnings);
  if (!started.ok()) return started.error();
  Training& training = *started.value();
  const TaskGraph& graph = training.graph();

  if (const auto foreign = ForeignProfile(input)) warnings->push_back(*foreign);

  progress->Step("simulating");
  Result<Simulated> simulated = SimulateGraph(input, graph, warnings);
  if (!simulated.ok()) return simulated.error();
  const Result<std::vector<Execution>> executed = Execute(input, &training, progress);
  if (!executed.ok()) return executed.error();
  const std::vector<Execution>& steps = executed.value();

  Validation validation;
  const std::size_t chosen = MedianStep(steps);
  validation.chosen_step = input.dropped_steps + static_cast<std::int64_t>(chosen) + 1;
  validation.simulated = std::move(simulated.value().trace);
  validation.executed =
      BuildExecutionTrace(graph, steps[chosen], StrCat("step ", validation.chosen_step));
  Result<TraceComparison> comparison = CompareTraces(validation.simulated, validation.executed,
                                                     {.evidence = simulated.value().evidence});
  if (!comparison.ok()) {
    return Error{.code = ExitCode::kInternal, .message = comparison.error().message};
  }
  validation.comparison = std::move(comparison).value();
  validation.spread = SpreadOfSteps(graph, steps, validation.comparison);
  validation.comparison.verdicts =
      JudgeMedians(validation.spread, validation.comparison, input.tolerances);
  validation.device_memory = MemoryOf(input, training.arena(), training.backend());
  JudgeDeviceMemory(input, &validation);
  if (const auto busy = LookForOtherWork(validation.simulated, validation.executed)) {
    warnings->push_back(busy->Text());
  }
  if (const auto unused = UnusedTolerance(input, validation.comparison)) {
    warnings->push_back(*unused);
  }
  return validation;
}

}  // namespace twinstep
