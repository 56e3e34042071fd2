#include "sim/search/rank_command.h"

#include <zlib.h>

#include <algorithm>
#include <iomanip>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "sim/format.h"
#include "sim/options/run_verb.h"
#include "sim/report/echo_text.h"
#include "sim/report/progress.h"
#include "sim/search/candidates.h"
#include "sim/search/maximize.h"
#include "sim/search/plan_search.h"
#include "sim/search/rank_json.h"
#include "sim/search/rank_options.h"
#include "sim/search/rank_outputs.h"
#include "sim/search/scaling.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

// Of everything that decides the answer.
std::string Fingerprint(const RankProblem& problem) {
  std::string text = problem.space + problem.input.model.SerializeAsString() +
                     problem.input.cluster.SerializeAsString() +
                     problem.input.plan.SerializeAsString();
  if (problem.input.profile) text += problem.input.profile->SerializeAsString();
  if (problem.input.framework) text += problem.input.framework->SerializeAsString();
  const uLong sum =
      crc32(0, reinterpret_cast<const Bytef*>(text.data()), static_cast<uInt>(text.size()));
  std::ostringstream hex;
  hex << std::hex << std::setw(8) << std::setfill('0') << sum;
  return hex.str();
}

std::string MemoryText(const SimulateInput& input) {
  std::string text =
      StrCat(Bytes(static_cast<double>(input.gpu_memory_capacity_bytes)), " a GPU, ",
             Bytes(static_cast<double>(input.host_memory_budget_bytes)), " host memory a node");
  if (input.gpu_memory_budget_bytes) {
    text +=
        StrCat("; equation 7 within ", Bytes(static_cast<double>(*input.gpu_memory_budget_bytes)));
  }
  return text + (input.solve_offload ? "; as little offload as fits" : "");
}

// Choices that are searched only where several are given, and were not given.
std::string KeptText(const RankProblem& problem) {
  const Plan& plan = problem.input.plan;
  if (!problem.pipelines) return "";
  std::vector<std::string> kept;
  if (problem.axes.micro_batch.empty()) {
    kept.push_back(StrCat("micro-batch ", std::max<std::int64_t>(1, plan.micro_batch())));
  }
  if (problem.axes.zero_stage.empty()) {
    kept.push_back(StrCat("ZeRO ", plan.has_zero_stage() ? plan.zero_stage() : 1));
  }
  if (problem.axes.tensor_overlap.empty()) {
    const bool is_chunked = plan.tensor_parallel_overlap() == TP_OVERLAP_CHUNKED;
    kept.push_back(StrCat("TP overlap ", is_chunked ? "chunked" : "none"));
  }
  if (problem.axes.data_overlap.empty()) {
    kept.push_back(StrCat("DP overlap ", plan.data_parallel_overlap() ? "on" : "off"));
  }
  return (problem.chunks && !kept.empty() ? "of pipelines: " : "") + Joined(kept);
}

Ranking EchoOf(const RankProblem& problem) {
  const SimulateInput& input = problem.input;
  Ranking report;
  report.model = input.model.name() + ": " + Describe(input.model);
  report.cluster = input.cluster.name() + ": " + Describe(input.cluster);
  if (input.profile) report.cluster += ", profile " + input.profile->name();
  if (input.framework) report.cluster += ", framework " + input.framework->name();
  report.memory = MemoryText(input);
  report.space = problem.space;
  report.kept = KeptText(problem);
  report.fingerprint = Fingerprint(problem);
  report.sequence_length = input.plan.sequence_length() > 0 ? input.plan.sequence_length()
                                                            : input.model.max_sequence_length();
  report.gap = problem.gap;
  report.keep = problem.keep;
  report.shard = problem.shard;
  report.shards = problem.shards;
  return report;
}

// Whether the report compares to plain data-parallel scaling.
bool Scales(const RankProblem& problem) {
  return problem.gpus.size() > 1 && problem.pipelines && !problem.chunks &&
         problem.maximize == Maximize::kNothing;
}

Result<Ranking> Rank(const RankProblem& problem, bool all_rows) {
  Ranking report = EchoOf(problem);
  // Numbers of GPUs differ in how much there is to do; a step is a thousandth of each.
  constexpr std::size_t kSteps = 1000;
  Progress progress(kSteps * problem.gpus.size());
  const double time_limit_s = problem.time_limit_s / static_cast<double>(problem.gpus.size());
  for (const std::int64_t gpus : problem.gpus) {
    RankProblem at = problem;
    std::optional<Maximum> maximum;
    if (problem.maximize != Maximize::kNothing) {
      Result<Maximum> found = FindMaximum(problem, gpus, &progress);
      if (!found.ok()) return found.error();
      maximum = std::move(found).value();
      if (maximum->value == 0) {
        report.points.push_back({.gpus = gpus, .maximum = std::move(maximum)});
        continue;
      }
      at = AtMaximum(problem, maximum->value, gpus);
    }
    PlanEstimator estimator(at.input, problem.threads);
    Result<Candidates> candidates = FindCandidates(at, gpus, &estimator);
    if (!candidates.ok()) return candidates.error();
    PlanSearch search(at.input, {.gap = problem.gap,
                                 .keep = problem.keep,
                                 .threads = problem.threads,
                                 .time_limit_s = time_limit_s,
                                 .progress_base = kSteps * report.points.size(),
                                 .progress_steps = kSteps});
    const Result<SearchResult> result =
        search.Run(std::move(candidates.value().space.plans),
                   std::move(candidates.value().estimates), &progress);
    if (!result.ok()) return result.error();
    Result<RankPoint> point = MakePoint(at.input, gpus, candidates.value().space, result.value(),
                                        problem.threads, all_rows);
    if (!point.ok()) return point.error();
    point.value().maximum = std::move(maximum);
    report.points.push_back(std::move(point).value());
  }
  if (problem.shards == 1 && Scales(problem)) {
    progress.StepTo(kSteps * problem.gpus.size(), "data-parallel scaling");
    const Status scaled = AddDataParallelScaling(problem, &report.points);
    if (!scaled.ok()) return scaled.error();
  }
  return report;
}

