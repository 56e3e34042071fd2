#include "exec/profile/profile_input.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "exec/cuda/gpu_cluster.h"
#include "exec/runtime/process_place.h"
#include "exec/runtime/text_data.h"
#include "hw_specs/read_profile.h"
#include "model_zoo/validate_model.h"
#include "sim/hardware_threads.h"
#include "sim/options/input_options.h"
#include "sim/options/local_plan.h"
#include "sim/options/plan_options.h"
#include "sim/options/read_option.h"
#include "sim/str_cat.h"
#include "sim/textproto/text_file.h"

namespace twinstep {
namespace {

constexpr double kDefaultSeconds = 20, kMostSeconds = 1e6;
constexpr std::int64_t kMaxThreads = 1024;

// The options with the i-th --plan alone.
Options WithOnePlan(const Options& options, std::size_t index) {
  std::vector<Option> given;
  std::size_t plans = 0;
  for (const Option& option : options.given()) {
    if (option.name == "plan" && plans++ != index) continue;
    given.push_back(option);
  }
  return Options(std::move(given));
}

Result<std::vector<PlanToMeasure>> ReadPlans(const Options& options, const Model& model,
                                             bool on_gpu, bool deterministic) {
  std::vector<PlanToMeasure> plans;
  for (const Option& option : options.given()) {
    if (option.name == "plan") plans.push_back({.name = option.value, .cluster = {}, .plan = {}});
  }
  if (plans.empty()) plans.emplace_back();
  for (std::size_t i = 0; i < plans.size(); ++i) {
    plans[i].cluster.set_name("this machine");
    if (on_gpu) {
      const Status device = DescribeGpu(model.recipe(), deterministic, &plans[i].cluster);
      if (!device.ok()) return OptionError("backend", StrCat("cuda: ", device.error().message));
    }
    Result<ResolvedPlan> plan = ReadLocalPlan(WithOnePlan(options, i), model, &plans[i].cluster);
    if (!plan.ok()) {
      Error error = plan.error();
      if (plans.size() > 1) error.message = StrCat(plans[i].name, ": ", error.message);
      return error;
    }
    plans[i].plan = std::move(plan).value();
  }
  return plans;
}

Result<Model> ReadModelOptions(const Options& options) {
  Result<Model> read = ReadModelOption(options);
  if (!read.ok()) return read.error();
  Model model = std::move(read).value();
  const Status status = FirstError({ApplySetOptions(options, {{"model", &model}}),
                                    ApplyRecipeOptions(options, model.mutable_recipe())});
  if (!status.ok()) return status.error();
  if (const Status valid = ValidateModel(model); !valid.ok()) return valid.error();
  return model;
}

Status ReadOutput(const Options& options, ProfileInput* input) {
  const auto append = options.Get("append");
  input->output = options.Get("output").value_or(append.value_or(""));
  if (input->output.empty()) {
    return Error{.message = "--output or --append is missing (twinstep profile --help)"};
  }
  if (!append) return Unit{};
  Result<Profile> earlier = ReadProfile(*append);
  if (!earlier.ok()) return earlier.error();
  input->earlier = std::move(earlier).value();
  input->earlier_file = *append;
  return Unit{};
}

Status ReadMeasurement(const Options& options, ProfileInput* input) {
  input->threads = HardwareThreads();
  input->seconds = kDefaultSeconds;
  if (const auto data = options.Get("data")) {
    const Status bytes = CheckByteVocabulary(input->model.vocab_size());
    if (!bytes.ok()) return bytes;
    input->data = *data;
  }
  input->deterministic = options.Has("deterministic");
  const Status read =
      FirstError({ReadWord<bool>(options, "backend", {{"cpu", false}, {"cuda", true}},
                                 [input](bool on_gpu) { input->on_gpu = on_gpu; }),
                  ReadInteger(options, "threads", 1, kMaxThreads,
                              [input](auto x) { input->threads = static_cast<int>(x); }),
                  ReadReal(options, "seconds", 0.01, kMostSeconds,
                           [input](double x) { input->seconds = x; })});
  if (!read.ok()) return read;
  if (input->deterministic && !input->on_gpu) {
    return OptionError("deterministic", "needs --backend cuda");
  }
  return Unit{};
}

}  // namespace

Result<ProfileInput> ReadProfileInput(const Options& options) {
  // Several would measure each other, and write the same file.
  const Status given = FirstError(
      {CheckRequired(options, "profile", {"model"}), CheckOneProcess(std::getenv, "profile")});
  if (!given.ok()) return given.error();
  ProfileInput input;
  Result<Model> model = ReadModelOptions(options);
  if (!model.ok()) return model.error();
  input.model = std::move(model).value();
  if (const Status read = ReadMeasurement(options, &input); !read.ok()) return read.error();
  Result<std::vector<PlanToMeasure>> plans =
      ReadPlans(options, input.model, input.on_gpu, input.deterministic);
  if (!plans.ok()) return plans.error();
  input.plans = std::move(plans).value();
  if (const Status read = ReadOutput(options, &input); !read.ok()) return read.error();
  return input;
}

}  // namespace twinstep
