#include "sim/options/plan_options.h"

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "sim/options/chunk_options.h"
#include "sim/options/plan_presets.h"
#include "sim/options/read_option.h"
#include "sim/plan/plan_names.h"
#include "sim/plan/validate_plan.h"
#include "sim/textproto/text_file.h"

namespace twinstep {
namespace {

template <typename Enum>
Status ReadChoice(const Options& options, const char* name,
                  const std::function<void(Enum)>& store) {
  std::vector<std::pair<std::string, Enum>> words;
  for (const Choice<Enum>& choice : Choices(Enum{})) words.emplace_back(choice.name, choice.value);
  return ReadWord<Enum>(options, name, words, store);
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

// What the preset says; the file and the flags override it.
Status ReadPreset(const Options& options, Plan* plan) {
  const auto name = options.Get("preset");
  if (!name) return Unit{};
  const std::optional<Plan> preset = PresetPlan(*name);
  if (preset) {
    *plan = *preset;
    return Unit{};
  }
  return OptionError("preset", StrCat("'", *name, "' is none of ", Joined(PresetNames()),
                                      DidYouMean(*name, PresetNames())));
}

Status ApplyFlags(const Options& options, Plan* plan) {
  ForgetWhatFlagsReplace(options, plan);
  return FirstError({
      ReadInteger(options, "tp", 1, [&](auto x) { plan->set_tensor_parallel(x); }),
      ReadInteger(options, "cp", 1, [&](auto x) { plan->set_context_parallel(x); }),
      ReadInteger(options, "pp", 1, [&](auto x) { plan->set_pipeline_parallel(x); }),
      ReadInteger(options, "dp", 1, [&](auto x) { plan->set_data_parallel(x); }),
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
      ReadOnOff(options, "sequence-parallel", [&](bool x) { plan->set_sequence_parallel(x); }),
      ReadOnOff(options, "dp-overlap", [&](bool x) { plan->set_data_parallel_overlap(x); }),
      ReadWord<int>(options, "zero", {{"0", 0}, {"1", 1}, {"2", 2}, {"3", 3}},
                    [&](int x) { plan->set_zero_stage(x); }),
      ApplyChunkOptions(options, plan),
  });
}

}  // namespace

std::vector<OptionSpec> BatchOptions() {
  return {{"seq", "N", "tokens of a sequence (default: the model's max_sequence_length)"},
          {"global-batch", "N", "sequences of an iteration (required, here or in --plan)"},
          {"micro-batch", "N", "sequences of a micro-batch (default: 1)"}};
}

std::vector<OptionSpec> ActivationOptions() {
  return {{"attention", "NAME", "flash or unfused (default: flash)"},
          {"recompute", "NAME",
           "none, selective (unfused attention), balanced (norms, SiLU, "
           "products) or full (default: none)"}};
}

OptionGroup RecipeOptions() {
  return {"Recipe: how the model is trained (default: as the model's file says)",
          {{"precision", "NAME", "bf16, fp16, fp32 or fp64"},
           {"clip-norm", "X", "gradient norm to clip at; 0 = no clipping"},
           {"dropout", "X", "probability of dropping an element of the hidden state; 0 = none"},
           {"attention-dropout", "X", "the same of an attention probability"}}};
}

OptionGroup PlanOptions(const char* data_parallel_help) {
  return {
      "Plan: how an iteration is spread (flags override the file)",
      {Reads({"plan", "FILE", "a text file of the schema sim/plan/plan.proto"}),
       {"tp", "N", "tensor-parallel size t (default: 1)"},
       {"cp", "N", "context-parallel size c (default: 1)"},
       {"pp", "N", "pipeline-parallel size p (default: 1)"},
       {"dp", "N", data_parallel_help},
       {"virtual-stages", "N", "stages of a device, v (default: 1)"},
       {"layers-per-stage", "N", "layers of a stage, l; p v l are the model's layers"},
       {"schedule", "NAME",
        "gpipe, 1f1b or interleaved (default: interleaved if v > 1, else "
        "1f1b)"},
       {"rank-order", "ORDER",
        "which ranks are neighbours in a node, innermost first (default: "
        "tp-cp-dp-pp)"},
       {"sequence-parallel", "on|off",
        "split norms and residuals over the tensor-parallel ranks "
        "(default: on if t > 1)"},
       {"tp-overlap", "NAME", "none, or chunked: gathers and GEMMs in t pieces (default: none)"},
       {"dp-overlap", "on|off",
        "reduce gradients and gather parameters beside computation "
        "(default: off)"},
       {"zero", "0|1|2|3", "ZeRO stage: what the data-parallel ranks share (default: 1)"},
       {"rules", "NAME",
        "kuaishou: also the limits of the paper, such as p >= 3 for interleaved plans and plans "
        "with offload"}}};
}

Status ApplyRecipeOptions(const Options& options, Recipe* recipe) {
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

Status ReadPlanOptions(const Options& options, Plan* plan, PlanRules* rules) {
  if (const Status preset = ReadPreset(options, plan); !preset.ok()) return preset;
  if (const auto path = options.Get("plan")) {
    const Result<ParsedText<Plan>> file = ParseTextFileWithSource<Plan>(*path);
    if (!file.ok()) return file.error();
    const Status valid = ValidatePlan(file.value().message, file.value().source);
    if (!valid.ok()) return valid;
    plan->MergeFrom(file.value().message);
  }
  if (const auto order = options.Get("rank-order")) plan->set_rank_order(*order);
  return FirstError(
      {ApplyFlags(options, plan), ReadWord<bool>(options, "rules", {{"kuaishou", true}},
                                                 [rules](bool x) { rules->kuaishou = x; })});
}

}  // namespace twinstep
