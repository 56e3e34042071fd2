#include "sim/search/rank_options.h"

#include <algorithm>
#include <iomanip>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "sim/hardware_threads.h"
#include "sim/options/input_options.h"
#include "sim/options/plan_options.h"
#include "sim/options/read_option.h"
#include "sim/parallel.h"
#include "sim/plan/plan_names.h"
#include "sim/simulate/options.h"
#include "sim/str_cat.h"
#include "sim/textproto/quantity.h"
#include "sim/textproto/set_field.h"

namespace twinstep {
namespace {

constexpr std::int64_t kDefaultKeep = 5;
constexpr double kDefaultGap = 0.001;

const std::vector<OptionGroup>& Groups() {
  static const std::vector<OptionGroup> kGroups = {
      {"What to search for. A list is 4,8 or 32..256 or 32..256:8 (in steps of 8)",
       {Reads({"model", "NAME|FILE", "a name of `twinstep list models`, or a file (required)"}),
        Reads(
            {"cluster", "NAME|FILE",
             "a name of `twinstep list clusters`, or a file (default: what --profile was measured "
             "on)"}),
        {"gpus", "LIST", "numbers of GPUs (default: all of the cluster)"},
        {"nodes", "LIST", "instead of --gpus: whole nodes"},
        {"seq", "N", "tokens of a sequence (default: the model's max_sequence_length)"},
        {"global-batch", "LIST",
         "sequences of an iteration (required, here or in --plan, but for --maximize); of several, "
         "that with most tokens/s"},
        {"maximize", "WHAT",
         "first find the most that fits, then the best plan for it. layers: of a model of this "
         "shape, with --global-batch or a sequence a GPU; batch: of --space chunks, sequences of "
         "one micro-batch"},
        ProfileOption(),
        FrameworkOption(),
        {"set", "FIELD=VALUE", "change a field of the model or the cluster. May be repeated",
         /*repeats=*/true}}},
      RecipeOptions(),
      {"Plans to try (default: every value)",
       {{"space", "NAME",
         "pipeline: every (t, c, p, v, recompute); chunks: ProTrain's model states in chunks, with "
         "data parallelism alone and one micro-batch; all: both (default: pipeline)"},
        {"rules", "NAME",
         "kuaishou: the limits of the paper: p >= 3 for interleaved plans and plans with offload, "
         "no tensor parallelism across nodes, no context parallelism across nodes without grouped "
         "queries, recompute none, balanced or full"},
        {"tp", "LIST", "tensor-parallel sizes"},
        {"cp", "LIST", "context-parallel sizes"},
        {"pp", "LIST", "pipeline-parallel sizes"},
        {"virtual-stages", "LIST", "stages of a device"},
        {"persist", "LIST", "chunks that stay on the GPU; the others get as many buffers as fit"},
        {"swap", "LIST",
         "swapped blocks (default: 0, 1, 2, 4, ... up to as many as the forward can hide)"},
        {"checkpoint", "LIST",
         "checkpointed blocks (default, as of --persist: every count up to 128, else 64 of them)"},
        {"recompute", "WORDS",
         "none, selective, balanced, full, with commas between (default: all but selective, which "
         "is for unfused attention)"}}},
      {"Choices that are fixed unless several are given, with commas between",
       {Reads({"plan", "FILE", "a plan whose fields are kept, sizes too (sim/plan/plan.proto)"}),
        {"micro-batch", "LIST",
         "sequences of a micro-batch (default: 1; of --space chunks: all of a GPU)"},
        {"zero", "LIST", "ZeRO stages (default: 1)"},
        {"tp-overlap", "WORDS", "none, chunked (default: none)"},
        {"dp-overlap", "WORDS", "off, on (default: off)"},
        {"rank-order", "WORDS", "which ranks are neighbours (default: tp-cp-dp-pp)"},
        {"schedule", "NAME",
         "gpipe, 1f1b or interleaved (default: interleaved if v > 1, else 1f1b)"},
        {"layers-per-stage", "N", "layers of a stage"},
        {"sequence-parallel", "on|off", "(default: on if t > 1)"},
        {"attention", "NAME", "flash or unfused (default: flash)"}}},
      {"Memory (bytes, with a suffix such as MiB or GB)",
       {{"offload-ratio", "R|auto",
         "share of each activation block that waits in host memory (default: auto, the least that "
         "fits)"},
        {"gpu-memory-budget", "BYTES",
         "limit of weights, gradients, optimizer state and activation blocks of a GPU (equation "
         "7; default: the capacity less what else the plan needs)"},
        {"gpu-memory-capacity", "BYTES",
         "what all buffers of a GPU must fit in (default: its memory less the runtime's "
         "overhead)"},
        {"host-memory-budget", "BYTES",
         "what all buffers in a node's host memory must fit in (default: its memory)"}}},
      {"Search",
       {{"gap", "X",
         "how far from the optimum the answer may be; 0: proven to be the best (default: 0.001)"},
        {"time-limit", "S", "stop after so many seconds and say which gap is certified"},
        {"top", "K", "of the plans that are replayed, the best to show (default: 5)"},
        {"threads", "N", "(default: the cores it may use); the answer does not depend on it"},
        {"shard", "I/N", "search the I-th of N parts; `twinstep merge` joins their --json files"}}},
      {"Output",
       {{"explain", nullptr, "what became of every plan, one line each"},
        Writes({"json", "FILE|-",
                "the ranking as JSON; - : to standard output, in place of the text"}),
        Writes({"csv", "FILE", "every plan as a line of a table"}),
        MakesFolder({"plans", "DIR",
                     "the best plans as files that `simulate` and `train` take with --plan; a "
                     "folder holds those of one search"}),
        Writes({"plot", "FILE", "scaling over --gpus as a picture (.svg)"}),
        {"help", nullptr, "this text"}}},
  };
  return kGroups;
}

constexpr std::string_view kExamples = R"(
Examples
  The best plan of Llama-175B on 256 H800, proven:
    twinstep rank --model llama-175b --cluster h800 --gpus 256 --seq 8192 --global-batch 256 \
        --rules kuaishou --gpu-memory-budget 65000MiB --gap 0
  How it scales, with batches near 256:
    twinstep rank --model llama-65b --cluster h800 --nodes 4..32 --seq 4096 \
        --global-batch 240..272 --rules kuaishou --plot scaling.svg

Exit status
  0 done   1 no plan is feasible   2 bad input   3 internal error
)";

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

Status ReadIntegers(const Options& options, const char* name, std::int64_t least,
                    std::vector<std::int64_t>* values) {
  const auto text = options.Get(name);
  if (!text) return Unit{};
  Result<std::vector<std::int64_t>> parsed = ParseIntegers(*text);
  if (!parsed.ok()) return OptionError(name, parsed.error().message);
  if (parsed.value().front() < least) {
    return OptionError(name, StrCat(parsed.value().front(), " is less than ", least));
  }
  *values = std::move(parsed).value();
  return Unit{};
}

// Each word is read as the option that takes one of them.
template <typename Value>
Status ReadWords(const Options& options, const char* name,
                 const std::vector<std::pair<std::string, Value>>& words,
                 std::vector<Value>* values) {
  const auto text = options.Get(name);
  if (!text) return Unit{};
  for (const std::string& word : Split(*text, ',')) {
    const Options one({{name, word}});
    const Status status = ReadWord<Value>(one, name, words, [&](Value x) {
      if (std::find(values->begin(), values->end(), x) == values->end()) values->push_back(x);
    });
    if (!status.ok()) return status;
  }
  return Unit{};
}

template <typename Enum>
std::vector<std::pair<std::string, Enum>> WordsOf() {
  std::vector<std::pair<std::string, Enum>> words;
  for (const Choice<Enum>& choice : Choices(Enum{})) words.emplace_back(choice.name, choice.value);
  return words;
}

std::vector<std::pair<std::string, Recompute>> RecomputeWords() {
  // A custom set of tensors comes from a file, not from a word.
  std::vector<std::pair<std::string, Recompute>> words = WordsOf<Recompute>();
  std::erase_if(words, [](const auto& word) { return word.second == RECOMPUTE_CUSTOM; });
  return words;
}

// Options that `simulate` reads, without those of which there may be several values.
Options SharedOptions(const Options& options) {
  static const std::set<std::string> kOwn = {
      "gpus",       "nodes",          "global-batch", "space",       "tp",      "cp",
      "pp",         "virtual-stages", "recompute",    "micro-batch", "zero",    "tp-overlap",
      "dp-overlap", "rank-order",     "gap",          "time-limit",  "top",     "threads",
      "shard",      "persist",        "swap",         "checkpoint",  "explain", "maximize"};
  std::vector<Option> shared;
  for (const Option& option : options.given()) {
    if (!kOwn.contains(option.name)) shared.push_back(option);
  }
  if (!options.Has("offload-ratio") && options.Has("gpu-memory-budget")) {
    shared.push_back({"offload-ratio", "auto"});
  }
  if (options.Get("offload-ratio") == "auto" && !options.Has("gpu-memory-budget")) {
    std::erase_if(shared, [](const Option& option) { return option.name == "offload-ratio"; });
  }
  return Options(std::move(shared));
}

// Sizes that a plan file fixes.
void AxesOfFile(const Plan& plan, PlanAxes* axes) {
  const auto fix = [](std::int64_t value, std::vector<std::int64_t>* axis) {
    if (value > 0) *axis = {value};
  };
  fix(plan.tensor_parallel(), &axes->tensor);
  fix(plan.context_parallel(), &axes->context);
  fix(plan.pipeline_parallel(), &axes->pipeline);
  fix(plan.virtual_stages(), &axes->virtual_stages);
  if (plan.recompute() != RECOMPUTE_DEFAULT) axes->recompute = {plan.recompute()};
}

Status ReadAxes(const Options& options, PlanAxes* axes) {
  std::vector<std::int64_t> zero;
  for (const Status& status : {
           ReadIntegers(options, "tp", 1, &axes->tensor),
           ReadIntegers(options, "cp", 1, &axes->context),
           ReadIntegers(options, "pp", 1, &axes->pipeline),
           ReadIntegers(options, "virtual-stages", 1, &axes->virtual_stages),
           ReadIntegers(options, "micro-batch", 1, &axes->micro_batch),
           ReadIntegers(options, "global-batch", 1, &axes->global_batch),
           ReadIntegers(options, "zero", 0, &zero),
           ReadWords<TensorParallelOverlap>(options, "tp-overlap", WordsOf<TensorParallelOverlap>(),
                                            &axes->tensor_overlap),
       }) {
    if (!status.ok()) return status;
  }
  if (options.Has("recompute")) axes->recompute.clear();
  const Status recompute =
      ReadWords<Recompute>(options, "recompute", RecomputeWords(), &axes->recompute);
  if (!recompute.ok()) return recompute;
  if (!zero.empty() && zero.back() > 3) {
    return OptionError("zero", StrCat(zero.back(), " is more than 3"));
  }
  axes->zero_stage.assign(zero.begin(), zero.end());
  std::vector<int> overlap;
  const Status data = ReadWords<int>(options, "dp-overlap", {{"off", 0}, {"on", 1}}, &overlap);
  if (!data.ok()) return data;
  axes->data_overlap.assign(overlap.begin(), overlap.end());
  if (const auto orders = options.Get("rank-order")) axes->rank_order = Split(*orders, ',');
  if (axes->recompute.empty()) {
    axes->recompute = {RECOMPUTE_NONE, RECOMPUTE_BALANCED, RECOMPUTE_FULL};
  }
  return Unit{};
}

Status ReadGpus(const Options& options, const Cluster& cluster, std::vector<std::int64_t>* gpus) {
  if (options.Has("gpus") && options.Has("nodes")) {
    return Error{.message = "--gpus and --nodes say the same: give one"};
  }
  const std::int64_t node = cluster.node().gpus();
  const std::int64_t most = cluster.nodes() * node;
  *gpus = {most};
  std::vector<std::int64_t> nodes;
  for (const Status& status :
       {ReadIntegers(options, "gpus", 1, gpus), ReadIntegers(options, "nodes", 1, &nodes)}) {
    if (!status.ok()) return status;
  }
  if (!nodes.empty()) {
    gpus->clear();
    for (const std::int64_t count : nodes) {
      gpus->push_back(count > cluster.nodes() ? most + 1 : count * node);
    }
  }
  if (gpus->back() > most) {
    return OptionError(nodes.empty() ? "gpus" : "nodes",
                       StrCat("more than the ", most, " GPUs (", cluster.nodes(),
                              " nodes) of cluster '", cluster.name(), "'"));
  }
  return Unit{};
}

Status ReadShard(const Options& options, RankProblem* problem) {
  const auto text = options.Get("shard");
  if (!text) return Unit{};
  const std::vector<std::string> parts = Split(*text, '/');
  const Error error = OptionError("shard", StrCat("'", *text, "' is no I/N with 1 <= I <= N"));
  if (parts.size() != 2) return error;
  const Result<std::int64_t> shard = ParseInteger(parts[0]);
  const Result<std::int64_t> shards = ParseInteger(parts[1]);
  if (!shard.ok() || !shards.ok() || shard.value() < 1 || shard.value() > shards.value()) {
    return error;
  }
  problem->shard = shard.value();
  problem->shards = shards.value();
  return Unit{};
}

// Whether it is known, and whether it may be.
Status CheckBatch(const Options& options, const RankProblem& problem) {
  if (problem.maximize == Maximize::kNothing) {
    if (problem.HasBatch()) return Unit{};
    return Error{.message = "--global-batch is missing, here or in --plan (twinstep rank --help)"};
  }
  if (problem.shards > 1) return OptionError("shard", "--maximize is not searched in parts");
  if (problem.axes.global_batch.size() > 1) {
    return OptionError("global-batch", "--maximize is for one batch");
  }
  if (problem.maximize == Maximize::kLayers) {
    for (const Option& option : options.given()) {
      if (option.name != "set") continue;
      const Result<FieldValues> field = ParseFieldValues(option.value);
      if (!field.ok()) return OptionError("set", field.error().message);
      if (field.value().path == "layers" || field.value().path == "model.layers") {
        return OptionError("maximize", "layers finds the layers: give no --set layers");
      }
    }
    return Unit{};
  }
  if (problem.pipelines) {
    return OptionError("maximize",
                       "batch is for --space chunks: a pipeline takes any, in more micro-batches");
  }
  if (problem.HasBatch() || options.Has("micro-batch") || problem.input.plan.micro_batch() > 0) {
    return OptionError("maximize",
                       "batch finds the batch: give no --global-batch or --micro-batch");
  }
  return Unit{};
}

// Nothing is given that the spaces searched do not have.
Status CheckSpace(const Options& options, const RankProblem& problem) {
  if (!problem.chunks) {
    for (const char* name : {"persist", "swap", "checkpoint"}) {
      if (options.Has(name)) return OptionError(name, "is for --space chunks and all");
    }
  }
  if (!problem.pipelines) {
    for (const char* name :
         {"rules", "tp", "cp", "pp", "virtual-stages", "recompute", "zero", "tp-overlap",
          "dp-overlap", "rank-order", "schedule", "layers-per-stage", "sequence-parallel",
          "offload-ratio", "gpu-memory-budget"}) {
      if (options.Has(name)) return OptionError(name, "is for --space pipeline and all");
    }
    if (problem.axes.micro_batch.size() > 1) {
      return OptionError("micro-batch", "several are for --space pipeline and all");
    }
  }
  return Unit{};
}

// As one word for std::quoted to read; plain where it has no blanks or quotes.
std::string Quoted(const std::string& word) {
  if (word.find_first_of(" \t\n\"\\") == std::string::npos) return word;
  std::ostringstream out;
  out << std::quoted(word);
  return std::move(out).str();
}

// What decides which plans are searched and what is said of them, for the report and for `merge`.
std::string SpaceText(const Options& options) {
  static const std::set<std::string> kNot = {"json",    "csv",     "plans", "plot",
                                             "explain", "threads", "shard", "time-limit"};
  std::string text;
  for (const Option& option : options.given()) {
    if (kNot.contains(option.name)) continue;
    text += StrCat(text.empty() ? "--" : " --", option.name);
    if (!option.value.empty()) text += " " + Quoted(option.value);
  }
  return text;
}

}  // namespace

