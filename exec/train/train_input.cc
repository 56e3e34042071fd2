#include "exec/train/train_input.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "exec/cuda/gpu_cluster.h"
#include "exec/runtime/text_data.h"
#include "model_zoo/validate_model.h"
#include "sim/options/input_options.h"
#include "sim/options/local_plan.h"
#include "sim/options/plan_options.h"
#include "sim/options/read_option.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

constexpr std::int64_t kMaxThreads = 1024;

Result<Model> ReadTrainModel(const Options& options) {
  Result<Model> read = ReadModelOption(options);
  if (!read.ok()) return read.error();
  Model model = std::move(read).value();
  const Status set = ApplySetOptions(options, {{"model", &model}});
  if (!set.ok()) return set.error();
  const Status recipe = ApplyRecipeOptions(options, model.mutable_recipe());
  if (!recipe.ok()) return recipe.error();
  const Status valid = ValidateModel(model);
  if (!valid.ok()) return valid.error();
  const Status bytes = CheckByteVocabulary(model.vocab_size());
  if (!bytes.ok()) return bytes.error();
  return model;
}

Status ReadSchedule(const Options& options, LearningRateSchedule* schedule) {
  const Status read =
      FirstError({ReadInteger(options, "steps", 1, [&](auto x) { schedule->steps = x; }),
                  ReadReal(options, "lr", 0, 1e3, [&](double x) { schedule->peak = x; })});
  if (!read.ok()) return read;
  schedule->minimum = schedule->peak / 10;
  schedule->warmup_steps = schedule->steps / 20;
  const Status rest =
      FirstError({ReadReal(options, "min-lr", 0, 1e3, [&](double x) { schedule->minimum = x; }),
                  ReadInteger(options, "warmup", 0, [&](auto x) { schedule->warmup_steps = x; })});
  if (!rest.ok()) return rest;
  if (schedule->minimum > schedule->peak) {
    return OptionError("min-lr", StrCat(schedule->minimum, " is above --lr ", schedule->peak));
  }
  return Unit{};
}

Status ReadBackend(const Options& options, TrainInput* input) {
  const Status read =
      FirstError({ReadWord<BackendKind>(options, "backend",
                                        {{"cpu", BackendKind::kCpu}, {"cuda", BackendKind::kCuda}},
                                        [input](BackendKind kind) { input->backend = kind; }),
                  ReadWord<bool>(options, "tokenizer", {{"bytes", true}}, [](bool) {}),
                  ReadInteger(options, "gpu-memory-capacity", 1,
                              [input](auto x) { input->gpu_memory_capacity_bytes = x; }),
                  ReadInteger(options, "threads", 1, kMaxThreads,
                              [input](auto x) { input->threads = static_cast<int>(x); })});
  if (!read.ok()) return read;
  input->deterministic = options.Has("deterministic");
  input->record_times = options.Has("trace");
  input->poison = options.Has("poison");
  const Result<ProcessPlace> processes = ReadProcessPlace(std::getenv);
  if (!processes.ok()) return processes.error();
  input->processes = processes.value();
  if (input->backend == BackendKind::kCpu) {
    for (const char* name : {"deterministic", "gpu-memory-capacity"}) {
      if (options.Has(name)) return OptionError(name, "goes with --backend cuda");
    }
    if (input->processes.size > 1) {
      return OptionError("backend",
                         StrCat(input->processes.variable, " is ", input->processes.size,
                                ", and only cuda trains in several processes: start cpu without ",
                                "a launcher, which trains all ranks in one"));
    }
    return Unit{};
  }
  if (input->poison) return OptionError("poison", "only --backend cpu can");
  if (input->processes.size > 1 && input->record_times) {
    return OptionError(
        "trace", StrCat("needs all ranks in one process, and ", input->processes.variable, " is ",
                        input->processes.size, ": start it without a launcher"));
  }
  const Status device = DescribeGpu(input->model.recipe(), input->deterministic, &input->cluster);
  if (!device.ok()) return OptionError("backend", StrCat("cuda: ", device.error().message));
  return Unit{};
}

Status ReadCheckpoints(const Options& options, TrainInput* input) {
  input->checkpoint_folder = options.Get("save").value_or("");
  input->resume = options.Get("resume").value_or("");
  input->init_from = options.Get("init-from").value_or("");
  for (const char* name : {"save-every", "save-keep"}) {
    if (options.Has(name) && !options.Has("save")) {
      return OptionError(name, "needs --save FOLDER");
    }
  }
  if (options.Has("resume") && options.Has("init-from")) {
    return OptionError("init-from", "--resume brings the weights already");
  }
  constexpr std::int64_t kMany = 1'000'000'000;
  return FirstError(
      {ReadInteger(options, "save-every", 1, [&](auto x) { input->checkpoint_every = x; }),
       ReadInteger(options, "save-keep", 0, [&](auto x) {
         input->checkpoint_keep = static_cast<int>(std::min(x, kMany));
       })});
}

// As exact as a double is.
std::string Exact(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", number);
  return text;
}

}  // namespace

Result<TrainInput> ReadTrainInput(const Options& options) {
  const Status given = CheckRequired(options, "train", {"model", "data", "steps"});
  if (!given.ok()) return given.error();
  TrainInput input;
  Result<Model> model = ReadTrainModel(options);
  if (!model.ok()) return model.error();
  input.model = std::move(model).value();
  input.cluster.set_name("this machine");
  if (const Status backend = ReadBackend(options, &input); !backend.ok()) return backend.error();
  Result<ResolvedPlan> plan = ReadLocalPlan(options, input.model, &input.cluster);
  if (!plan.ok()) return plan.error();
  input.plan = std::move(plan).value();
  input.data = *options.Get("data");
  const Status read = FirstError(
      {ReadSchedule(options, &input.schedule), ReadCheckpoints(options, &input),
       ReadReal(options, "weight-decay", 0, 1e3, [&](double x) { input.weight_decay = x; }),
       ReadReal(options, "beta1", 0, 0.999999, [&](double x) { input.beta1 = x; }),
       ReadReal(options, "beta2", 0, 0.99999999, [&](double x) { input.beta2 = x; }),
       ReadInteger(options, "seed", 0, [&](auto x) { input.seed = static_cast<std::uint64_t>(x); }),
       ReadInteger(options, "shuffle-seed", 0,
                   [&](auto x) { input.shuffle_seed = static_cast<std::uint64_t>(x); })});
  if (!read.ok()) return read.error();
  return input;
}

std::map<std::string, std::string> SettingsOf(const TrainInput& input,
                                              const std::string& data_checksum) {
  return {{"lr", Exact(input.schedule.peak)},
          {"min-lr", Exact(input.schedule.minimum)},
          {"warmup", std::to_string(input.schedule.warmup_steps)},
          {"steps", std::to_string(input.schedule.steps)},
          {"beta1", Exact(input.beta1)},
          {"beta2", Exact(input.beta2)},
          {"weight-decay", Exact(input.weight_decay)},
          {"global-batch", std::to_string(input.plan.global_batch)},
          {"seq", std::to_string(input.plan.sequence_length)},
          {"data", StrCat("CRC-32 ", data_checksum)}};
}

}  // namespace twinstep
