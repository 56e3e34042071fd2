#include "sim/evaluate/evaluation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "sim/format.h"
#include "sim/parallel.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr Quantity kQuantities[] = {TIME, FORWARD, BACKWARD, OPTIMIZER, MEMORY};

// Fits the null model's constant: the geometric mean of what rows reach of the peak.
void AddNullModel(const std::vector<double>& work_at_peak_s, std::vector<EvaluatedRow>* rows) {
  double log_sum = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < rows->size(); ++i) {
    const EvaluatedRow& row = (*rows)[i];
    if (!row.counts() || row.measured.Of(TIME) <= 0) continue;
    log_sum += std::log(work_at_peak_s[i] / row.measured.Of(TIME));
    ++count;
  }
  if (count == 0) return;
  const double reached = std::exp(log_sum / static_cast<double>(count));
  for (std::size_t i = 0; i < rows->size(); ++i) {
    (*rows)[i].null_time_s = work_at_peak_s[i] / reached;
  }
}

// Adds how well times rank inside each model's rows.
void AddRanks(const std::vector<EvaluatedRow>& rows, QuantitySummary* summary) {
  std::map<std::string, std::vector<Pair>> model_groups, null_groups;
  for (const EvaluatedRow& row : rows) {
    if (!row.counts() || row.row->model().empty() || row.measured.Of(TIME) <= 0) continue;
    const double measured = row.measured.Of(TIME) / row.time_unit;
    const std::string& group = row.row->model();
    model_groups[group].push_back({row.predicted.Of(TIME) / row.time_unit, measured});
    null_groups[group].push_back({row.null_time_s / row.time_unit, measured});
  }
  const auto add = [](const std::map<std::string, std::vector<Pair>>& groups, double* spearman,
                      PairOrder* order) {
    *spearman = kNan;
    for (const auto& [model, pairs] : groups) {
      const PairOrder of_group = CountOrder(pairs, kDistinctTimes);
      order->right += of_group.right;
      order->total += of_group.total;
      if (of_group.total < 3) continue;
      const double rank = Spearman(pairs);
      if (std::isnan(rank)) continue;
      *spearman = std::isnan(*spearman) ? rank : std::min(*spearman, rank);
    }
  };
  add(model_groups, &summary->spearman, &summary->order);
  add(null_groups, &summary->null_spearman, &summary->null_order);
}

std::vector<QuantitySummary> SummarizeRows(const std::vector<EvaluatedRow>& rows) {
  std::vector<QuantitySummary> summaries;
  for (const Quantity quantity : kQuantities) {
    std::vector<Pair> model, null;
    for (const EvaluatedRow& row : rows) {
      const double measured = row.measured.Of(quantity);
      if (!row.counts() || measured <= 0) continue;
      model.push_back({row.predicted.Of(quantity), measured});
      if (quantity == TIME) null.push_back({row.null_time_s, measured});
    }
    if (model.empty()) continue;
    QuantitySummary summary = {.quantity = quantity,
                               .model = Summarize(model),
                               .null = Summarize(null),
                               .spearman = kNan,
                               .null_spearman = kNan,
                               .order = {},
                               .null_order = {}};
    if (quantity == TIME) AddRanks(rows, &summary);
    summaries.push_back(summary);
  }
  return summaries;
}

}  // namespace

const char* Label(Quantity quantity) {
  switch (quantity) {
    case TIME:
      return "time";
    case MEMORY:
      return "memory";
    case FORWARD:
      return "forward";
    case BACKWARD:
      return "backward";
    case OPTIMIZER:
      return "optimizer";
    default:
      return "nothing";
  }
}

Result<std::vector<Evaluation>> Evaluate(const std::vector<Suite>& suites,
                                         const EvaluateOptions& options) {
  std::vector<Evaluation> evaluations;
  std::vector<std::vector<double>> work;
  std::vector<std::pair<std::size_t, std::size_t>> places;  // Suite and row of each piece of work.
  for (std::size_t i = 0; i < suites.size(); ++i) {
    const auto rows = static_cast<std::size_t>(suites[i].rows_size());
    evaluations.emplace_back();
    evaluations.back().suite = &suites[i];
    evaluations.back().rows.resize(rows);
    work.emplace_back(rows);
    for (std::size_t row = 0; row < rows; ++row) places.emplace_back(i, row);
  }
  const Status done = ForEachInParallel(places.size(), options.jobs, [&](std::size_t i) -> Status {
    const auto [suite, index] = places[i];
    const Row& row = suites[suite].rows(static_cast<int>(index));
    const Result<PreparedRow> prepared = PrepareRow(suites[suite], row, options.sets);
    if (!prepared.ok()) return prepared.error();
    const Result<Quantities> predicted = PredictRow(prepared.value());
    if (!predicted.ok()) return predicted.error();
    work[suite][index] = prepared.value().work_at_peak_s;
    evaluations[suite].rows[index] = {.row = &row,
                                      .cluster = prepared.value().cluster.name(),
                                      .measured = prepared.value().measured,
                                      .predicted = predicted.value(),
                                      .null_time_s = 0,
                                      .time_unit = prepared.value().time_unit};
    return Unit{};
  });
  if (!done.ok()) return done.error();
  for (std::size_t i = 0; i < suites.size(); ++i) {
    AddNullModel(work[i], &evaluations[i].rows);
    evaluations[i].summaries = SummarizeRows(evaluations[i].rows);
  }
  return evaluations;
}

std::vector<std::string> Violations(const Evaluation& evaluation,
                                    const google::protobuf::RepeatedPtrField<Limit>& limits,
                                    double precision) {
  std::vector<std::string> violations;
  for (const Limit& limit : limits) {
    for (const QuantitySummary& summary : evaluation.summaries) {
      if (summary.quantity != limit.quantity()) continue;
      const auto most = [&](const char* what, double value, double bound) {
        if (bound > 0 && value > bound + precision) {
          violations.push_back(StrCat(what, " ", Label(limit.quantity()), " error ", Percent(value),
                                      ", limit ", Percent(bound)));
        }
      };
      most("median", summary.model.median, limit.median());
      most("worst", summary.model.worst, limit.worst());
      most("mean", summary.model.mean, limit.mean());
      if (limit.spearman() > 0 && !(summary.spearman >= limit.spearman())) {
        violations.push_back(StrCat("rank correlation ", Fixed(summary.spearman, 3),
                                    " inside a model, limit ", Fixed(limit.spearman(), 3)));
      }
      const auto pairs = static_cast<double>(summary.order.total);
      if (limit.order() > 0 && static_cast<double>(summary.order.right) < limit.order() * pairs) {
        violations.push_back(StrCat(summary.order.right, " of ", summary.order.total,
                                    " pairs in order, limit ", Percent(limit.order())));
      }
    }
  }
  return violations;
}

}  // namespace twinstep
