#include "sim/simulate/options.h"

#include <boost/program_options.hpp>
#include <map>
#include <sstream>

#include "sim/report/text_table.h"
#include "sim/str_cat.h"
#include "sim/textproto/closest_name.h"

namespace twinstep {
namespace {

namespace po = boost::program_options;

struct OptionSpec {
  const char* name;
  const char* argument;  // Null: a switch.
  const char* help;
};

struct OptionGroup {
  const char* title;
  std::vector<OptionSpec> options;
};

const std::vector<OptionGroup>& Groups() {
  static const std::vector<OptionGroup> kGroups = {
      {"What to simulate",
       {{"model", "NAME|FILE",
         "a name of `twinstep list models`, or a text file like those of "
         "model_zoo/ (required)"},
        {"cluster", "NAME|FILE",
         "a name of `twinstep list clusters`, or a text file like those of "
         "hw_specs/ (required)"},
        {"gpus", "N", "GPUs that the plan uses (default: all of the cluster)"},
        {"seq", "N", "tokens of a sequence (default: the model's max_sequence_length)"},
        {"global-batch", "N", "sequences of an iteration (required, here or in --plan)"},
        {"micro-batch", "N", "sequences of a micro-batch (default: 1)"},
        {"profile", "FILE", "measured costs, which take precedence over the cluster's rooflines"},
        {"set", "FIELD=VALUE",
         "change a field of the model or the cluster, by its path as in the "
         "file: --set node.pcie.h2d_bytes_per_s=128e9. Several values "
         "(=64e9,128e9) make a sweep and a table. May be repeated"}}},
      {"Recipe: how the model is trained (default: as the model's file says)",
       {{"precision", "NAME", "bf16, fp16, fp32 or fp64"},
        {"clip-norm", "X", "gradient norm to clip at; 0 = no clipping"},
        {"dropout", "X", "probability of dropping an element of the hidden state; 0 = none"},
        {"attention-dropout", "X", "the same of an attention probability"}}},
      {"Plan: how an iteration is spread (flags override the file)",
       {{"plan", "FILE", "a text file of the schema sim/plan/plan.proto"},
        {"tp", "N", "tensor-parallel size t (default: 1)"},
        {"cp", "N", "context-parallel size c (default: 1)"},
        {"pp", "N",
         "pipeline-parallel size p (default: 1); the data-parallel size is GPUs/(t c p)"},
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
        {"rules", "NAME", "kuaishou: also the limits of the paper, such as p >= 3"}}},
      {"Memory (bytes, with a suffix such as MiB or GB)",
       {{"attention", "NAME", "flash or unfused (default: flash)"},
        {"recompute", "NAME",
         "none, selective (unfused attention), balanced (norms, SiLU, "
         "products) or full (default: none)"},
        {"offload-ratio", "R|auto",
         "share of each activation block that waits in host memory, 0 "
         "to 1 (default: 0); auto: the least that meets "
         "--gpu-memory-budget"},
        {"gpu-memory-budget", "BYTES",
         "limit of weights, gradients, optimizer state and activation "
         "blocks of a GPU (equation 7)"},
        {"gpu-memory-capacity", "BYTES",
         "what all buffers of a GPU must fit in (default: its memory "
         "less the runtime's overhead)"},
        {"host-memory-budget", "BYTES",
         "what all buffers in a node's host memory must fit in "
         "(default: its memory)"}}},
      {"Simulation",
       {{"engine", "NAME", "fast, or simgrid: an independent reference (default: fast)"},
        {"all-ranks", nullptr, "simulate every rank, not one of each class of equal ranks"}}},
      {"Output",
       {{"json", "FILE|-",
         "the report as JSON, also of an infeasible plan; - : to standard output, "
         "in place of the text"},
        {"trace", "FILE",
         "when each task ran: .json (ui.perfetto.dev, chrome://tracing) or .pb "
         "(traces/trace.proto)"},
        {"trace-flows", nullptr, "arrows along dependencies in a .json trace"},
        {"schedule-view", nullptr,
         "the pipeline as text, and where activation blocks are in each "
         "step"},
        {"dot", "FILE", "the task graph for Graphviz"},
        {"help", nullptr, "this text"}}},
  };
  return kGroups;
}

constexpr std::string_view kExamples = R"(
Examples
  Llama-65B on 256 H800, as much offload as 65000 MiB a GPU need:
    twinstep simulate --model llama-65b --cluster h800 --gpus 256 --seq 8192 --global-batch 256 \
        --tp 2 --cp 2 --pp 8 --layers-per-stage 2 --offload-ratio auto --gpu-memory-budget 65000MiB
  What would faster PCIe bring?
    twinstep simulate ... --set node.pcie.d2h_bytes_per_s=25e9,50e9,100e9
  A timeline for ui.perfetto.dev:
    twinstep simulate ... --trace timeline.json --trace-flows

Exit status
  0 done   1 the plan is infeasible   2 bad input   3 internal error
)";

std::vector<std::string> AllNames() {
  std::vector<std::string> names;
  for (const OptionGroup& group : Groups()) {
    for (const OptionSpec& option : group.options) names.push_back(StrCat("--", option.name));
  }
  return names;
}

po::options_description Describe() {
  po::options_description all;
  for (const OptionGroup& group : Groups()) {
    for (const OptionSpec& option : group.options) {
      if (option.argument == nullptr) {
        all.add_options()(option.name, option.help);
      } else {
        all.add_options()(option.name, po::value<std::string>(), option.help);
      }
    }
  }
  return all;
}

}  // namespace

