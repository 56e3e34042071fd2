#include "sim/search/pareto_command.h"

#include <nlohmann/json.hpp>

#include "sim/format.h"
#include "sim/options/input_options.h"
#include "sim/options/options.h"
#include "sim/options/plan_options.h"
#include "sim/options/run_verb.h"
#include "sim/report/echo_text.h"
#include "sim/report/json_report.h"
#include "sim/report/svg_chart.h"
#include "sim/report/text_table.h"
#include "sim/report/write_text.h"
#include "sim/search/checkpoint_front.h"
#include "sim/simulate/simulate_input.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

using nlohmann::ordered_json;

const std::vector<OptionGroup>& Groups() {
  static const std::vector<OptionGroup> kGroups = {
      {"Which layer",
       {Reads({"model", "NAME|FILE", "a name of `twinstep list models`, or a file (required)"}),
        Reads(
            {"cluster", "NAME|FILE",
             "a name of `twinstep list clusters`, or a file (default: what --profile was measured "
             "on)"}),
        {"seq", "N", "tokens of a sequence (default: the model's max_sequence_length)"},
        {"micro-batch", "N", "sequences of a micro-batch (default: 1)"},
        {"tp", "N", "tensor-parallel size t (default: 1)"},
        {"cp", "N", "context-parallel size c (default: 1)"},
        {"sequence-parallel", "on|off", "(default: on if t > 1)"},
        {"attention", "NAME", "flash or unfused (default: flash)"},
        Reads({"profile", "FILE", "measured costs"}),
        {"set", "FIELD=VALUE", "change a field of the model or the cluster. May be repeated",
         /*repeats=*/true}}},
      RecipeOptions(),
      {"Output",
       {Writes(
            {"json", "FILE|-", "the front as JSON; - : to standard output, in place of the text"}),
        Writes({"plot", "FILE", "the front as a picture (.svg)"}),
        {"help", nullptr, "this text"}}},
  };
  return kGroups;
}

std::string Join(const std::vector<std::string>& names, const char* none) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
  return text.empty() ? none : text;
}