// What `rank` adds to a sweep that is searched in one piece, from the options that the parts were
// searched with. Errors: what these name is not there, or not what was searched.
Status AddScaling(Ranking* merged) {
  std::istringstream in(merged->space);
  std::vector<std::string> words;
  for (std::string word; in >> std::quoted(word);) words.push_back(word);
  const Result<Options> options = ParseRankOptions(words);
  if (!options.ok()) return options.error();
  const Result<RankProblem> problem = ReadRankProblem(options.value());
  if (!problem.ok()) return problem.error();
  if (!Scales(problem.value())) return Unit{};
  if (Fingerprint(problem.value()) != merged->fingerprint) {
    return Error{.message = "model, cluster, plan or profile are not as they were searched"};
  }
  return AddDataParallelScaling(problem.value(), &merged->points);
}

ExitCode Finish(const Options& options, const Ranking& report, const VerbOutput& output) {
  const Status written = WriteRankOutputs(options, report, output.out());
  if (!written.ok()) return output.Fail(written.error());
  return report.AnyFeasible() ? ExitCode::kDone : ExitCode::kNo;
}

const std::vector<OptionGroup>& MergeGroups() {
  static const std::vector<OptionGroup> kGroups = {
      {"Parts",
       {Reads({"part", "FILE", "a --json file of `twinstep rank --shard I/N`; each of them once",
               /*repeats=*/true})}},
      {"Output",
       {Writes({"json", "FILE|-",
                "the ranking as JSON; - : to standard output, in place of the text"}),
        MakesFolder({"plans", "DIR",
                     "the best plans as files that `simulate` and `train` take with --plan; a "
                     "folder holds those of one search"}),
        Writes({"plot", "FILE", "scaling over GPUs as a picture (.svg)"}),
        {"help", nullptr, "this text"}}}};
  return kGroups;
}

std::string MergeHelp() {
  return StrCat(
      "twinstep merge: the parts of one search as one\n\n"
      "  twinstep merge --part FILE --part FILE ... [OPTION ...]\n",
      OptionsHelp(MergeGroups()));
}

ExitCode RunRank(const Options& options, const VerbOutput& output) {
  const Result<RankProblem> problem = ReadRankProblem(options);
  if (!problem.ok()) return output.Fail(problem.error());
  const Status outputs =
      CheckRankOutputs(options, EchoOf(problem.value()), problem.value().gpus.size());
  if (!outputs.ok()) return output.Fail(outputs.error());
  const bool all_rows = options.Has("explain") || options.Has("csv");
  const Result<Ranking> report = Rank(problem.value(), all_rows);
  if (!report.ok()) return output.Fail(report.error());
  return Finish(options, report.value(), output);
}

ExitCode RunMerge(const Options& options, const VerbOutput& output) {
  std::vector<Ranking> parts;
  for (const Option& option : options.given()) {
    if (option.name != "part") continue;
    Result<Ranking> part = ReadRankJson(option.value);
    if (!part.ok()) return output.Fail(part.error());
    parts.push_back(std::move(part).value());
  }
  Result<Ranking> merged = Merge(std::move(parts));
  if (!merged.ok()) return output.Fail(merged.error());
  if (const Status scaled = AddScaling(&merged.value()); !scaled.ok()) {
    output.Warn("without data-parallel scaling: " + scaled.error().message);
  }
  const Status outputs = CheckRankOutputs(options, merged.value(), merged.value().points.size());
  if (!outputs.ok()) return output.Fail(outputs.error());
  return Finish(options, merged.value(), output);
}

}  // namespace

ExitCode RunRankCommand(const std::vector<std::string>& arguments, std::ostream& out,
                        std::ostream& err) {
  const VerbOutput output("rank", out, err);
  return RunVerb(output, ParseRankOptions(arguments), RankHelp,
                 [&](const Options& options) { return RunRank(options, output); });
}

ExitCode RunMergeCommand(const std::vector<std::string>& arguments, std::ostream& out,
                         std::ostream& err) {
  const VerbOutput output("merge", out, err);
  return RunVerb(output, ParseOptions(MergeGroups(), "merge", arguments), MergeHelp,
                 [&](const Options& options) { return RunMerge(options, output); });
}

}  // namespace twinstep
