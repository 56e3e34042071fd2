#include "exec/profile/measure_profile.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>

#include "exec/cpu/lane_scheduler.h"
#include "exec/cuda/cuda_device.h"
#include "exec/profile/build_profile.h"
#include "exec/profile/dispatch_cost.h"
#include "exec/profile/fewer_micro_batches.h"
#include "exec/profile/gpu_profile.h"
#include "exec/profile/machine.h"
#include "exec/profile/measure_plan.h"
#include "exec/profile/memory_profile.h"
#include "exec/profile/plan_run.h"
#include "exec/profile/statistics.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

std::string Today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[sizeof "2026-01-31"];
  std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
  return text;
}

// On one thread and on all, each after one that does not count.
constexpr double kIterations = 4 * kMeasuringRounds;

std::string LowerCase(std::string text) {
  for (char& letter : text) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return text;
}

// "tiny-llama fp32, tensor 2 x context 1 x pipeline 2 x data 1, 4 micro-batches of 2 x 128 tokens"
std::string RunName(const Model& model, const ResolvedPlan& plan) {
  return StrCat(model.name(), " ", LowerCase(Precision_Name(model.recipe().precision())),
                ", tensor ", plan.t, " x context ", plan.c, " x pipeline ", plan.p, " x data ",
                plan.d, ", ", plan.m, plan.m == 1 ? " micro-batch of " : " micro-batches of ",
                plan.b, " x ", plan.sequence_length, " tokens");
}

Status ProfileLastMemory(const ProfileInput& input, Profile* profile) {
  const PlanToMeasure& plan = input.plans.back();
  const Result<LoweredPlan> lowered = LowerForRun(input.model, plan.cluster, plan.plan);
  if (!lowered.ok()) return lowered.error();
  return ProfileMemory(lowered.value(), profile);
}

Result<LoweredPlan> LowerToMeasure(const Model& model, const PlanToMeasure& plan, double seconds) {
  Result<LoweredPlan> lowered = LowerForRun(model, plan.cluster, plan.plan);
  if (!lowered.ok() || EstimateSerialSeconds(lowered.value().graph) * kIterations < seconds) {
    return lowered;
  }
  return WithFewestMicroBatches(std::move(lowered).value(), plan.cluster);
}

std::uintmax_t FileBytes(const std::string& path) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  return error ? 0 : bytes;
}

std::string NameOf(const PlanToMeasure& plan) { return plan.name.empty() ? "the plan" : plan.name; }

// What is left of the time is shared by the plans that are left.
Result<PrimitiveSamples> MeasurePlans(const ProfileInput& input, Progress* progress,
                                      MeasurementNotes* notes) {
  const auto begin = std::chrono::steady_clock::now();
  PrimitiveSamples samples;
  for (std::size_t i = 0; i < input.plans.size(); ++i) {
    const PlanToMeasure& plan = input.plans[i];
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    const double left_s = std::max(0.0, input.seconds - elapsed.count());
    const double share_s = left_s / static_cast<double>(input.plans.size() - i);
    Result<LoweredPlan> lowered = LowerToMeasure(input.model, plan, share_s);
    if (!lowered.ok()) return lowered.error();
    lowered.value().data = input.data;
    const MeasureOptions options{
        .threads = input.threads,
        .seconds = share_s,
        .begin_round = [&] { progress->Step(StrCat("measuring ", NameOf(plan))); },
        .phase_times = &notes->times};
    const Status done = MeasurePlan(lowered.value(), options, &samples);
    if (!done.ok()) return done.error();
  }
  if (samples.busy_threads < input.threads && input.threads > 1) {
    notes->warnings.push_back(StrCat("memory has room for ", samples.busy_threads, " of ",
                                     input.threads,
                                     " busy threads: times under load are too short"));
  }
  return samples;
}

}  // namespace

Profile ProvenanceOf(const ProfileInput& input) {
  const Machine machine = ReadMachine();
  Profile profile;
  std::string gpu;
  if (input.on_gpu) gpu = input.plans.front().cluster.gpu().name();
  profile.set_name(StrCat(input.model.name(), " on ", input.on_gpu ? gpu : machine.cpu));
  profile.set_machine(input.on_gpu ? DescribeWithGpu(machine, gpu) : Describe(machine));
  profile.set_date(Today());
  for (const std::string& version : Versions()) profile.add_versions(version);
  if (input.on_gpu) {
    for (const std::string& version : CudaVersions()) profile.add_versions(version);
  }
  profile.add_options(input.on_gpu ? "backend cuda" : "backend cpu");
  profile.add_options(StrCat("threads ", input.threads));
  if (input.deterministic) profile.add_options(kDeterministicOption);
  if (!input.data.empty()) {
    profile.add_options(StrCat("data ", std::filesystem::path(input.data).filename().string(), ", ",
                               FileBytes(input.data), " bytes"));
  }
  for (const PlanToMeasure& plan : input.plans) {
    profile.add_runs(RunName(input.model, plan.plan));
  }
  return profile;
}

std::size_t StepsOfMeasurement(const ProfileInput& input) {
  return input.on_gpu ? kStepsOfGpuMeasurement : input.plans.size() * kMeasuringRounds + 1;
}

Result<Profile> MeasureProfile(const ProfileInput& input, Progress* progress,
                               MeasurementNotes* notes) {
  if (input.on_gpu) {
    Result<Profile> measured =
        MeasureGpuProfile(input, MakeTimedCudaBackends(), {}, progress, &notes->times);
    if (!measured.ok()) return measured;
    Profile profile = ProvenanceOf(input);
    profile.MergeFrom(measured.value());
    return profile;
  }
  const Result<PrimitiveSamples> samples = MeasurePlans(input, progress, notes);
  if (!samples.ok()) return samples.error();
  progress->Step("measuring cores and memory");
  notes->times.Begin("cores and memory");
  Profile profile = ProvenanceOf(input);
  profile.MergeFrom(BuildEntries(samples.value()));
  const Status memory = ProfileLastMemory(input, &profile);
  if (!memory.ok()) return memory.error();
  *profile.mutable_measured_on() = MachineCluster(ReadMachine(), MeasureRates(input.threads));
  Workers* workers = profile.mutable_measured_on()->mutable_node()->mutable_workers();
  workers->set_threads(input.threads);
  workers->set_dispatch_s(profile.dispatch_s());
  workers->set_wake_s(RoundMeasured(MeasureWakeSeconds()));
  workers->set_look_s(LaneScheduler::kLookSeconds);
  workers->set_handoff_s(RoundMeasured(MeasureHandoffSeconds()));
  notes->times.End();
  return profile;
}

}  // namespace twinstep
