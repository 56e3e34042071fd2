// Runs that were recorded on a GPU, simulated again from the profile of their machine: the law that
// the project proves, on machines without a GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "hw_specs/profile.pb.h"
#include "model_zoo/find_model.h"
#include "sim/cost/graph_costs.h"
#include "sim/cost/profile_overrides.h"
#include "sim/engine/engine.h"
#include "sim/lower/lower.h"
#include "sim/plan/resolved_plan.h"
#include "sim/textproto/text_file.h"
#include "traces/trace_io.h"

namespace twinstep {
namespace {

// What the recorded runs were off, rounded up; a change of the simulator that leaves it shows.
constexpr double kMostIterationError = 0.026, kMostOfSeveralGpus = 0.037;
constexpr double kMostErrorOfOrder = 0.003;

double MostError(const Cluster& cluster) {
  return cluster.node().gpus() == 1 ? kMostIterationError : kMostOfSeveralGpus;
}

std::vector<std::filesystem::path> RecordedRuns() {
  std::vector<std::filesystem::path> runs;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("traces/recorded")) {
    if (entry.path().filename() == "executed.pb.gz") runs.push_back(entry.path().parent_path());
  }
  return runs;
}

struct Recorded {
  Model model;
  Profile profile;
  TaskGraph graph;
  Trace executed;
};

// runs of <folder>/<model>/<plan>; beside them the model and its profile. Fails where that is not.
void Read(const std::filesystem::path& run, Recorded* recorded) {
  const std::string model_name = run.parent_path().string();
  const Result<Model> model = FindModel(model_name + "/model.textproto");
  ASSERT_TRUE(model.ok()) << model.error().message;
  const Result<Profile> profile = ParseTextFile<Profile>(model_name + "/profile.textproto");
  ASSERT_TRUE(profile.ok()) << profile.error().message;
  const Result<Plan> plan = ParseTextFile<Plan>((run / "plan.textproto").string());
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const Cluster& cluster = profile.value().measured_on();
  const Result<ResolvedPlan> resolved =
      ResolvePlan(model.value(), cluster, plan.value(), cluster.node().gpus());
  ASSERT_TRUE(resolved.ok()) << resolved.error().message;
  const Result<Trace> executed = ReadTrace((run / "executed.pb.gz").string());
  ASSERT_TRUE(executed.ok()) << executed.error().message;
  *recorded = {.model = model.value(),
               .profile = profile.value(),
               .graph = Lower(model.value(), cluster, resolved.value(), {.fold = false}).value(),
               .executed = executed.value()};
}

// Of the simulated iteration; 1 where it cannot be simulated.
double ErrorOf(const Recorded& recorded, const GraphCosts& costs) {
  const Result<Replay> replay = MakeFastEngine()->Run(recorded.graph, costs);
  if (!replay.ok()) {
    ADD_FAILURE() << replay.error().message;
    return 1;
  }
  return static_cast<double>(replay.value().makespan_ps) /
             static_cast<double>(recorded.executed.iteration_ps()) -
         1;
}

TEST(Recorded, SimulatedAgainRunsTakeWhatTheyTook) {
  const std::vector<std::filesystem::path> runs = RecordedRuns();
  ASSERT_FALSE(runs.empty());
  for (const std::filesystem::path& run : runs) {
    SCOPED_TRACE(run.string());
    Recorded recorded;
    Read(run, &recorded);
    if (HasFatalFailure()) return;
    const Cluster& cluster = recorded.profile.measured_on();
    const Result<GraphCosts> costs =
        ComputeCosts(recorded.graph, recorded.model, cluster, &recorded.profile);
    ASSERT_TRUE(costs.ok()) << costs.error().message;
    const double error = ErrorOf(recorded, costs.value());
    EXPECT_LE(std::abs(error), MostError(cluster));
    RecordProperty(run.filename().string(), std::to_string(error));
  }
}

// Each task's time as executed, whatever ran beside it; delays between lanes and ranks as measured.
GraphCosts ExecutedTimes(const Recorded& recorded) {
  GraphCosts costs;
  costs.handoff_ps = ToPicoseconds(recorded.profile.lane_handoff_s());
  costs.meeting_ps = ToPicoseconds(recorded.profile.meeting_s());
  costs.interference = FactorsOf(Cluster(), nullptr);
  costs.costs.resize(recorded.graph.TaskCount());
  costs.cost_of_task.resize(recorded.graph.TaskCount());
  std::iota(costs.cost_of_task.begin(), costs.cost_of_task.end(), 0);
  for (int i = 0; i < recorded.executed.task_size(); ++i) {
    costs.costs.at(recorded.executed.task(i)).fixed_ps =
        recorded.executed.end_ps(i) - recorded.executed.start_ps(i);
  }
  return costs;
}

// What tasks wait for explains when they ran: errors of simulations are those of single tasks.
TEST(Recorded, TasksThatTakeWhatTheyTookMakeIterationsThatDo) {
  for (const std::filesystem::path& run : RecordedRuns()) {
    SCOPED_TRACE(run.string());
    Recorded recorded;
    Read(run, &recorded);
    if (HasFatalFailure()) return;
    ASSERT_EQ(static_cast<std::uint32_t>(recorded.executed.task_size()),
              recorded.graph.TaskCount());
    const double error = ErrorOf(recorded, ExecutedTimes(recorded));
    EXPECT_LE(std::abs(error), kMostErrorOfOrder);
    RecordProperty(run.filename().string(), std::to_string(error));
  }
}

}  // namespace
}  // namespace twinstep
