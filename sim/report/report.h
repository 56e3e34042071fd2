// What a simulation has to say: everything that the text and the JSON report show.
//
//   Report report;
//   report.model = model;  // ... and the rest of the echo
//   report.results = Summarize(report, {graph, costs, replay, arena, memory});
//   std::cout << ToText(report);          // sim/report/text_report.h
//   std::cout << ToJson(report).dump(2);  // sim/report/json_report.h
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hw_specs/cluster.pb.h"
#include "model_zoo/model.pb.h"
#include "sim/cost/graph_costs.h"
#include "sim/graph/memory_timeline.h"
#include "sim/graph/task_graph.h"
#include "sim/plan/resolved_plan.h"
#include "sim/report/chunk_report.h"
#include "sim/result.h"
#include "traces/breakdown.h"
#include "traces/lane_use.h"

namespace twinstep {

// One pool of one rank. What the arena needs is the peak; the most that is alive at once is a
// little less (alignment, and what lies between buffers).
struct PoolReport {
  std::int64_t arena_bytes = 0;
  std::int64_t peak_live_bytes = 0;
  Picoseconds peak_at_ps = 0;
  RoleBytes live_at_peak{};  // Adds up to peak_live_bytes.
};

struct RankReport {
  RankInfo info;
  Breakdown breakdown;
  RankLanes lanes{};
  std::array<PoolReport, kPoolCount> pools{};

  std::int64_t HostBytes() const;  // Pinned and pageable.
};

// The busiest of the links of one kind.
struct LinkReport {
  LinkKind kind = LinkKind::kPcieH2D;
  std::uint32_t node = 0, index = 0;
  double bytes_per_s = 0;
  double bytes = 0;          // That cross it in the iteration.
  double busy_fraction = 0;  // bytes / (bytes_per_s x iteration).
};

// One operation, over the whole iteration; per rank, mean over ranks. What the host computes has a
// report of its own: its bytes are those of the host's memory.
struct OperatorReport {
  OpCode op = OpCode::kAdd;
  bool on_host = false;
  double tasks = 0;
  double seconds = 0;
  double flops = 0;         // As performed; 0 for movement.
  double memory_bytes = 0;  // Of the device's or the host's memory, at least; 0 for movement.
  bool extrapolated = false;
};

// Time of the critical path, the chain of tasks that makes the iteration as long as it is, spent in
// one lane and phase on one resource. Adds up to the iteration.
struct CriticalReport {
  Lane lane = Lane::kCompute;
  Phase phase = Phase::kForward;
  std::string resource;  // "gpu", "host", a kind of link, or "own rate": latency, no link.
  double seconds = 0;
  double slowed_s = 0;  // Part of it: what sharing and interference added.
  std::int64_t tasks = 0;
};

struct HostReport {
  std::int64_t peak_bytes = 0;    // Of the fullest node.
  std::int64_t pinned_bytes = 0;  // What of it is pinned.
  std::int64_t node = 0;
  std::int64_t ranks = 0;  // Of that node.
};

struct SimulationResults {
  double iteration_s = 0;
  double tokens_per_s = 0;
  double tokens_per_s_per_gpu = 0;
  double mfu = 0;
  double peak_flops_per_s = 0;       // Of a GPU, which `mfu` is of.
  std::int64_t peak_gpu_bytes = 0;   // Of the fullest rank.
  std::int64_t peak_host_bytes = 0;  // Of the fullest rank.
  HostReport host;
  std::int64_t tasks = 0;  // Simulated.
  std::int64_t extrapolated_tasks = 0;
  std::vector<RankReport> ranks;                    // Simulated: representatives of their classes.
  std::array<double, kTimeClassCount> breakdown{};  // Mean over real ranks.
  std::vector<LinkReport> links;
  std::vector<OperatorReport> operators;      // By time, longest first.
  std::vector<CriticalReport> critical_path;  // Longest first.
  std::int64_t critical_tasks = 0;
  std::vector<ChunksOfRank> chunked;  // By simulated rank; empty without chunks and block choices.
};

// A term of a closed form.
struct ClosedFormTerm {
  std::string name;                  // "warm-up"
  std::string source;                // "eq 12"
  double value = 0;                  // Seconds or bytes.
  std::optional<double> replayed{};  // The same of the replay, where it can be told apart.
  bool in_total = false;             // The terms so marked add up to the total.
};

// What a paper's closed form says of the plan, to be shown beside the replay.
struct ClosedFormReport {
  std::string paper;  // "Kuaishou, ATC 2024"
  double iteration_s = 0;
  std::vector<ClosedFormTerm> times;
  double peak_gpu_bytes = 0;  // As far as the paper's memory model counts.
  std::vector<ClosedFormTerm> memory;
};

// How far off predictions for the cluster were, on a suite of measured runs
// (sim/evaluate/suites/*.textproto).
struct ErrorBar {
  std::string suite;
  int rows = 0;
  double median = 0, worst = 0;     // Of |predicted / measured - 1|, iteration time.
  std::vector<std::string> beyond;  // In what this simulation lies outside of the suite's rows.
};

struct Report {
  Model model;
  Cluster cluster;
  // What was asked for, and with every default written out (unless `plan_is_valid` is false).
  Plan requested_plan;
  std::int64_t requested_gpus = 0;
  bool plan_is_valid = false;
  ResolvedPlan plan;
  std::string engine;
  std::string profile;                       // Name; empty without one.
  std::string framework;                     // Name; empty without one.
  std::vector<ErrorBar> error_bars;          // Empty: no suite has runs on the cluster.
  bool offload_solved = false;               // --offload-ratio auto.
  std::int64_t gpu_memory_budget_bytes = 0;  // 0 = not given.
  std::int64_t gpu_memory_capacity_bytes = 0;
  std::int64_t host_memory_budget_bytes = 0;    // Per node.
  std::optional<SimulationResults> results;     // None where the plan is impossible.
  std::optional<ClosedFormReport> closed_form;  // --engine closed-form.
  std::optional<Error> infeasible;
  std::vector<std::string> warnings;

  std::int64_t TokensPerIteration() const { return plan.global_batch * plan.sequence_length; }
};

}  // namespace twinstep
