#include "exec/profile/profile_options.h"

#include <string_view>
#include <utility>

#include "sim/options/input_options.h"
#include "sim/options/local_plan.h"
#include "sim/options/plan_options.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

OptionGroup InputOptions() {
  OptionGroup group = {
      "What to measure: the operators, copies and collectives of this training",
      {ModelOption(),
       Reads({"data", "FILE",
              "the text whose bytes are tokens (default: tokens drawn by Zipf's law): how "
              "often they repeat decides what the embedding's gradient costs"}),
       {"set", "FIELD=VALUE",
        "change a field of the model, by its path as in the file: --set layers=2. "
        "May be repeated",
        /*repeats=*/true}}};
  AppendOptions(BatchOptions(), &group.options);
  return group;
}

// One profile serves several plans.
OptionGroup SeveralPlansOptions() {
  OptionGroup group = LocalPlanOptions();
  for (OptionSpec& option : group.options) {
    if (std::string_view(option.name) != "plan") continue;
    option.help =
        "a text file of the schema sim/plan/plan.proto. May be repeated: one profile for all "
        "plans";
    option.repeats = true;
  }
  return group;
}

const std::vector<OptionGroup>& Groups() {
  static const std::vector<OptionGroup> kGroups = {
      InputOptions(),
      RecipeOptions(),
      SeveralPlansOptions(),
      {"Measurement",
       {{"backend", "NAME", "cpu (default), or cuda: this machine's GPU"},
        {"threads", "N",
         "threads that the training will have (default: one a core it may use). Everything is "
         "measured alone, and while so many threads compute; of cuda those of host tasks"},
        {"deterministic", nullptr,
         "of cuda: the kernels of `train --deterministic`, which take other times"},
        {"seconds", "X",
         "time to measure, shared by the plans (default: 20). Of cuda starting and warming up "
         "come on top: about a minute more for a model's plans on one GPU, two on several; the "
         "table at the end says by phase where the time went"}}},
      {"Output",
       {Writes({"output", "FILE", "the profile, a text file of the schema hw_specs/profile.proto"}),
        {"append", "FILE",
         "an earlier profile of this machine whose other entries are kept; without --output it is "
         "replaced. One of the two is required"},
        {"help", nullptr, "this text"}}},
  };
  return kGroups;
}

constexpr std::string_view kMore = R"(
How it measures
  Each plan runs for some iterations on one thread, so that every task runs alone, but where it
  stands in an iteration: with its operands where the tasks before it have left them, in a cache or
  in DRAM. Then on all threads, as in training (several such runs side by side where the plan has
  fewer ranks), for times under load; messages and collectives are taken from these. Where that
  takes too long, as few micro-batches run as have every task's shape. Entries are medians without
  outliers (more than 1.5 inter-quartile ranges outside of the quartiles). Other work on the machine
  makes a profile worse.
  On GPUs some layers of the model train in steady state: alone, beside copies, beside collectives,
  beside the CPU's Adam, and after rests, when clocks are high. Then runs by itself what else the
  plans do: operators, copies, collectives and messages, the latter also by size. A plan of several
  ranks needs as many GPUs.

Examples
  twinstep profile --model tiny-llama --global-batch 8 --micro-batch 2 --pp 2 \
      --output cpu.textproto
  Another plan's entries into the same file:
    twinstep profile --model tiny-llama --global-batch 8 --micro-batch 2 --tp 2 --dp 2 \
        --append cpu.textproto
  What the profile predicts for the machine it was measured on:
    twinstep simulate --model tiny-llama --global-batch 8 --micro-batch 2 --gpus 2 --pp 2 \
        --profile cpu.textproto

Exit status
  0 done   1 the plan is infeasible   2 bad input   3 internal error
)";

}  // namespace

Result<Options> ParseProfileOptions(const std::vector<std::string>& arguments) {
  return ParseOptions(Groups(), "profile", arguments);
}

std::string ProfileHelp() {
  return StrCat(
      "twinstep profile: measures what a plan's tasks cost on this machine\n\n",
      "  twinstep profile --model NAME|FILE --global-batch N --output FILE [OPTION ...]\n",
      OptionsHelp(Groups()), kMore);
}

}  // namespace twinstep
