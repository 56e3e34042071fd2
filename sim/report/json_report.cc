#include "sim/report/json_report.h"

#include <string>

#include "sim/plan/plan_names.h"
#include "sim/report/chunk_json.h"
#include "sim/report/proto_json.h"
#include "sim/version.h"

namespace twinstep {
namespace {

using nlohmann::ordered_json;

double ToSeconds(Picoseconds ps) { return static_cast<double>(ps) / kPicosecondsPerSecond; }

ordered_json PlanJson(const ResolvedPlan& plan) {
  ordered_json json = {
      {"gpus", plan.gpus},
      {"tensor_parallel", plan.t},
      {"context_parallel", plan.c},
      {"pipeline_parallel", plan.p},
      {"data_parallel", plan.d},
      {"virtual_stages", plan.v},
      {"layers_per_stage", plan.l},
      {"micro_batches", plan.m},
      {"micro_batch", plan.b},
      {"global_batch", plan.global_batch},
      {"sequence_length", plan.sequence_length},
      {"rank_order", plan.rank_order},
      {"schedule", WordFor(plan.schedule)},
      {"sequence_parallel", plan.sequence_parallel},
      {"tensor_parallel_overlap", WordFor(plan.tp_overlap)},
      {"data_parallel_overlap", plan.dp_overlap},
      {"zero_stage", plan.zero_stage},
      {"recompute", WordFor(plan.recompute)},
      {"attention", WordFor(plan.attention)},
      {"offload_ratio", plan.offload_ratio},
  };
  if (plan.recompute == RECOMPUTE_CUSTOM) json["stored_tensors"] = plan.stored_tensors;
  if (plan.chunks.enabled) {
    json["persistent_chunks"] = plan.chunks.persistent;
    json["chunk_buffers"] = plan.chunks.buffers;
    if (plan.chunks.chunk_bytes > 0) json["chunk_bytes"] = plan.chunks.chunk_bytes;
    json["host_optimizer_overlap"] = plan.chunks.host_optimizer_overlap;
  }
  if (!plan.blocks.empty()) {
    json["blocks"] = ordered_json::array();
    for (const BlockActivations choice : plan.blocks) json["blocks"].push_back(WordFor(choice));
  }
  return json;
}

template <typename Value>
ordered_json BreakdownJson(const std::array<Value, kTimeClassCount>& shares) {
  ordered_json json = ordered_json::object();
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const char* name = JsonName(static_cast<TimeClass>(i));
    if constexpr (std::is_same_v<Value, Picoseconds>) {
      json[name] = ToSeconds(shares[i]);
    } else {
      json[name] = shares[i];
    }
  }
  return json;
}

ordered_json PoolJson(const PoolReport& pool) {
  ordered_json by_class = ordered_json::object();
  for (std::size_t role = 0; role < pool.live_at_peak.size(); ++role) {
    if (pool.live_at_peak[role] == 0) continue;
    by_class[std::string(Name(static_cast<Role>(role))) + "_bytes"] = pool.live_at_peak[role];
  }
  by_class["unused_bytes"] = pool.arena_bytes - pool.peak_live_bytes;
  return {{"peak_bytes", pool.arena_bytes},
          {"peak_live_bytes", pool.peak_live_bytes},
          {"peak_at_s", ToSeconds(pool.peak_at_ps)},
          {"classes", by_class}};
}

ordered_json LanesJson(const RankLanes& lanes) {
  ordered_json json = ordered_json::object();
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const LaneUse& use = lanes[i];
    if (use.tasks == 0) continue;
    json[Name(static_cast<Lane>(i))] = {{"tasks", use.tasks},
                                        {"bytes", use.bytes},
                                        {"busy_s", ToSeconds(use.busy_ps)},
                                        {"exposed_s", ToSeconds(use.exposed_ps)},
                                        {"waiting_s", ToSeconds(use.waiting_ps)}};
  }
  return json;
}

ordered_json RankJson(const RankReport& rank) {
  ordered_json memory = ordered_json::object();
  for (std::size_t pool = 0; pool < rank.pools.size(); ++pool) {
    if (rank.pools[pool].arena_bytes == 0) continue;
    memory[Name(static_cast<Pool>(pool))] = PoolJson(rank.pools[pool]);
  }
  return {{"rank", rank.info.global_rank},
          {"tp", rank.info.tp},
          {"cp", rank.info.cp},
          {"dp", rank.info.dp},
          {"pp", rank.info.pp},
          {"class_size", rank.info.class_size},
          {"breakdown", BreakdownJson(rank.breakdown.time_ps)},
          {"memory", memory},
          {"lanes", LanesJson(rank.lanes)}};
}

ordered_json LinkJson(const LinkReport& link) {
  return {{"kind", Name(link.kind)}, {"node", link.node},
          {"index", link.index},     {"bytes_per_s", link.bytes_per_s},
          {"bytes", link.bytes},     {"busy_fraction", link.busy_fraction}};
}

ordered_json OperatorJson(const OperatorReport& x) {
  ordered_json json = {{"operator", Name(x.op)},
                       {"on_host", x.on_host},
                       {"tasks_per_rank", x.tasks},
                       {"seconds_per_rank", x.seconds}};
  if (x.seconds > 0 && x.flops > 0) json["flops_per_s"] = x.flops / x.seconds;
  if (x.seconds > 0 && x.memory_bytes > 0) json["memory_bytes_per_s"] = x.memory_bytes / x.seconds;
  json["extrapolated"] = x.extrapolated;
  return json;
}

