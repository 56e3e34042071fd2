#include "validate/validate_input.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "exec/runtime/process_place.h"
#include "sim/hardware_threads.h"
#include "sim/options/input_options.h"
#include "sim/options/read_option.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

constexpr std::int64_t kDefaultSteps = 12;
constexpr double kDefaultMeasureSeconds = 10;
constexpr const char* kAuto = "auto";

Options WithDefaultSteps(const Options& options) {
  if (options.Has("steps")) return options;
  std::vector<Option> given = options.given();
  given.push_back({"steps", std::to_string(kDefaultSteps)});
  return Options(std::move(given));
}

Status ReadTolerances(const Options& options, Tolerances* tolerances) {
  constexpr double kMost = 1000;
  return FirstError(
      {ReadReal(options, "tolerance", 0, kMost, [=](double x) { tolerances->iteration = x; }),
       ReadReal(options, "tolerance-kind", 0, kMost, [=](double x) { tolerances->kind_busy = x; }),
       ReadReal(options, "tolerance-exposed", 0, kMost, [=](double x) { tolerances->exposed = x; }),
       ReadReal(options, "tolerance-memory", 0, kMost, [=](double x) { tolerances->memory = x; })});
}

}  // namespace

Status FitToTraining(ValidateInput* input) {
  Cluster& cluster = input->cluster;
  Workers* workers = cluster.mutable_node()->mutable_workers();
  const bool is_cpu = input->train.backend == BackendKind::kCpu;
  if (is_cpu != (workers->threads() > 0)) {
    return OptionError(
        input->cluster_option,
        is_cpu
            ? StrCat(cluster.name(), " has GPUs, and the cpu backend runs on worker ",
                     "threads (node.workers)")
            : StrCat(cluster.name(), " has worker threads, and the cuda backend ", "runs on GPUs"));
  }
  cluster.set_nodes(1);
  cluster.mutable_node()->set_gpus(input->train.plan.gpus);
  if (is_cpu) workers->set_threads(input->train.threads);
  return Unit{};
}

Result<ValidateInput> ReadValidateInput(const Options& options) {
  // The times of all tasks are compared, and a process knows only of its own.
  const Status given = FirstError({CheckRequired(options, "validate", {"model", "data"}),
                                   CheckOneProcess(std::getenv, "validate")});
  if (!given.ok()) return given.error();
  ValidateInput input;
  const bool measures = options.Get("profile") == kAuto;
  if (!measures) {
    Result<MachineOptions> machine = ReadMachineOptions(options, "validate");
    if (!machine.ok()) return machine.error();
    input.cluster = std::move(machine.value().cluster);
    input.profile = std::move(machine.value().profile);
    if (!options.Has("cluster")) input.cluster_option = "profile";
  } else if (options.Has("cluster")) {
    Result<Cluster> cluster = ReadClusterOption(options);
    if (!cluster.ok()) return cluster.error();
    input.cluster = std::move(cluster).value();
  }
  Result<TrainInput> train = ReadTrainInput(WithDefaultSteps(options));
  if (!train.ok()) return train.error();
  input.train = std::move(train).value();
  input.train.record_times = true;
  if (input.train.threads <= 0) {
    input.train.threads = HardwareThreads();
  }
  input.train.quick_weights =
      input.train.backend == BackendKind::kCuda && input.train.init_from.empty();
  if (measures) {
    input.measure_s = kDefaultMeasureSeconds;
  } else if (options.Has("profile-seconds")) {
    return OptionError("profile-seconds", "needs --profile auto");
  }
  for (const Status& status :
       {input.cluster.has_node() ? FitToTraining(&input) : Status(Unit{}),
        ReadTolerances(options, &input.tolerances),
        ReadReal(options, "profile-seconds", 0.1, 1e5, [&input](double x) { input.measure_s = x; }),
        ReadInteger(options, "drop", 0, [&input](auto x) { input.dropped_steps = x; })}) {
    if (!status.ok()) return status.error();
  }
  if (input.dropped_steps >= input.train.schedule.steps) {
    return OptionError("drop", StrCat(input.dropped_steps, " of ", input.train.schedule.steps,
                                      " steps leave none to compare"));
  }
  return input;
}

}  // namespace twinstep
