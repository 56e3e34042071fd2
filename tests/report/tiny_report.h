// A small report with something in every part.
#pragma once

#include "sim/report/report.h"
#include "sim/report/summarize.h"
#include "tests/traces/tiny_graph.h"

namespace twinstep::testing {

// The two ranks of TwoRankRun, the second standing for three: four GPUs of two nodes.
inline Report TinyReport() {
  TinyRun run = TwoRankRun();
  run.graph.ranks[1].class_size = 3;
  run.graph.rank_class = {0, 1, 1, 1};

  Report report;
  report.model.set_name("tiny");
  report.model.set_family(LLAMA);
  report.model.set_layers(2);
  report.model.set_hidden_size(64);
  report.model.set_ffn_hidden_size(176);
  report.model.set_attention_heads(4);
  report.model.set_kv_heads(2);
  report.model.set_vocab_size(256);
  report.cluster.set_name("desk");
  report.cluster.set_nodes(2);
  report.cluster.mutable_gpu()->set_name("Tiny GPU");
  report.cluster.mutable_gpu()->set_memory_bytes(1 << 30);
  report.cluster.mutable_gpu()->set_bf16_flops_per_s(1e15);
  report.cluster.mutable_gpu()->set_memory_bytes_per_s(1e12);
  report.cluster.mutable_node()->set_gpus(2);
  report.cluster.mutable_node()->mutable_host()->set_memory_bytes(std::int64_t{1} << 34);
  report.plan_is_valid = true;
  report.plan.gpus = 4;
  report.plan.p = 2;
  report.plan.d = 2;
  report.plan.m = 1;
  report.plan.global_batch = 2;
  report.plan.sequence_length = 16;
  report.plan.offload_ratio = 0.25;
  report.engine = "fast";
  report.gpu_memory_capacity_bytes = 1 << 30;
  report.host_memory_budget_bytes = std::int64_t{1} << 34;
  report.warnings = {"a warning"};

  GraphCosts costs;
  costs.links = {{LinkKind::kPcieD2H, 0, 1, 1e12}};
  costs.hops = {{0, 1.0}};
  costs.flows = {{2048, 1e12, 0, 1}};
  costs.costs.resize(2);
  costs.costs[1].flow_count = 1;
  costs.costs[1].extrapolated = true;
  costs.cost_of_task.assign(run.graph.tasks.size(), 0);
  costs.cost_of_task[6] = 1;  // The copy.

  ArenaPlan arena;
  arena.arena_bytes = {{4096, 0, 0}, {8192, 2048, 1024}};
  MemoryTimeline memory(2);
  memory[0][0].peak_bytes = 4000;
  memory[0][0].at_peak[static_cast<std::size_t>(Role::kParameter)] = 4000;
  memory[1][0].peak_bytes = 8000;
  memory[1][0].peak_time_ps = 15'000;
  memory[1][0].at_peak[static_cast<std::size_t>(Role::kParameter)] = 5000;
  memory[1][0].at_peak[static_cast<std::size_t>(Role::kActivation)] = 3000;
  memory[1][1].peak_bytes = 2048;
  memory[1][1].at_peak[static_cast<std::size_t>(Role::kOffloadSlot)] = 2048;
  memory[1][2].peak_bytes = 1024;
  memory[1][2].at_peak[static_cast<std::size_t>(Role::kOptimizerState)] = 1024;
  report.results = Summarize(report, {run.graph, costs, run.replay, arena, memory});
  return report;
}

}  // namespace twinstep::testing
