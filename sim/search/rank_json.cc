#include "sim/search/rank_json.h"

#include <algorithm>
#include <utility>

#include "sim/plan/plan_names.h"
#include "sim/str_cat.h"
#include "sim/textproto/text_file.h"
#include "sim/version.h"

namespace twinstep {
namespace {

using nlohmann::ordered_json;

template <typename Enum>
Enum FromWord(const std::string& word) {
  for (const Choice<Enum>& choice : Choices(Enum{})) {
    if (word == choice.name) return choice.value;
  }
  return Enum{};
}

// Sizes of a plan and their names: written and read by one list.
template <typename PlanType, typename Visit>
void VisitSizes(PlanType& plan, const Visit& visit) {
  visit("gpus", plan.gpus);
  visit("tensor_parallel", plan.t);
  visit("context_parallel", plan.c);
  visit("pipeline_parallel", plan.p);
  visit("data_parallel", plan.d);
  visit("virtual_stages", plan.v);
  visit("layers_per_stage", plan.l);
  visit("micro_batches", plan.m);
  visit("micro_batch", plan.b);
  visit("global_batch", plan.global_batch);
  visit("sequence_length", plan.sequence_length);
  visit("rank_order", plan.rank_order);
  visit("sequence_parallel", plan.sequence_parallel);
  visit("data_parallel_overlap", plan.dp_overlap);
  visit("zero_stage", plan.zero_stage);
  visit("offload_ratio", plan.offload_ratio);
}

ordered_json PlanJson(const ResolvedPlan& plan) {
  ordered_json json = ordered_json::object();
  VisitSizes(plan, [&json](const char* name, const auto& value) { json[name] = value; });
  json["schedule"] = WordFor(plan.schedule);
  json["tensor_parallel_overlap"] = WordFor(plan.tp_overlap);
  json["recompute"] = WordFor(plan.recompute);
  json["attention"] = WordFor(plan.attention);
  if (!plan.chunks.enabled) return json;
  json["persistent_chunks"] = plan.chunks.persistent;
  json["chunk_buffers"] = plan.chunks.buffers;
  json["chunk_bytes"] = plan.chunks.chunk_bytes;
  json["host_optimizer_overlap"] = plan.chunks.host_optimizer_overlap;
  json["blocks"] = ordered_json::array();
  for (const BlockActivations choice : plan.blocks) {
    json["blocks"].push_back(BlockActivations_Name(choice));
  }
  return json;
}

ResolvedPlan PlanFrom(const ordered_json& json) {
  ResolvedPlan plan;
  VisitSizes(plan, [&json](const char* name, auto& value) { json.at(name).get_to(value); });
  plan.schedule = FromWord<Schedule>(json.at("schedule"));
  plan.tp_overlap = FromWord<TensorParallelOverlap>(json.at("tensor_parallel_overlap"));
  plan.recompute = FromWord<Recompute>(json.at("recompute"));
  plan.attention = FromWord<AttentionKernel>(json.at("attention"));
  if (!json.contains("persistent_chunks")) return plan;
  plan.chunks = {.enabled = true,
                 .persistent = json.at("persistent_chunks"),
                 .buffers = json.at("chunk_buffers"),
                 .chunk_bytes = json.at("chunk_bytes"),
                 .host_optimizer_overlap = json.at("host_optimizer_overlap")};
  for (const ordered_json& name : json.at("blocks")) {
    BlockActivations choice = BLOCK_KEEP;
    BlockActivations_Parse(name.get<std::string>(), &choice);
    plan.blocks.push_back(choice);
  }
  return plan;
}

template <typename TimeType, typename Visit>
void VisitTerms(TimeType& time, const Visit& visit) {
  visit("warmup_s", time.warmup_s);
  visit("steady_s", time.steady_s);
  visit("cooldown_s", time.cooldown_s);
  visit("optimizer_s", time.optimizer_s);
  visit("offload_s", time.offload_s);
  visit("slowdown_s", time.slowdown_s);
}

ordered_json RowJson(const RankRow& row) {
  ordered_json json = {
      {"plan", PlanJson(row.plan)},
      {"iteration_time_s", *row.iteration_s},
      {"tokens_per_s", row.TokensPerSecond()},
      {"tokens_per_s_per_gpu", row.TokensPerSecond() / static_cast<double>(row.plan.gpus)},
      {"mfu", *row.mfu},
      {"peak_gpu_memory_bytes", *row.peak_gpu_bytes},
      {"peak_host_memory_per_node_bytes", *row.peak_host_bytes},
      {"peak_pinned_memory_per_node_bytes", *row.peak_pinned_bytes}};
  json["breakdown"] = ordered_json::object();
  for (std::size_t i = 0; i < row.breakdown->size(); ++i) {
    json["breakdown"][JsonName(static_cast<TimeClass>(i))] = (*row.breakdown)[i];
  }
  json["closed_form"] = {{"total_s", row.expected_s}};
  VisitTerms(row.closed_form,
             [&json](const char* name, double term) { json["closed_form"][name] = term; });
  json["bound_s"] = row.bound_s;
  json["warnings"] = row.warnings;
  return json;
}

// What JSON's types allow, and no search has written.
struct Impossible {
  std::string what;
};

template <typename Number>
Number PositiveNumber(const ordered_json& json, const char* name) {
  const Number value = json.at(name);
  if (!(value > 0)) throw Impossible{StrCat(name, " is not above 0")};
  return value;
}

RankRow RowFrom(const ordered_json& json) {
  RankRow row;
  row.plan = PlanFrom(json.at("plan"));
  row.fate = Fate::kReplayed;
  row.iteration_s = PositiveNumber<double>(json, "iteration_time_s");
  row.mfu = json.at("mfu");
  row.peak_gpu_bytes = json.at("peak_gpu_memory_bytes");
  row.peak_host_bytes = json.at("peak_host_memory_per_node_bytes");
  row.peak_pinned_bytes = json.at("peak_pinned_memory_per_node_bytes");
  row.breakdown.emplace();
  for (std::size_t i = 0; i < row.breakdown->size(); ++i) {
    (*row.breakdown)[i] = json.at("breakdown").at(JsonName(static_cast<TimeClass>(i)));
  }
  json.at("closed_form").at("total_s").get_to(row.expected_s);
  VisitTerms(row.closed_form, [&json](const char* name, double& term) {
    json.at("closed_form").at(name).get_to(term);
  });
  row.bound_s = json.at("bound_s");
  json.at("warnings").get_to(row.warnings);
  return row;
}

ordered_json ExcludedJson(const std::map<std::string, Excluded>& rules) {
  ordered_json json = ordered_json::object();
  for (const auto& [rule, excluded] : rules) {
    json[rule] = {{"plans", excluded.plans}, {"example", excluded.example}};
    if (excluded.example_bytes != 0) json[rule]["example_bytes"] = excluded.example_bytes;
  }
  return json;
}

std::map<std::string, Excluded> ExcludedFrom(const ordered_json& json) {
  std::map<std::string, Excluded> rules;
  for (const auto& [rule, excluded] : json.items()) {
    rules[rule] = {.plans = excluded.at("plans"),
                   .example = excluded.at("example"),
                   .example_bytes = excluded.value("example_bytes", std::int64_t{0})};
  }
  return rules;
}

ordered_json UnreplayedJson(const Unreplayed& unreplayed) {
  ordered_json json = {{"plans", unreplayed.plans}};
  if (unreplayed.plans > 0) json["least_bound_s_per_sequence"] = unreplayed.least_cost_s;
  return json;
}

Unreplayed UnreplayedFrom(const ordered_json& json) {
  Unreplayed unreplayed{.plans = json.at("plans")};
  if (unreplayed.plans > 0) json.at("least_bound_s_per_sequence").get_to(unreplayed.least_cost_s);
  return unreplayed;
}

ordered_json MaximumJson(const Maximum& most) {
  ordered_json json;
  if (most.of == Maximize::kLayers) {
    json = {{"layers", most.value}, {"parameters", most.parameters}, {"bound", most.bound}};
  } else {
    json = {{"sequences_per_gpu", most.value}};
  }
  if (most.limit.message.empty()) return json;
  json["limit"] = {{"rule", most.limit.rule}, {"message", most.limit.message}};
  if (!most.limit.pool.empty()) json["limit"]["pool"] = most.limit.pool;
  if (most.limit.excess_bytes > 0) json["limit"]["excess_bytes"] = most.limit.excess_bytes;
  return json;
}

ordered_json PointJson(const RankPoint& point) {
  ordered_json json = {{"gpus", point.gpus},
                       {"plans", point.plans},
                       {"replays", point.replays},
                       {"certified_gap", point.certified_gap},
                       {"time_was_over", point.time_was_over},
                       {"ranking", ordered_json::array()}};
  for (const RankRow& row : point.ranking) json["ranking"].push_back(RowJson(row));
  if (point.maximum) json["maximum"] = MaximumJson(*point.maximum);
  json["bounded"] = UnreplayedJson(point.bounded);
  json["left_out"] = UnreplayedJson(point.left_out);
  json["infeasible"] = ExcludedJson(point.infeasible);
  json["invalid"] = ExcludedJson(point.invalid);
  if (point.data_parallel_gpus > 0) {
    json["data_parallel_scaling"] = {{"gpus", point.data_parallel_gpus},
                                     {"tokens_per_s", point.data_parallel_tokens_per_s}};
  }
  return json;
}

RankPoint PointFrom(const ordered_json& json) {
  RankPoint point;
  point.gpus = PositiveNumber<std::int64_t>(json, "gpus");
  point.plans = json.at("plans");
  point.replays = json.at("replays");
  point.certified_gap = json.at("certified_gap");
  point.time_was_over = json.at("time_was_over");
  for (const ordered_json& row : json.at("ranking")) point.ranking.push_back(RowFrom(row));
  point.bounded = UnreplayedFrom(json.at("bounded"));
  point.left_out = UnreplayedFrom(json.at("left_out"));
  point.infeasible = ExcludedFrom(json.at("infeasible"));
  point.invalid = ExcludedFrom(json.at("invalid"));
  return point;
}

// Of the report itself.
template <typename ReportType, typename Visit>
void VisitHead(ReportType& report, const Visit& visit) {
  visit("model", report.model);
  visit("cluster", report.cluster);
  visit("memory", report.memory);
  visit("search", report.space);
  visit("kept", report.kept);
  visit("fingerprint", report.fingerprint);
  visit("sequence_length", report.sequence_length);
  visit("gap", report.gap);
  visit("top", report.keep);
  visit("shard", report.shard);
  visit("shards", report.shards);
}

}  // namespace

ordered_json ToJson(const Ranking& report) {
  ordered_json json = {{"twinstep", kVersion}};
  VisitHead(report, [&json](const char* name, const auto& value) { json[name] = value; });
  json["points"] = ordered_json::array();
  for (const RankPoint& point : report.points) json["points"].push_back(PointJson(point));
  return json;
}

Result<Ranking> ReadRankJson(const std::string& path) {
  const Result<std::string> text = ReadTextFile(path);
  if (!text.ok()) return text.error();
  const auto no_report = [&path](const std::string& why) {
    return Error{.message = StrCat(path, ": this is no report of `twinstep rank --json`: ", why)};
  };
  try {
    const ordered_json json = ordered_json::parse(text.value());
    Ranking report;
    VisitHead(report, [&json](const char* name, auto& value) { json.at(name).get_to(value); });
    for (const ordered_json& point : json.at("points")) report.points.push_back(PointFrom(point));
    return report;
  } catch (const ordered_json::exception& error) {
    const std::string what = error.what();  // "[json.exception...] what"
    return no_report(what.substr(std::min(what.size(), what.find("] ") + 2)));
  } catch (const Impossible& error) {
    return no_report(error.what);
  }
}

}  // namespace twinstep
