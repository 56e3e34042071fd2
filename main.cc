// twinstep: one training iteration, simulated and executed. Each verb lives with its code.

#include <google/protobuf/stubs/logging.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "exec/profile/profile_command.h"
#include "exec/train/train_command.h"
#include "sim/evaluate/evaluate_command.h"
#include "sim/result.h"
#include "sim/search/pareto_command.h"
#include "sim/search/rank_command.h"
#include "sim/simulate/list_command.h"
#include "sim/simulate/simulate_command.h"
#include "sim/textproto/closest_name.h"
#include "sim/version.h"
#include "traces/compare_command.h"
#include "traces/show/show_command.h"
#include "validate/validate_command.h"

namespace twinstep {
namespace {

struct Verb {
  const char* name;
  const char* summary;
  ExitCode (*run)(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err);
};

constexpr std::array<Verb, 11> kVerbs = {{
    {"simulate", "time and memory of one training iteration", RunSimulateCommand},
    {"rank", "the best plan, and why not another", RunRankCommand},
    {"merge", "joins the parts of a search that several machines have made", RunMergeCommand},
    {"pareto", "which activations of a layer are worth keeping", RunParetoCommand},
    {"train", "trains a model by the same graph, on this machine", RunTrainCommand},
    {"profile", "measures what a plan's tasks cost on this machine", RunProfileCommand},
    {"validate", "the same graph simulated and run, compared task by task", RunValidateCommand},
    {"compare", "two traces side by side: ours, PyTorch's profiles", RunCompareCommand},
    {"show", "when each task of a trace ran, as a page or as text", RunShowCommand},
    {"evaluate", "predicted against measured, over published runs", RunEvaluateCommand},
    {"list", "models, clusters, frameworks and suites that are known by name", RunListCommand},
}};

std::string Help() {
  std::string text =
      "Twinstep: one training iteration of a large model, simulated before it runs, and run.\n\n"
      "  twinstep VERB [OPTION ...]\n"
      "  twinstep VERB --help\n"
      "  twinstep --version\n\n"
      "Verbs\n";
  for (const Verb& verb : kVerbs) {
    text += "  " + std::string(verb.name) +
            std::string(12 - std::string_view(verb.name).size(), ' ') + verb.summary + "\n";
  }
  return text +
         "\nExample\n"
         "  twinstep simulate --model llama-65b --cluster h800 --gpus 256 --seq 8192 \\\n"
         "      --global-batch 256 --tp 2 --cp 2 --pp 8 --layers-per-stage 2 --recompute "
         "balanced\n";
}

ExitCode Run(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    std::cerr << Help();
    return ExitCode::kBadInput;
  }
  const std::string& first = arguments.front();
  if (first == "--help" || first == "-h" || first == "help") {
    std::cout << Help();
    return ExitCode::kDone;
  }
  if (first == "--version") {
    std::cout << "twinstep " << kVersion << "\n";
    return ExitCode::kDone;
  }
  std::vector<std::string> names;
  for (const Verb& verb : kVerbs) {
    if (first == verb.name) {
      std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
      std::ranges::replace(rest, "-h", "--help");
      return verb.run(rest, std::cout, std::cerr);
    }
    names.push_back(verb.name);
  }
  std::cerr << "twinstep: no verb '" << first << "'" << DidYouMean(first, names)
            << "; see twinstep --help\n";
  return ExitCode::kBadInput;
}

}  // namespace
}  // namespace twinstep

int main(int argc, char** argv) {
  // `bazel run` starts programs elsewhere; paths mean what they meant where it was typed.
  if (const char* directory = std::getenv("BUILD_WORKING_DIRECTORY")) {
    if (chdir(directory) != 0) std::cerr << "twinstep: cannot go to " << directory << "\n";
  }
  // Protobuf writes lines of its own where ours say which file it is.
  google::protobuf::SetLogHandler(nullptr);
  // Expected errors are values; what is thrown is the library's (memory above all).
  twinstep::ExitCode code = twinstep::ExitCode::kInternal;
  try {
    code = twinstep::Run({argv + 1, argv + argc});
    std::cout.flush();
    if (!std::cout) {
      std::cerr << "twinstep: cannot write to standard output\n";
      code = twinstep::ExitCode::kBadInput;
    }
  } catch (const std::bad_alloc&) {
    std::cerr << "twinstep: out of memory\n";
  } catch (const std::exception& error) {
    std::cerr << "twinstep: internal error: " << error.what() << "\n";
  }
  return static_cast<int>(code);
}
