#include "sim/evaluate/error_bar.h"

#include <algorithm>
#include <set>

#include "hw_specs/find_cluster.h"
#include "model_zoo/find_model.h"
#include "sim/evaluate/suites/find_suite.h"
#include "sim/format.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

// From the least to the most of what rows have.
struct Range {
  std::int64_t least = 0, most = 0;
  void Add(std::int64_t value) {
    least = most == 0 ? value : std::min(least, value);
    most = std::max(most, value);
  }
  bool Holds(std::int64_t value) const { return value >= least && value <= most; }
  std::string Text() const {
    return least == most ? Count(least) : StrCat(Count(least), " to ", Count(most));
  }
};

// What the rows of one suite on one cluster have in common.
struct Coverage {
  int rows = 0;
  Range gpus, sequence, hidden;
  std::set<Family> families;
  std::set<std::string> frameworks;
};

Coverage CoverageOf(const Suite& suite, const std::string& cluster) {
  Coverage coverage;
  for (const Row& row : suite.rows()) {
    if (row.model().empty() || !row.outlier().empty()) continue;
    if ((row.cluster().empty() ? suite.cluster() : row.cluster()) != cluster) continue;
    const Result<Model> model = FindModel(row.model());
    if (!model.ok()) continue;
    ++coverage.rows;
    Plan plan = suite.plan();
    plan.MergeFrom(row.plan());
    coverage.gpus.Add(row.gpus());
    coverage.sequence.Add(plan.sequence_length() > 0 ? plan.sequence_length()
                                                     : model.value().max_sequence_length());
    coverage.hidden.Add(model.value().hidden_size());
    coverage.families.insert(model.value().family());
    coverage.frameworks.insert(row.framework().empty() ? suite.framework() : row.framework());
  }
  return coverage;
}

std::string NameOrNone(const std::string& name) { return name.empty() ? "none" : name; }

std::vector<std::string> Beyond(const Coverage& coverage, const Simulated& simulated) {
  std::vector<std::string> beyond;
  const auto check = [&](const Range& range, std::int64_t value, const char* what) {
    if (range.Holds(value)) return;
    beyond.push_back(StrCat(Count(value), " ", what, " (runs: ", range.Text(), ")"));
  };
  check(coverage.gpus, simulated.plan.gpus, "GPUs");
  check(coverage.sequence, simulated.plan.sequence_length, "positions");
  check(coverage.hidden, simulated.model.hidden_size(), "hidden size");
  if (coverage.families.count(simulated.model.family()) == 0) {
    beyond.push_back("another family of models");
  }
  if (coverage.frameworks.count(simulated.framework) == 0) {
    std::string runs;
    for (const std::string& framework : coverage.frameworks) {
      runs += StrCat(runs.empty() ? "" : ", ", NameOrNone(framework));
    }
    beyond.push_back(StrCat("framework ", NameOrNone(simulated.framework), " (runs: ", runs, ")"));
  }
  const Result<Cluster> own = FindCluster(simulated.cluster.name());
  if (!own.ok() || own.value().SerializeAsString() != simulated.cluster.SerializeAsString()) {
    beyond.push_back("changed constants of the cluster");
  }
  if (!simulated.profile.empty()) beyond.push_back("a profile's costs");
  return beyond;
}

}  // namespace

std::vector<ErrorBar> ErrorBarsOf(const Simulated& simulated) {
  std::vector<ErrorBar> bars;
  for (const std::string& name : ListSuites()) {
    const Result<Suite> suite = FindSuite(name);
    if (!suite.ok()) continue;
    const Coverage coverage = CoverageOf(suite.value(), simulated.cluster.name());
    if (coverage.rows == 0) continue;
    for (const Limit& limit : suite.value().recorded()) {
      if (limit.quantity() != TIME) continue;
      bars.push_back({.suite = name,
                      .rows = coverage.rows,
                      .median = limit.median(),
                      .worst = limit.worst(),
                      .beyond = Beyond(coverage, simulated)});
    }
  }
  return bars;
}

}  // namespace twinstep