Result<Options> ParseRankOptions(const std::vector<std::string>& arguments) {
  return ParseOptions(Groups(), "rank", arguments);
}

Result<std::vector<std::int64_t>> ParseIntegers(const std::string& text) {
  std::set<std::int64_t> values;
  for (const std::string& item : Split(text, ',')) {
    const std::size_t dots = item.find("..");
    if (dots == std::string::npos) {
      const Result<std::int64_t> value = ParseInteger(item);
      if (!value.ok()) return value.error();
      values.insert(value.value());
      continue;
    }
    const std::size_t colon = item.find(':', dots);
    const std::string last_text =
        item.substr(dots + 2, colon == std::string::npos ? std::string::npos : colon - dots - 2);
    const Result<std::int64_t> first = ParseInteger(item.substr(0, dots));
    const Result<std::int64_t> last = ParseInteger(last_text);
    const Result<std::int64_t> step = colon == std::string::npos
                                          ? Result<std::int64_t>(std::int64_t{1})
                                          : ParseInteger(item.substr(colon + 1));
    for (const auto* part : {&first, &last, &step}) {
      if (!part->ok()) return part->error();
    }
    if (step.value() < 1 || last.value() < first.value()) {
      return Error{.message = StrCat("'", item, "' is no range A..B or A..B:STEP with A <= B")};
    }
    if ((last.value() - first.value()) / step.value() >= std::int64_t{kMaxListed}) {
      return Error{.message = StrCat("'", item, "' has more than ", kMaxListed, " values")};
    }
    for (std::int64_t value = first.value();; value += step.value()) {
      values.insert(value);
      if (last.value() - value < step.value()) break;
    }
  }
  if (values.size() > kMaxListed) {
    return Error{.message = StrCat("'", text, "' has more than ", kMaxListed, " values")};
  }
  return std::vector<std::int64_t>(values.begin(), values.end());
}

