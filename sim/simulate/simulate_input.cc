#include "sim/simulate/simulate_input.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "hw_specs/validate_cluster.h"
#include "model_zoo/validate_model.h"
#include "sim/options/input_options.h"
#include "sim/options/plan_options.h"
#include "sim/options/read_option.h"

namespace twinstep {
namespace {

Status ReadOffload(const Options& options, SimulateInput* input) {
  if (options.Get("offload-ratio") == "auto") {
    input->solve_offload = true;
    input->plan.set_offload_ratio(0);
    if (!input->gpu_memory_budget_bytes) {
      return OptionError("offload-ratio", "auto needs --gpu-memory-budget");
    }
    return Unit{};
  }
  return ReadReal(options, "offload-ratio", 0, 1,
                  [input](double x) { input->plan.set_offload_ratio(x); });
}

// What the process holds beside the arena: measured, else the cluster's figure.
std::int64_t RuntimeOverheadBytes(const SimulateInput& input) {
  if (input.profile && input.profile->runtime_overhead_bytes() > 0) {
    return input.profile->runtime_overhead_bytes();
  }
  return input.cluster.gpu().runtime_overhead_bytes();
}

Status ReadLimits(const Options& options, SimulateInput* input) {
  input->gpu_memory_capacity_bytes =
      input->cluster.gpu().memory_bytes() - RuntimeOverheadBytes(*input);
  if (input->framework) input->gpu_memory_capacity_bytes -= input->framework->buffer_bytes();
  input->host_memory_budget_bytes = input->cluster.node().host().memory_bytes();
  return FirstError({
      ReadInteger(options, "gpu-memory-budget", 1,
                  [input](auto x) { input->gpu_memory_budget_bytes = x; }),
      ReadInteger(options, "gpu-memory-capacity", 1,
                  [input](auto x) { input->gpu_memory_capacity_bytes = x; }),
      ReadInteger(options, "host-memory-budget", 1,
                  [input](auto x) { input->host_memory_budget_bytes = x; }),
  });
}

// Without --gpus: what the plan's sizes say, if they say all, else all of the cluster. Where ranks
// are served by threads there are as many as anyone wants, so as many as the plan needs.
std::int64_t GpusOf(const Plan& plan, const Cluster& cluster) {
  const std::int64_t cluster_gpus = cluster.nodes() * cluster.node().gpus();
  const bool on_threads = cluster.node().workers().threads() > 0;
  if (plan.data_parallel() <= 0 && !on_threads) return cluster_gpus;
  std::int64_t gpus = std::max<std::int64_t>(plan.data_parallel(), 1);
  for (const std::int64_t size :
       {plan.tensor_parallel(), plan.context_parallel(), plan.pipeline_parallel()}) {
    if (size > cluster_gpus || gpus > cluster_gpus) break;  // Too many already.
    gpus *= std::max<std::int64_t>(size, 1);
  }
  return gpus;
}

}  // namespace

Result<SimulateInput> ReadInput(const Options& options, const std::string& verb) {
  const Status given = CheckRequired(options, verb, {"model"});
  if (!given.ok()) return given.error();
  SimulateInput input;
  Result<Model> model = ReadModelOption(options);
  if (!model.ok()) return model.error();
  input.model = std::move(model).value();
  Result<MachineOptions> machine = ReadMachineOptions(options, verb);
  if (!machine.ok()) return machine.error();
  input.cluster = std::move(machine.value().cluster);
  input.profile = std::move(machine.value().profile);
  Result<std::optional<Framework>> framework = ReadFrameworkOption(options);
  if (!framework.ok()) return framework.error();
  input.framework = std::move(framework).value();
  // What a person may change is validated once it is changed.
  for (const Status& status :
       {ApplySetOptions(options, {{"model", &input.model}, {"cluster", &input.cluster}}),
        ApplyRecipeOptions(options, input.model.mutable_recipe()), ValidateModel(input.model),
        ValidateCluster(input.cluster), ReadPlanOptions(options, &input.plan, &input.rules),
        ReadLimits(options, &input), ReadOffload(options, &input),
        ReadWord<EngineKind>(options, "engine",
                             {{"fast", EngineKind::kFast},
                              {"simgrid", EngineKind::kSimgrid},
                              {"closed-form", EngineKind::kClosedForm}},
                             [&input](EngineKind x) { input.engine = x; })}) {
    if (!status.ok()) return status.error();
  }
  input.gpus = GpusOf(input.plan, input.cluster);
  const Status gpus = ReadInteger(options, "gpus", 1, [&input](auto x) { input.gpus = x; });
  if (!gpus.ok()) return gpus.error();
  input.all_ranks = options.Has("all-ranks");
  return input;
}

}  // namespace twinstep
