// Runs that were recorded on a GPU, simulated again from the profile of their machine: the law that
// the project proves, on machines without a GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "hw_specs/profile.pb.h"
#include "model_zoo/find_model.h"
#include "sim/cost/graph_costs.h"
#include "sim/engine/engine.h"
#include "sim/lower/lower.h"
#include "sim/plan/resolved_plan.h"
#include "sim/textproto/text_file.h"
#include "traces/trace_io.h"

namespace twinstep {
namespace {

// What the recorded runs were off, rounded up; a change of the simulator that leaves it shows.
constexpr double kMostIterationError = 0.026, kMostOfSeveralGpus = 0.038;

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

TEST(Recorded, SimulatedAgainRunsTakeWhatTheyTook) {
  const std::vector<std::filesystem::path> runs = RecordedRuns();
  ASSERT_FALSE(runs.empty());
  for (const std::filesystem::path& run : runs) {
    SCOPED_TRACE(run.string());
    // runs of <folder>/<model>/<plan>; beside them the model and its profile.
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
    const TaskGraph graph =
        Lower(model.value(), cluster, resolved.value(), {.fold = false}).value();
    const Result<GraphCosts> costs = ComputeCosts(graph, model.value(), cluster, &profile.value());
    ASSERT_TRUE(costs.ok()) << costs.error().message;
    const Result<Replay> replay = MakeFastEngine()->Run(graph, costs.value());
    ASSERT_TRUE(replay.ok()) << replay.error().message;
    const Result<Trace> executed = ReadTrace((run / "executed.pb.gz").string());
    ASSERT_TRUE(executed.ok()) << executed.error().message;
    const double error = static_cast<double>(replay.value().makespan_ps) /
                             static_cast<double>(executed.value().iteration_ps()) -
                         1;
    EXPECT_LE(std::abs(error), MostError(cluster));
    RecordProperty(run.filename().string(), std::to_string(error));
  }
}

}  // namespace
}  // namespace twinstep