double Milliseconds(double seconds) { return 1e3 * seconds; }
double Mebibytes(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

std::string ToText(const SimulateInput& input, const CheckpointFront& front) {
  constexpr std::size_t kLabelWidth = 12;
  std::string text;
  text += Paragraph("model", kLabelWidth, input.model.name() + ": " + Describe(input.model));
  text += Paragraph("cluster", kLabelWidth, input.cluster.name() + ": " + Describe(input.cluster));
  text += StrCat(
      "\nSets of stored activations of a layer, one micro-batch on one rank: ", front.sets.size(),
      " of ", Count(static_cast<std::int64_t>(front.tried)), " that no other beats\n");
  TextTable table({"", "MiB", "saved %", "rebuild ms", "of fwd+bwd %", "rebuilt"});
  table.AlignLeft(5);
  const auto add = [&](const std::string& name, const CheckpointSet& set) {
    const double saved =
        1 - static_cast<double>(set.bytes) / static_cast<double>(front.sets.front().bytes);
    table.AddRow({name, Fixed(Mebibytes(set.bytes), 1), Fixed(100 * saved, 1),
                  Fixed(Milliseconds(set.recompute_s), 3),
                  Fixed(100 * set.recompute_s / front.forward_backward_s, 2),
                  Join(set.dropped, "-")});
  };
  for (std::size_t i = 0; i < front.sets.size(); ++i) {
    add(i == front.knee ? "knee" : "", front.sets[i]);
  }
  text += table.ToString();
  TextTable full({"", "MiB", "rebuild ms", "of fwd+bwd %"});
  full.AddRow({"full", Fixed(Mebibytes(front.full.bytes), 1),
               Fixed(Milliseconds(front.full.recompute_s), 3),
               Fixed(100 * front.full.recompute_s / front.forward_backward_s, 2)});
  return text +
         StrCat("\nFull recomputation reruns the whole forward and is ",
                front.FullIsOnFront() ? "on" : "off", " the front\n") +
         full.ToString();
}

ordered_json SetJson(const CheckpointSet& set) {
  return {{"stored", set.stored},
          {"rebuilt", set.dropped},
          {"bytes", set.bytes},
          {"recompute_s", set.recompute_s}};
}

ordered_json ToJson(const CheckpointFront& front) {
  ordered_json json = {{"forward_backward_s", front.forward_backward_s},
                       {"tried", front.tried},
                       {"knee", front.knee},
                       {"front", ordered_json::array()}};
  for (const CheckpointSet& set : front.sets) json["front"].push_back(SetJson(set));
  json["full"] = SetJson(front.full);
  json["full"]["on_front"] = front.FullIsOnFront();
  return json;
}

SvgChart ToChart(const SimulateInput& input, const CheckpointFront& front) {
  SvgChart chart{.title = StrCat("Stored activations of a layer, ", input.model.name()),
                 .x_label = "stored, MiB",
                 .y_label = "rebuilding, % of forward and backward",
                 .series = {}};
  const auto point = [&](const CheckpointSet& set, const std::string& label) {
    return SvgChart::Point{Mebibytes(set.bytes), 100 * set.recompute_s / front.forward_backward_s,
                           label};
  };
  SvgChart::Series all{.name = "front", .points = {}};
  for (const CheckpointSet& set : front.sets) all.points.push_back(point(set, ""));
  chart.series.push_back(std::move(all));
  SvgChart::Series knee{.name = "knee", .points = {point(front.sets[front.knee], "knee")}};
  knee.line = false;
  chart.series.push_back(std::move(knee));
  SvgChart::Series full{.name = "full recomputation", .points = {point(front.full, "full")}};
  full.line = false;
  chart.series.push_back(std::move(full));
  return chart;
}

// The layer's plan: its ranks and nothing else.
Result<ResolvedPlan> LayerPlan(SimulateInput* input) {
  Plan& plan = input->plan;
  plan.set_global_batch(std::max<std::int64_t>(plan.micro_batch(), 1));
  const std::int64_t gpus = std::max<std::int64_t>(plan.tensor_parallel(), 1) *
                            std::max<std::int64_t>(plan.context_parallel(), 1);
  return ResolvePlan(input->model, input->cluster, plan, gpus);
}

std::string Help() {
  return StrCat(
      "twinstep pareto: which activations of a layer are worth keeping\n\n"
      "  twinstep pareto --model NAME|FILE --cluster NAME|FILE [OPTION ...]\n",
      OptionsHelp(Groups()));
}

ExitCode Run(const Options& options, const VerbOutput& output) {
  const Status given = CheckRequired(options, "pareto", {"model"});
  if (!given.ok()) return output.Fail(given.error());
  Result<SimulateInput> input = ReadInput(options, "pareto");
  if (!input.ok()) return output.Fail(input.error());
  const Result<ResolvedPlan> plan = LayerPlan(&input.value());
  if (!plan.ok()) return output.Fail(plan.error());
  const Result<CheckpointFront> front = FindCheckpointFront(input.value(), plan.value());
  if (!front.ok()) return output.Fail(front.error());
  const auto json = options.Get("json");
  const std::string json_text = JsonText(ToJson(front.value()));
  if (json == "-") {
    output.out() << json_text;
  } else {
    output.out() << ToText(input.value(), front.value());
    if (json) {
      const Status status = WriteTextFile(*json, json_text);
      if (!status.ok()) return output.Fail(status.error());
    }
  }
  if (const auto plot = options.Get("plot")) {
    const Status status = WriteTextFile(*plot, ToSvg(ToChart(input.value(), front.value())));
    if (!status.ok()) return output.Fail(status.error());
  }
  return ExitCode::kDone;
}

}  // namespace

ExitCode RunParetoCommand(const std::vector<std::string>& arguments, std::ostream& out,
                          std::ostream& err) {
  const VerbOutput output("pareto", out, err);
  return RunVerb(output, ParseOptions(Groups(), "pareto", arguments), Help,
                 [&](const Options& options) { return Run(options, output); });
}

}  // namespace twinstep
