#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "sim/report/json_report.h"
#include "sim/report/proto_json.h"
#include "sim/report/text_report.h"
#include "sim/report/text_table.h"
#include "tests/report/tiny_report.h"

namespace twinstep {
namespace {

using nlohmann::ordered_json;

TEST(SummarizeTest, FiguresOfTheTinyReport) {
  const Report report = testing::TinyReport();
  const SimulationResults& x = *report.results;
  EXPECT_DOUBLE_EQ(x.iteration_s, 60e-9);
  EXPECT_DOUBLE_EQ(x.tokens_per_s, 32 / 60e-9);
  EXPECT_DOUBLE_EQ(x.tokens_per_s_per_gpu, 8 / 60e-9);
  EXPECT_EQ(x.peak_gpu_bytes, 8192);
  EXPECT_EQ(x.peak_host_bytes, 3072);
  // Node 0 holds ranks 0 and 1, node 1 ranks 2 and 3, of class 1 both.
  EXPECT_EQ(x.host.node, 1);
  EXPECT_EQ(x.host.ranks, 2);
  EXPECT_EQ(x.host.peak_bytes, 2 * 3072);
  EXPECT_EQ(x.tasks, 10);
  EXPECT_EQ(x.extrapolated_tasks, 1);
  // Compute of rank 0: 10 ns, of three others: 16 ns.
  EXPECT_DOUBLE_EQ(x.breakdown[static_cast<std::size_t>(TimeClass::kCompute)],
                   (10 + 3 * 16) / 4.0 * 1e-9);
  ASSERT_EQ(x.links.size(), 1u);
  EXPECT_DOUBLE_EQ(x.links[0].bytes, 2048);
  EXPECT_DOUBLE_EQ(x.links[0].busy_fraction, 2048 / 1e12 / 60e-9);
  double critical_s = 0;
  for (const CriticalReport& share : x.critical_path) critical_s += share.seconds;
  EXPECT_DOUBLE_EQ(critical_s, x.iteration_s);
  // Longest first: the copy's 30 ns of three ranks in four.
  ASSERT_FALSE(x.operators.empty());
  double previous = x.operators.front().seconds;
  for (const OperatorReport& op : x.operators) {
    EXPECT_LE(op.seconds, previous);
    previous = op.seconds;
  }
}

// Adam of 100 parameters on the GPU in 1 ns and of 1,000 on the host in 280 ns, 28 bytes each.
Report ReportOfTwoAdams() {
  Report report = testing::TinyReport();
  const testing::TinyRun run = testing::MakeTinyRun(
      {{{.op = OpCode::kAdam, .phase = Phase::kOptimizer, .dim0 = 100, .end_ps = 1'000},
        {.op = OpCode::kAdam,
         .kind = TaskKind::kHost,
         .lane = Lane::kHost,
         .phase = Phase::kOptimizer,
         .dim0 = 1000,
         .end_ps = 280'000}}});
  GraphCosts costs;
  costs.costs.resize(1);
  costs.cost_of_task.assign(run.graph.tasks.size(), 0);
  ArenaPlan arena;
  arena.arena_bytes = {{4096, 0, 0}};
  report.plan.gpus = report.plan.d = report.plan.p = 1;
  report.results = Summarize(report, {run.graph, costs, run.replay, arena, MemoryTimeline(1)});
  return report;
}

TEST(SummarizeTest, WhatTheHostComputesCountsItsOwnBytesAndTime) {
  const Report report = ReportOfTwoAdams();
  const std::vector<OperatorReport>& operators = report.results->operators;
  ASSERT_EQ(operators.size(), 2u);
  EXPECT_TRUE(operators[0].on_host);
  EXPECT_DOUBLE_EQ(operators[0].tasks, 1);
  EXPECT_DOUBLE_EQ(operators[0].seconds, 280e-9);
  EXPECT_DOUBLE_EQ(operators[0].memory_bytes, 28'000);
  EXPECT_FALSE(operators[1].on_host);
  EXPECT_DOUBLE_EQ(operators[1].tasks, 1);
  EXPECT_DOUBLE_EQ(operators[1].seconds, 1e-9);
  EXPECT_DOUBLE_EQ(operators[1].memory_bytes, 2800);

  const ordered_json json = ToJson(report).at("operators");
  EXPECT_EQ(json[0].at("on_host"), true);
  EXPECT_DOUBLE_EQ(json[0].at("memory_bytes_per_s"), 100e9);
  EXPECT_EQ(json[1].at("on_host"), false);
  EXPECT_DOUBLE_EQ(json[1].at("memory_bytes_per_s"), 2.8e12);

  // The host's row is not among the shares of the rank's own computation.
  const std::string text = ToText(report);
  const std::size_t own = text.find("\nComputation of a rank by operator");
  const std::size_t host = text.find("\nComputation of a rank on the host");
  ASSERT_NE(own, std::string::npos) << text;
  ASSERT_NE(host, std::string::npos) << text;
  EXPECT_NE(text.substr(own, host - own).find("100.0 %"), std::string::npos) << text;
  EXPECT_NE(text.substr(host).find("100.0\n"), std::string::npos) << text;
}

TEST(JsonReportTest, HasTheStableNames) {
  const ordered_json json = ToJson(testing::TinyReport());
  for (const char* name :
       {"iteration_time_s", "tokens_per_s", "tokens_per_s_per_gpu", "mfu", "peak_gpu_memory_bytes",
        "peak_host_memory_bytes", "offload_ratio", "tasks"}) {
    ASSERT_TRUE(json.contains(name)) << name;
    EXPECT_TRUE(json.at(name).is_number()) << name;
  }
  EXPECT_EQ(json.at("ranks").size(), 2u);
  EXPECT_EQ(json.at("warnings"), ordered_json({"a warning"}));
  EXPECT_EQ(json.at("model").at("layers"), 2);
  EXPECT_EQ(json.at("cluster").at("gpu").at("name"), "Tiny GPU");
  EXPECT_EQ(json.at("plan").at("pipeline_parallel"), 2);
  EXPECT_EQ(json.at("iteration").at("tokens"), 32);
  EXPECT_FALSE(json.contains("infeasible"));
}

TEST(JsonReportTest, BreakdownsHoldSecondsThatAddUp) {
  const ordered_json json = ToJson(testing::TinyReport());
  const double iteration_s = json.at("iteration_time_s");
  const auto check = [iteration_s](const ordered_json& breakdown) {
    double sum = 0;
    for (const auto& [name, value] : breakdown.items()) {
      EXPECT_TRUE(name.ends_with("_s")) << name;
      sum += value.get<double>();
    }
    EXPECT_NEAR(sum, iteration_s, 1e-18);
  };
  check(json.at("breakdown"));
  for (const ordered_json& rank : json.at("ranks")) check(rank.at("breakdown"));
}

TEST(JsonReportTest, MemoryClassesAddUpToThePeak) {
  const ordered_json json = ToJson(testing::TinyReport());
  for (const ordered_json& rank : json.at("ranks")) {
    for (const auto& [pool, memory] : rank.at("memory").items()) {
      std::int64_t sum = 0;
      for (const auto& [name, bytes] : memory.at("classes").items()) {
        sum += bytes.get<std::int64_t>();
      }
      EXPECT_EQ(sum, memory.at("peak_bytes").get<std::int64_t>()) << pool;
    }
  }
}

TEST(JsonReportTest, InfeasiblePlansSayWhy) {
  Report report = testing::TinyReport();
  report.infeasible = Error{.code = ExitCode::kNo,
                            .message = "rank 3 needs more",
                            .rule = "gpu-memory",
                            .rank = 3,
                            .pool = "gpu",
                            .excess_bytes = 77};
  EXPECT_EQ(ToJson(report).at("infeasible"), ordered_json({{"rule", "gpu-memory"},
                                                           {"message", "rank 3 needs more"},
                                                           {"rank", 3},
                                                           {"pool", "gpu"},
                                                           {"bytes", 77}}));

  // An impossible plan has nothing to report but itself.
  Report impossible = testing::TinyReport();
  impossible.results.reset();
  impossible.plan_is_valid = false;
  impossible.requested_plan.set_tensor_parallel(3);
  impossible.requested_gpus = 8;
  impossible.infeasible = Error{.code = ExitCode::kNo, .message = "m", .rule = "gpus-divide"};
  const ordered_json json = ToJson(impossible);
  EXPECT_EQ(json.at("plan"), ordered_json({{"tensor_parallel", 3}, {"gpus", 8}}));
  EXPECT_EQ(json.at("infeasible"), ordered_json({{"rule", "gpus-divide"}, {"message", "m"}}));
  EXPECT_FALSE(json.contains("iteration_time_s"));
  const std::string text = ToText(impossible);
  EXPECT_NE(text.find("Infeasible  (gpus-divide) m"), std::string::npos) << text;
  EXPECT_NE(text.find("plan        8 GPUs, asked for: tensor_parallel: 3"), std::string::npos)
      << text;
}

TEST(ProtoJsonTest, NumbersStayNumbers) {
  Model model;
  model.set_name("x");
  model.set_layers(std::int64_t{1} << 40);
  model.set_tied_embeddings(true);
  model.mutable_recipe()->set_clip_norm(0.5);
  model.mutable_recipe()->set_precision(FP16);
  EXPECT_EQ(ToJson(model).dump(), R"({"name":"x","layers":1099511627776,"tied_embeddings":true,)"
                                  R"("recipe":{"precision":"FP16","clip_norm":0.5}})");
}

TEST(TextReportTest, FitsTheWidthAndSaysWhatWasSimulated) {
  const std::string text = ToText(testing::TinyReport());
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), kReportWidth) << line;
    EXPECT_TRUE(line.empty() || line.back() != ' ') << "'" << line << "'";
  }
  for (const char* part :
       {"model       tiny: llama, 125 K parameters, 2 layers",
        "cluster     desk: 2 nodes of 2 x Tiny GPU",
        "2 sequences x 16 = 32 tokens, from the parameter all-gather to the end of the optimizer",
        "iteration time        60.00 ns", "Where the time goes", "copies exposed", "bubble",
        "GPU memory of each rank", "Pinned host memory", "pcie", "Warning     a warning",
        "extrapolated", "10 of 2 ranks, which stand for all 4"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(TextReportTest, WhatIsFasterThanMemoryIsInCaches) {
  Report report = testing::TinyReport();
  const auto says = [&report] { return ToText(report).find("in caches") != std::string::npos; };
  EXPECT_FALSE(says());
  for (OperatorReport& x : report.results->operators) x.on_host = false;
  report.results->operators.push_back(
      {.op = OpCode::kAdd, .tasks = 1, .seconds = 1, .memory_bytes = 1});
  report.cluster.mutable_gpu()->set_memory_bytes_per_s(1);
  for (OperatorReport& x : report.results->operators) x.memory_bytes = x.seconds;
  EXPECT_FALSE(says());
  report.results->operators.back().memory_bytes *= 2;
  EXPECT_TRUE(says());
}

TEST(TextReportTest, ManyRanksAreCountedNotListed) {
  Report report = testing::TinyReport();
  report.results->ranks.resize(40, report.results->ranks[1]);
  EXPECT_NE(ToText(report, 8).find("... 32 more: --json"), std::string::npos);
}

}  // namespace
}  // namespace twinstep
