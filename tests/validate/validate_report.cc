// Ten plans of two model families, profiled and validated on this machine: how far is the
// simulation off? Reported, not judged: other work on the machine shows.
//
//   bazel run //tests/validate:validate_report -- [SECONDS]
//
// What else runs on the machine is kept off by real-time priority:
//
//   chrt -f 5 bazel-bin/tests/validate/validate_report
//
// SECONDS (default 10) is what profiling takes for each model; validations run 20 steps each.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "exec/profile/profile_command.h"
#include "sim/format.h"
#include "sim/report/text_table.h"
#include "validate/validate_command.h"

namespace twinstep {
namespace {

constexpr int kSteps = 20;

struct PlanCase {
  const char* name;
  const char* text;  // Of the plan's file, besides batch and micro-batch.
};

struct ModelCase {
  const char* model;
  std::vector<std::string>
      settings;  // Of the tiny model, larger: tasks of tens of microseconds up.
  std::vector<PlanCase> plans;
};

const std::vector<ModelCase>& Cases() {
  static const std::vector<std::string> kLarger = {"hidden_size=128", "ffn_hidden_size=352"};
  static const std::vector<ModelCase> kCases = {
      {"tiny-llama",
       kLarger,
       {{"plain", ""},
        {"t 2", "tensor_parallel: 2"},
        {"c 2", "context_parallel: 2"},
        {"p 2, full", "pipeline_parallel: 2 recompute: RECOMPUTE_FULL"},
        {"t 2, p 2, balanced",
         "tensor_parallel: 2 pipeline_parallel: 2 recompute: RECOMPUTE_BALANCED"}}},
      {"tiny-gpt",
       kLarger,
       {{"p 2, v 2, offload 0.5", "pipeline_parallel: 2 virtual_stages: 2 offload_ratio: 0.5"},
        {"d 2, ZeRO 1", "data_parallel: 2 zero_stage: 1"},
        {"d 2, ZeRO 3", "data_parallel: 2 zero_stage: 3"},
        {"t 2, d 2, ZeRO 2", "tensor_parallel: 2 data_parallel: 2 zero_stage: 2"},
        {"c 2, p 2", "context_parallel: 2 pipeline_parallel: 2"}}}};
  return kCases;
}

struct Row {
  std::string model, plan;
  nlohmann::json json;

  double Number(const char* pair, const char* side) const {
    return json.at(pair).at(side).get<double>();
  }
  double Error() const { return Number("iteration", "error"); }
  double FastestStep() const {
    const auto steps = json.at("step_s").get<std::vector<double>>();
    return *std::min_element(steps.begin(), steps.end());
  }
  // Of the busy time of computation, the median of all steps.
  double ComputeError() const {
    for (const auto& kind : json.at("all_steps").at("kinds")) {
      if (kind.at("name") == "compute") return kind.at("error").get<double>();
    }
    return 0;
  }
  std::int64_t NotMeasured() const {
    std::int64_t tasks = 0;
    for (const auto& kind : json.at("kinds")) {
      for (const char* evidence : {"extrapolated", "modelled"}) {
        tasks += kind.at("evidence").at(evidence).get<std::int64_t>();
      }
    }
    return tasks;
  }
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

std::string SignedPercent(double fraction) { return (fraction > 0 ? "+" : "") + Percent(fraction); }

class Report {
 public:
  Report(std::filesystem::path folder, std::string seconds)
      : folder_(std::move(folder)), seconds_(std::move(seconds)) {
    std::ofstream data(File("text"));
    for (int i = 0; i < 4000; ++i) data << "line " << i * i << " of the text.\n";
  }

  bool Run() {
    for (const ModelCase& model : Cases()) {
      if (!RunModel(model)) return false;
    }
    Print();
    return true;
  }

 private:
  std::string File(const std::string& name) const { return (folder_ / name).string(); }

  bool RunModel(const ModelCase& model) {
    std::vector<std::string> common = {"--model", model.model};
    for (const std::string& setting : model.settings) {
      common.insert(common.end(), {"--set", setting});
    }
    const std::string profile = File(std::string(model.model) + ".textproto");
    std::vector<std::string> arguments = common;
    arguments.insert(arguments.end(), {"--output", profile, "--seconds", seconds_});
    for (const PlanCase& plan : model.plans) {
      arguments.insert(arguments.end(), {"--plan", WritePlan(plan)});
    }
    std::cerr << "profiling " << model.model << "\n";
    if (RunProfileCommand(arguments, std::cerr, std::cerr) != ExitCode::kDone) return false;
    for (const PlanCase& plan : model.plans) {
      std::cerr << "validating " << model.model << ": " << plan.name << "\n";
      arguments = common;
      arguments.insert(arguments.end(),
                       {"--plan", WritePlan(plan), "--profile", profile, "--data", File("text"),
                        "--steps", std::to_string(kSteps), "--json", "-"});
      std::ostringstream out;
      if (RunValidateCommand(arguments, out, std::cerr) != ExitCode::kDone) return false;
      rows_.push_back({model.model, plan.name, nlohmann::json::parse(out.str())});
    }
    return true;
  }

  std::string WritePlan(const PlanCase& plan) const {
    const std::string path = File("plan-" + std::string(plan.name) + ".textproto");
    std::ofstream file(path);
    file << "global_batch: 8 micro_batch: 2 " << plan.text << "\n";
    return path;
  }

  void Print() const {
    TextTable table(
        {"model", "plan", "simulated", "executed", "error", "fastest", "computes", "unmeasured"});
    table.AlignLeft(1);
    const auto ms = [](double seconds) { return Fixed(1e3 * seconds, 2); };
    std::vector<double> errors, fastest;
    for (const Row& row : rows_) {
      const double simulated_s = row.Number("iteration", "a_s");
      errors.push_back(std::abs(row.Error()));
      fastest.push_back(std::abs(simulated_s / row.FastestStep() - 1));
      table.AddRow({row.model, row.plan, ms(simulated_s), ms(row.Number("iteration", "b_s")),
                    SignedPercent(row.Error()), ms(row.FastestStep()),
                    SignedPercent(row.ComputeError()), Count(row.NotMeasured())});
    }
    std::cout << "Iterations in ms: simulated from a profile, executed (median of " << kSteps - 2
              << " steps); busy time of computation;\ntasks whose time was not measured\n"
              << table.ToString() << "\n  median error " << Percent(Median(errors)) << ", worst "
              << Percent(*std::max_element(errors.begin(), errors.end()))
              << "; against each plan's fastest step: median " << Percent(Median(fastest)) << "\n";
  }

  const std::filesystem::path folder_;
  const std::string seconds_;
  std::vector<Row> rows_;
};

}  // namespace
}  // namespace twinstep

int main(int argc, char** argv) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() /
                                       ("twinstep_validate_report." + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const bool done = twinstep::Report(folder, argc > 1 ? argv[1] : "10").Run();
  std::filesystem::remove_all(folder);
  return done ? 0 : 1;
}