std::optional<std::string> Options::Get(std::string_view name) const {
  for (const Option& option : given_) {
    if (option.name == name) return option.value;
  }
  return std::nullopt;
}

Options Options::Without(std::size_t index) const {
  Options result = *this;
  result.given_.erase(result.given_.begin() + static_cast<std::ptrdiff_t>(index));
  return result;
}

Options Options::With(std::size_t index, std::string value) const {
  Options result = *this;
  result.given_[index].value = std::move(value);
  return result;
}

Result<Options> ParseOptions(const std::vector<std::string>& arguments) {
  std::vector<Option> given;
  std::map<std::string, int> times;
  try {
    const po::options_description description = Describe();
    const auto parsed =
        po::command_line_parser(arguments)
            .options(description)
            .style(po::command_line_style::unix_style & ~po::command_line_style::allow_guessing &
                   ~po::command_line_style::allow_short)
            .run();
    for (const po::option& option : parsed.options) {
      if (option.position_key >= 0 || option.string_key.empty()) {
        const std::string& text = option.original_tokens.empty() ? "" : option.original_tokens[0];
        return Error{.message = StrCat("unexpected argument '", text,
                                       "': options begin with -- (twinstep simulate --help)")};
      }
      if (++times[option.string_key] > 1 && option.string_key != "set") {
        return Error{.message = StrCat("--", option.string_key, " is given twice")};
      }
      given.push_back({option.string_key, option.value.empty() ? "" : option.value[0]});
    }
  } catch (const po::unknown_option& error) {
    const std::string name = error.get_option_name();
    return Error{.message = StrCat("unknown option ", name, DidYouMean(name, AllNames()))};
  } catch (const po::error& error) {
    return Error{.message = error.what()};
  }
  return Options(std::move(given));
}

std::string SimulateHelp() {
  constexpr std::size_t kHelpColumn = 32;
  std::string text =
      "twinstep simulate: the time and memory of one training iteration, before it runs\n\n"
      "  twinstep simulate --model NAME|FILE --cluster NAME|FILE --global-batch N [OPTION ...]\n";
  for (const OptionGroup& group : Groups()) {
    text += StrCat("\n", group.title, "\n");
    for (const OptionSpec& option : group.options) {
      const std::string label = StrCat("  --", option.name, option.argument == nullptr ? "" : " ",
                                       option.argument == nullptr ? "" : option.argument);
      text += Paragraph(label, kHelpColumn, option.help);
    }
  }
  return text + std::string(kExamples);
}

}  // namespace twinstep