Result<RankProblem> ReadRankProblem(const Options& options) {
  const Status given = CheckRequired(options, "rank", {"model"});
  if (!given.ok()) return given.error();
  Result<SimulateInput> input = ReadInput(SharedOptions(options), "rank");
  if (!input.ok()) return input.error();
  RankProblem problem;
  problem.input = std::move(input).value();
  if (options.Get("offload-ratio").value_or("auto") == "auto") problem.input.solve_offload = true;
  AxesOfFile(problem.input.plan, &problem.axes);
  problem.gap = kDefaultGap;
  problem.keep = kDefaultKeep;
  problem.threads = HardwareThreads();
  for (const Status& status : {
           ReadAxes(options, &problem.axes),
           ReadGpus(options, problem.input.cluster, &problem.gpus),
           ReadShard(options, &problem),
           ReadReal(options, "gap", 0, 1, [&](double x) { problem.gap = x; }),
           ReadReal(options, "time-limit", 0, 1e9, [&](double x) { problem.time_limit_s = x; }),
           ReadInteger(options, "top", 1,
                       [&](auto x) { problem.keep = static_cast<std::size_t>(x); }),
           ReadInteger(options, "threads", 1, kMostThreads,
                       [&](auto x) { problem.threads = static_cast<int>(x); }),
           ReadIntegers(options, "persist", 0, &problem.chunk_axes.persistent),
           ReadIntegers(options, "swap", 0, &problem.chunk_axes.swapped),
           ReadIntegers(options, "checkpoint", 0, &problem.chunk_axes.checkpointed),
           ReadWord<int>(options, "space", {{"pipeline", 1}, {"chunks", 2}, {"all", 3}},
                         [&](int spaces) {
                           problem.pipelines = (spaces & 1) != 0;
                           problem.chunks = (spaces & 2) != 0;
                         }),
           ReadWord<Maximize>(options, "maximize",
                              {{"layers", Maximize::kLayers}, {"batch", Maximize::kBatch}},
                              [&](Maximize x) { problem.maximize = x; }),
       }) {
    if (!status.ok()) return status.error();
  }
  if (const Status batch = CheckBatch(options, problem); !batch.ok()) return batch.error();
  if (const Status space = CheckSpace(options, problem); !space.ok()) return space.error();
  problem.chunk_axes.global_batch = problem.axes.global_batch;
  if (!problem.pipelines && !problem.axes.micro_batch.empty()) {
    problem.input.plan.set_micro_batch(problem.axes.micro_batch.front());
  }
  problem.space = SpaceText(options);
  return problem;
}

std::string RankHelp() {
  return StrCat(
      "twinstep rank: the best plan for a model on a cluster, and why not another\n\n"
      "  twinstep rank --model NAME|FILE --cluster NAME|FILE --global-batch LIST "
      "[OPTION ...]\n",
      OptionsHelp(Groups()), kExamples);
}

}  // namespace twinstep
