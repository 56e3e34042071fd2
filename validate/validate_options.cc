#include "validate/validate_options.h"

#include <algorithm>
#include <string_view>

#include "exec/train/train_options.h"
#include "sim/options/input_options.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

// The options of a training, without those that make its times meaningless.
std::vector<OptionGroup> TimedTrainingGroups() {
  std::vector<OptionGroup> groups = TrainingGroups();
  for (OptionGroup& group : groups) {
    std::erase_if(group.options, [](const OptionSpec& option) {
      const std::string_view name = option.name;
      return name == "poison" || name == "shuffle-seed";
    });
    for (OptionSpec& option : group.options) {
      if (std::string_view(option.name) == "steps") option.help = "steps to run (default: 12)";
    }
  }
  return groups;
}

const std::vector<OptionGroup>& Groups() {
  static const std::vector<OptionGroup> kGroups = [] {
    std::vector<OptionGroup> groups = TimedTrainingGroups();
    groups.push_back(
        {"Simulation",
         {Reads(
              {"profile", "FILE|auto",
               "what this machine's tasks cost, as `twinstep profile` measured it; auto: measured "
               "first"}),
          {"profile-seconds", "X", "time that auto takes (default: 10)"},
          Reads({"cluster", "NAME|FILE",
                 "constants of the machine, for what the profile lacks (default: what the profile "
                 "was measured on)"}),
          {"drop", "N", "first steps to leave out: caches and memory warm up (default: 2)"}}});
    groups.push_back(
        {"Verdict: how far the simulation may be off, as a fraction (0.1: ten per cent)",
         {{"tolerance", "X", "of the iteration's time"},
          {"tolerance-kind", "X", "of the busy time of each kind of task, the median of all steps"},
          {"tolerance-exposed", "X",
           "of communication and copies that nothing hides, each the median of all steps, where it "
           "is 5 % of the iteration"},
          {"tolerance-memory", "X",
           "of the memory of each pool, and of what the driver says of a GPU's, which must not be "
           "more than predicted"}}});
    groups.push_back(
        {"Output",
         {Writes({"json", "FILE|-",
                  "the comparison as JSON; - : to standard output, in place of the text"}),
          MakesFolder(
              {"save-traces", "FOLDER", "simulated.pb and executed.pb, as of traces/trace.proto"}),
          {"help", nullptr, "this text"}}});
    return groups;
  }();
  return kGroups;
}

constexpr std::string_view kExamples = R"(
Examples
  How good is the simulation of this machine?
    twinstep validate --model tiny-llama --data README.md --global-batch 8 --pp 2 --profile auto
  The same from a profile that is kept, as a verdict
    twinstep profile --model tiny-llama --global-batch 8 --pp 2 --output machine.textproto
    twinstep validate --model tiny-llama --data README.md --global-batch 8 --pp 2 \
        --profile machine.textproto --tolerance 0.1

Exit status
  0 done   1 out of tolerance, or the plan is infeasible   2 bad input   3 internal error
)";

}  // namespace

Result<Options> ParseValidateOptions(const std::vector<std::string>& arguments) {
  return ParseOptions(Groups(), "validate", arguments);
}

std::string ValidateHelp() {
  return StrCat("twinstep validate: one graph, simulated and run, compared task by task\n\n",
                "  twinstep validate --model NAME|FILE --data FILE --global-batch N\n"
                "      [--profile FILE|auto | --cluster NAME|FILE] [OPTION ...]\n",
                OptionsHelp(Groups()), kExamples);
}

}  // namespace twinstep