ordered_json CriticalJson(const CriticalReport& share) {
  return {{"lane", Name(share.lane)}, {"phase", Name(share.phase)}, {"resource", share.resource},
          {"seconds", share.seconds}, {"slowed_s", share.slowed_s}, {"tasks", share.tasks}};
}

void AddResults(const SimulationResults& results, ordered_json* json) {
  (*json)["iteration_time_s"] = results.iteration_s;
  (*json)["tokens_per_s"] = results.tokens_per_s;
  (*json)["tokens_per_s_per_gpu"] = results.tokens_per_s_per_gpu;
  (*json)["mfu"] = results.mfu;
  (*json)["peak_flops_per_s"] = results.peak_flops_per_s;
  (*json)["peak_gpu_memory_bytes"] = results.peak_gpu_bytes;
  (*json)["peak_host_memory_bytes"] = results.peak_host_bytes;
  (*json)["peak_host_memory_per_node_bytes"] = results.host.peak_bytes;
  (*json)["tasks"] = results.tasks;
  (*json)["extrapolated_tasks"] = results.extrapolated_tasks;
  (*json)["breakdown"] = BreakdownJson(results.breakdown);
  (*json)["critical_path"] = {{"tasks", results.critical_tasks}, {"shares", ordered_json::array()}};
  for (const CriticalReport& share : results.critical_path) {
    (*json)["critical_path"]["shares"].push_back(CriticalJson(share));
  }
  for (const auto* name : {"ranks", "links", "operators"}) (*json)[name] = ordered_json::array();
  for (const RankReport& rank : results.ranks) (*json)["ranks"].push_back(RankJson(rank));
  if (!results.chunked.empty()) {
    (*json)["model_states"] = ordered_json::array();
    for (const ChunksOfRank& rank : results.chunked)
      (*json)["model_states"].push_back(ToJson(rank));
  }
  for (const LinkReport& link : results.links) (*json)["links"].push_back(LinkJson(link));
  for (const OperatorReport& x : results.operators) (*json)["operators"].push_back(OperatorJson(x));
}

ordered_json TermsJson(const std::vector<ClosedFormTerm>& terms) {
  ordered_json json = ordered_json::array();
  for (const ClosedFormTerm& term : terms) {
    json.push_back({{"name", term.name}, {"from", term.source}, {"closed_form", term.value}});
    if (term.replayed) json.back()["replay"] = *term.replayed;
    json.back()["in_total"] = term.in_total;
  }
  return json;
}

ordered_json ClosedFormJson(const ClosedFormReport& form) {
  return {{"paper", form.paper},
          {"iteration_time_s", form.iteration_s},
          {"terms_s", TermsJson(form.times)},
          {"peak_gpu_memory_bytes", form.peak_gpu_bytes},
          {"terms_bytes", TermsJson(form.memory)}};
}

}  // namespace

ordered_json ToJson(const Error& infeasible) {
  ordered_json json = {{"rule", infeasible.rule}, {"message", infeasible.message}};
  if (infeasible.rank >= 0) json["rank"] = infeasible.rank;
  if (!infeasible.pool.empty()) json["pool"] = infeasible.pool;
  if (infeasible.excess_bytes != 0) json["bytes"] = infeasible.excess_bytes;
  return json;
}

ordered_json ToJson(const Report& report) {
  ordered_json json = {
      {"twinstep", kVersion},
      {"model", ToJson(report.model)},
      {"cluster", ToJson(report.cluster)},
  };
  if (report.plan_is_valid) {
    json["plan"] = PlanJson(report.plan);
  } else {
    json["plan"] = ToJson(report.requested_plan);
    json["plan"]["gpus"] = report.requested_gpus;
  }
  json["engine"] = report.engine;
  if (!report.profile.empty()) json["profile"] = report.profile;
  if (!report.framework.empty()) json["framework"] = report.framework;
  if (report.plan_is_valid) {
    json["iteration"] = {{"sequences", report.plan.global_batch},
                         {"sequence_length", report.plan.sequence_length},
                         {"tokens", report.TokensPerIteration()},
                         {"begins_with", "parameter all-gather"},
                         {"ends_with", "optimizer"}};
    json["offload_ratio"] = report.plan.offload_ratio;
  }
  json["gpu_memory_capacity_bytes"] = report.gpu_memory_capacity_bytes;
  json["host_memory_budget_bytes"] = report.host_memory_budget_bytes;
  if (report.gpu_memory_budget_bytes != 0) {
    json["gpu_memory_budget_bytes"] = report.gpu_memory_budget_bytes;
  }
  if (report.results) AddResults(*report.results, &json);
  json["error_bars"] = ordered_json::array();
  for (const ErrorBar& bar : report.error_bars) {
    json["error_bars"].push_back({{"suite", bar.suite},
                                  {"rows", bar.rows},
                                  {"median_error", bar.median},
                                  {"worst_error", bar.worst},
                                  {"beyond", bar.beyond}});
  }
  if (report.closed_form) json["closed_form"] = ClosedFormJson(*report.closed_form);
  if (report.infeasible) json["infeasible"] = ToJson(*report.infeasible);
  json["warnings"] = report.warnings;
  return json;
}

std::string JsonText(const ordered_json& json) {
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace twinstep
