#include "sim/simulate/simulate_input.h"

#include <algorithm>
#include <functional>

#include "hw_specs/find_cluster.h"
#include "hw_specs/validate_cluster.h"
#include "hw_specs/validate_profile.h"
#include "model_zoo/find_model.h"
#include "model_zoo/validate_model.h"
#include "sim/plan/plan_names.h"
#include "sim/str_cat.h"
#include "sim/textproto/closest_name.h"
#include "sim/textproto/quantity.h"
#include "sim/textproto/set_field.h"
#include "sim/textproto/text_file.h"

namespace twinstep {
namespace {

Error OptionError(const char* option, const std::string& what) {
  return Error{.message = StrCat("--", option, ": ", what)};
}

// Calls `store` with the value of an option, if it was given.
using Store = std::function<void(std::int64_t)>;
Status ReadInteger(const Options& options, const char* name, std::int64_t least,
                   const Store& store) {
  const auto text = options.Get(name);
  if (!text) return Unit{};
  const Result<std::int64_t> value = ParseInteger(*text);
  if (!value.ok()) return OptionError(name, value.error().message);
  if (value.value() < least) {
    return OptionError(name, StrCat(*text, " is less than ", least));
  }
  store(value.value());
  return Unit{};
}

Status ReadReal(const Options& options, const char* name, double least, double most,
                const std::function<void(double)>& store) {
  const auto text = options.Get(name);
  if (!text) return Unit{};
  const Result<double> value = ParseReal(*text);
  if (!value.ok()) return OptionError(name, value.error().message);
  if (value.value() < least || value.value() > most) {
    return OptionError(name, StrCat(*text, " is not between ", least, " and ", most));
  }
  store(value.value());
  return Unit{};
}

// One word of a list of choices.
template <typename Value>
Status ReadWord(const Options& options, const char* name,
                const std::vector<std::pair<std::string, Value>>& words,
                const std::function<void(Value)>& store) {
  const auto text = options.Get(name);
  if (!text) return Unit{};
  std::string known;
  std::vector<std::string> candidates;
  for (const auto& [word, value] : words) {
    if (*text == word) {
      store(value);
      return Unit{};
    }
    known += (known.empty() ? "" : ", ") + word;
    candidates.push_back(word);
  }
  return OptionError(name,
                     StrCat("'", *text, "' is none of ", known, DidYouMean(*text, candidates)));
}

template <typename Enum>
Status ReadChoice(const Options& options, const char* name,
                  const std::function<void(Enum)>& store) {
  std::vector<std::pair<std::string, Enum>> words;
  for (const Choice<Enum>& choice : Choices(Enum{})) words.emplace_back(choice.name, choice.value);
  return ReadWord<Enum>(options, name, words, store);
}

Status ReadSwitch(const Options& options, const char* name,
                  const std::function<void(bool)>& store) {
  return ReadWord<bool>(options, name, {{"on", true}, {"off", false}}, store);
}

Status FirstError(std::initializer_list<Status> statuses) {
  for (const Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return Unit{};
}

// A flag replaces what the file derives from another field too.
void ForgetWhatFlagsReplace(const Options& options, Plan* plan) {
  if (options.Has("layers-per-stage") && !options.Has("virtual-stages")) {
    plan->clear_virtual_stages();
  }
  if (options.Has("virtual-stages") && !options.Has("layers-per-stage")) {
    plan->clear_layers_per_stage();
  }
  if (options.Has("gpus") || options.Has("tp") || options.Has("cp") || options.Has("pp")) {
    plan->clear_data_parallel();
  }
  if (options.Has("recompute")) plan->clear_stored_tensors();
}

Status ApplyPlanFlags(const Options& options, Plan* plan) {
  ForgetWhatFlagsReplace(options, plan);
  return FirstError({
      ReadInteger(options, "tp", 1, [&](auto x) { plan->set_tensor_parallel(x); }),
      ReadInteger(options, "cp", 1, [&](auto x) { plan->set_context_parallel(x); }),
      ReadInteger(options, "pp", 1, [&](auto x) { plan->set_pipeline_parallel(x); }),
      ReadInteger(options, "virtual-stages", 1, [&](auto x) { plan->set_virtual_stages(x); }),
      ReadInteger(options, "layers-per-stage", 1, [&](auto x) { plan->set_layers_per_stage(x); }),
      ReadInteger(options, "micro-batch", 1, [&](auto x) { plan->set_micro_batch(x); }),
      ReadInteger(options, "global-batch", 1, [&](auto x) { plan->set_global_batch(x); }),
      ReadInteger(options, "seq", 1, [&](auto x) { plan->set_sequence_length(x); }),
      ReadChoice<Schedule>(options, "schedule", [&](auto x) { plan->set_schedule(x); }),
      ReadChoice<TensorParallelOverlap>(options, "tp-overlap",
                                        [&](auto x) { plan->set_tensor_parallel_overlap(x); }),
      ReadChoice<Recompute>(options, "recompute", [&](auto x) { plan->set_recompute(x); }),
      ReadChoice<AttentionKernel>(options, "attention", [&](auto x) { plan->set_attention(x); }),
      ReadSwitch(options, "sequence-parallel", [&](bool x) { plan->set_sequence_parallel(x); }),
      ReadSwitch(options, "dp-overlap", [&](bool x) { plan->set_data_parallel_overlap(x); }),
      ReadWord<int>(options, "zero", {{"0", 0}, {"1", 1}, {"2", 2}, {"3", 3}},
                    [&](int x) { plan->set_zero_stage(x); }),
  });
}

Status ApplyRecipeFlags(const Options& options, Recipe* recipe) {
  return FirstError({
      ReadWord<Precision>(options, "precision",
                          {{"bf16", BF16}, {"fp16", FP16}, {"fp32", FP32}, {"fp64", FP64}},
                          [&](Precision x) { recipe->set_precision(x); }),
      ReadReal(options, "clip-norm", 0, 1e30, [&](double x) { recipe->set_clip_norm(x); }),
      ReadReal(options, "dropout", 0, 1, [&](double x) { recipe->set_hidden_dropout(x); }),
      ReadReal(options, "attention-dropout", 0, 1,
               [&](double x) { recipe->set_attention_dropout(x); }),
  });
}

Status ApplySets(const Options& options, Model* model, Cluster* cluster) {
  for (const Option& option : options.given()) {
    if (option.name != "set") continue;
    const Result<FieldValues> field = ParseFieldValues(option.value);
    if (!field.ok()) return OptionError("set", field.error().message);
    const Status status = SetFieldOfOne({{"model", model}, {"cluster", cluster}},
                                        field.value().path, field.value().values.front());
    if (!status.ok()) return OptionError("set", status.error().message);
  }
  return Unit{};
}

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

// Without --gpus: what the plan's sizes say, if they say all, else all of the cluster.
std::int64_t GpusOf(const Plan& plan, const Cluster& cluster) {
  const std::int64_t cluster_gpus = cluster.nodes() * cluster.node().gpus();
  if (plan.data_parallel() <= 0) return cluster_gpus;
  std::int64_t gpus = plan.data_parallel();
  for (const std::int64_t size :
       {plan.tensor_parallel(), plan.context_parallel(), plan.pipeline_parallel()}) {
    if (size > cluster_gpus || gpus > cluster_gpus) break;  // Too many already.
    gpus *= std::max<std::int64_t>(size, 1);
  }
  return gpus;
}

}  // namespace

Result<SimulateInput> ReadInput(const Options& options) {
  for (const char* required : {"model", "cluster"}) {
    if (!options.Has(required)) {
      return Error{.message = StrCat("--", required, " is missing (twinstep simulate --help)")};
    }
  }
  SimulateInput input;
  Result<ParsedText<Model>> model = ReadModel(*options.Get("model"));
  if (!model.ok()) return model.error();
  Result<ParsedText<Cluster>> cluster = ReadCluster(*options.Get("cluster"));
  if (!cluster.ok()) return cluster.error();
  // What was read must be right as it is written, with line and field in the message.
  const Status model_is_valid = ValidateModel(model.value().message, model.value().source);
  const Status cluster_is_valid = ValidateCluster(cluster.value().message, cluster.value().source);
  if (!model_is_valid.ok()) return model_is_valid.error();
  if (!cluster_is_valid.ok()) return cluster_is_valid.error();
  input.model = std::move(model).value().message;
  input.cluster = std::move(cluster).value().message;

  if (const auto path = options.Get("profile")) {
    Result<ParsedText<Profile>> profile = ParseTextFileWithSource<Profile>(*path);
    if (!profile.ok()) return profile.error();
    const Status valid = ValidateProfile(profile.value().message, profile.value().source);
    if (!valid.ok()) return valid.error();
    input.profile = std::move(profile).value().message;
  }
  if (const auto path = options.Get("plan")) {
    Result<Plan> plan = ParseTextFile<Plan>(*path);
    if (!plan.ok()) return plan.error();
    input.plan = std::move(plan).value();
  }

  if (const auto order = options.Get("rank-order")) input.plan.set_rank_order(*order);
  // What a person may change is validated once it is changed.
  for (const Status& status :
       {ApplySets(options, &input.model, &input.cluster),
        ApplyRecipeFlags(options, input.model.mutable_recipe()), ValidateModel(input.model),
        ValidateCluster(input.cluster), ApplyPlanFlags(options, &input.plan),
        ReadLimits(options, &input), ReadOffload(options, &input),
        ReadWord<bool>(options, "rules", {{"kuaishou", true}},
                       [&input](bool x) { input.rules.kuaishou = x; }),
        ReadWord<EngineKind>(options, "engine",
                             {{"fast", EngineKind::kFast}, {"simgrid", EngineKind::kSimgrid}},
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
