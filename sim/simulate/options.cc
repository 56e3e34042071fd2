#include "sim/simulate/options.h"

#include <string_view>

#include "sim/options/chunk_options.h"
#include "sim/options/input_options.h"
#include "sim/options/plan_options.h"
#include "sim/simulate/graph_command.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

OptionGroup InputOptions() {
  OptionGroup group = {"What to simulate",
                       {ModelOption(),
                        ClusterOption(),
                        {"gpus", "N",
                         "GPUs that the plan uses (default: t c p d with --dp, or where threads "
                         "serve the ranks, else all of the cluster)"}}};
  AppendOptions(BatchOptions(), &group.options);
  AppendOptions({FrameworkOption(),
                 ProfileOption(),
                 {"set", "FIELD=VALUE",
                  "change a field of the model or the cluster, by its path as in the "
                  "file: --set node.pcie.h2d_bytes_per_s=128e9. Several values "
                  "(=64e9,128e9) make a sweep and a table. May be repeated",
                  /*repeats=*/true}},
                &group.options);
  return group;
}

OptionGroup MemoryOptions() {
  OptionGroup group = {"Memory (bytes, with a suffix such as MiB or GB)", ActivationOptions()};
  AppendOptions({{"offload-ratio", "R|auto",
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
                  "(default: its memory)"}},
                &group.options);
  return group;
}

const std::vector<OptionGroup>& Groups() {
  static const std::vector<OptionGroup> kGroups = {
      InputOptions(),
      RecipeOptions(),
      PlanOptions(
          "data-parallel size d (default: GPUs/(t c p)); says how many GPUs where --gpus does "
          "not"),
      MemoryOptions(),
      ChunkOptions(),
      GraphOptions(),
      {"Simulation",
       {{"engine", "NAME",
         "fast; simgrid: an independent reference; closed-form: fast, and the papers' formulas "
         "term by term beside it (default: fast)"},
        {"all-ranks", nullptr, "simulate every rank, not one of each class of equal ranks"}}},
      {"Output",
       {Writes({"json", "FILE|-",
                "the report as JSON, also of an infeasible plan; - : to standard output, "
                "in place of the text"}),
        Writes(
            {"trace", "FILE",
             "when each task ran: .pftrace or .json (ui.perfetto.dev, chrome://tracing), .pb "
             "(traces/trace.proto), or .et: Chakra execution traces, one a rank (FILE.0.et ...); "
             "`compare`, `show` and --graph read all of them but .pftrace"}),
        {"trace-flows", nullptr, "arrows along dependencies in a .json or .pftrace trace"},
        {"schedule-view", nullptr,
         "the pipeline as text, and where activation blocks are in each "
         "step"},
        Writes({"dot", "FILE", "the task graph for Graphviz"}),
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

  What if the collectives of a profile took half of their time?
    twinstep simulate --graph rank0.pt.trace.json.gz --scale collective=0.5

Exit status
  0 done   1 the plan is infeasible   2 bad input   3 internal error
)";

}  // namespace

Result<Options> ParseOptions(const std::vector<std::string>& arguments) {
  return ParseOptions(Groups(), "simulate", arguments);
}

std::string SimulateHelp() {
  return StrCat(
      "twinstep simulate: the time and memory of one training iteration, before it runs\n\n"
      "  twinstep simulate --model NAME|FILE --cluster NAME|FILE --global-batch N [OPTION ...]\n"
      "  twinstep simulate --graph TRACE [--scale KIND=FACTOR ...]\n",
      OptionsHelp(Groups()), kExamples);
}

}  // namespace twinstep
