#include "sim/evaluate/cross_validate.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "sim/format.h"
#include "sim/parallel.h"
#include "sim/report/text_table.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

constexpr int kSweeps = 6;        // Over all constants.
constexpr int kGoldenSteps = 24;  // Narrow a constant's range to 1e-5 of it.
constexpr double kGolden = 0.6180339887498949;
constexpr int kMostConstants = 4;
// Values of each of so many constants that rows are simulated at.
constexpr std::size_t kNodes[kMostConstants + 1] = {0, 9, 5, 3, 3};

using Values = std::vector<double>;  // Of the constants; empty: the cluster's own.

// Predicted times, [row][point].
using Times = std::vector<std::vector<double>>;

class Fitter {
 public:
  Fitter(const Suite& suite, const EvaluateOptions& options)
      : suite_(suite),
        options_(options),
        nodes_(kNodes[std::min(suite.fitted_size(), kMostConstants)]) {
    for (const Row& row : suite.rows()) {
      const bool has_time = row.iteration_s() > 0 || row.tokens_per_s() > 0 ||
                            row.flops_per_s() > 0 || row.seconds() > 0 || row.bus_bytes_per_s() > 0;
      if (row.outlier().empty() && has_time) rows_.push_back(&row);
    }
  }

  std::size_t row_count() const { return rows_.size(); }
  const std::vector<double>& measured_s() const { return measured_s_; }

  // Simulates every row at each of `points`.
  Result<Times> Simulate(const std::vector<Values>& points) {
    Times times(rows_.size(), std::vector<double>(points.size()));
    measured_s_.resize(rows_.size());
    const Status done =
        ForEachInParallel(rows_.size(), options_.jobs, [&](std::size_t i) -> Status {
          const Result<PreparedRow> plain = PrepareRow(suite_, *rows_[i], options_.sets);
          if (!plain.ok()) return plain.error();
          measured_s_[i] = plain.value().measured.Of(TIME);
          const Result<TaskGraph> graph = LowerRow(plain.value());
          if (!graph.ok()) return graph.error();
          for (std::size_t p = 0; p < points.size(); ++p) {
            const Result<PreparedRow> row = PrepareRow(suite_, *rows_[i], SetsOf(points[p]));
            if (!row.ok()) return row.error();
            const Result<Quantities> predicted = PredictRow(row.value(), graph.value());
            if (!predicted.ok()) return predicted.error();
            times[i][p] = predicted.value().Of(TIME);
          }
          return Unit{};
        });
    if (!done.ok()) return done.error();
    return times;
  }

  // Simulates what Fit interpolates.
  Status Tabulate() {
    std::vector<Values> points(1);
    for (const Fitted& fitted : suite_.fitted()) {
      std::vector<Values> more;
      for (std::size_t node = 0; node < nodes_; ++node) {
        for (Values point : points) {
          point.push_back(1 / NodeOf(fitted, node));
          more.push_back(std::move(point));
        }
      }
      points = std::move(more);
    }
    Result<Times> times = Simulate(points);
    if (!times.ok()) return times.error();
    table_ = std::move(times).value();
    return Unit{};
  }

  Values Fit(const std::vector<std::size_t>& rows) const {
    Values values;
    for (const Fitted& fitted : suite_.fitted()) {
      values.push_back(std::sqrt(fitted.least() * fitted.most()));
    }
    const int sweeps = values.size() > 1 ? kSweeps : 1;
    for (int sweep = 0; sweep < sweeps; ++sweep) {
      for (std::size_t i = 0; i < values.size(); ++i) FitOne(rows, i, &values);
    }
    return values;
  }

 private:
  std::vector<FieldValues> SetsOf(const Values& values) const {
    std::vector<FieldValues> sets = options_.sets;
    for (std::size_t i = 0; i < values.size(); ++i) {
      sets.push_back({suite_.fitted(static_cast<int>(i)).field(), {StrCat(values[i])}});
    }
    return sets;
  }

  // Times are nearly linear in the reciprocal of a rate or an efficiency: nodes are even in it.
  double NodeOf(const Fitted& fitted, std::size_t node) const {
    const double share = static_cast<double>(node) / static_cast<double>(nodes_ - 1);
    return (1 - share) / fitted.most() + share / fitted.least();
  }

  // Weights of a constant's nodes: of the two beside the value.
  std::vector<double> WeightsOf(const Fitted& fitted, double value) const {
    const double first = NodeOf(fitted, 0), step = NodeOf(fitted, 1) - first;
    const double at = std::clamp((1 / value - first) / step, 0.0, static_cast<double>(nodes_ - 1));
    const std::size_t below = std::min(static_cast<std::size_t>(at), nodes_ - 2);
    std::vector<double> weights(nodes_, 0.0);
    weights[below + 1] = at - static_cast<double>(below);
    weights[below] = 1 - weights[below + 1];
    return weights;
  }

  // Weights of the table's points, in its order.
  std::vector<double> PointWeights(const Values& values) const {
    std::vector<double> weights(1, 1.0);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto of_nodes = WeightsOf(suite_.fitted(static_cast<int>(i)), values[i]);
      std::vector<double> more;
      for (const double of_node : of_nodes) {
        for (const double weight : weights) more.push_back(weight * of_node);
      }
      weights = std::move(more);
    }
    return weights;
  }

  double Loss(const std::vector<std::size_t>& rows, const Values& values) const {
    const std::vector<double> weights = PointWeights(values);
    double sum = 0;
    for (const std::size_t row : rows) {
      const double time_s =
          std::inner_product(weights.begin(), weights.end(), table_[row].begin(), 0.0);
      sum += std::abs(std::log(time_s / measured_s_[row]));
    }
    return sum;
  }

  // Golden-section search along constant `index`, on a logarithmic scale.
  void FitOne(const std::vector<std::size_t>& rows, std::size_t index, Values* values) const {
    const Fitted& fitted = suite_.fitted(static_cast<int>(index));
    double low = std::log(fitted.least()), high = std::log(fitted.most());
    const auto loss_at = [&](double x) {
      (*values)[index] = std::exp(x);
      return Loss(rows, *values);
    };
    double left = high - kGolden * (high - low), right = low + kGolden * (high - low);
    double at_left = loss_at(left), at_right = loss_at(right);
    for (int step = 0; step < kGoldenSteps; ++step) {
      if (at_left < at_right) {
        high = right;
        right = left;
        at_right = at_left;
        left = high - kGolden * (high - low);
        at_left = loss_at(left);
      } else {
        low = left;
        left = right;
        at_left = at_right;
        right = low + kGolden * (high - low);
        at_right = loss_at(right);
      }
    }
    (*values)[index] = std::exp(0.5 * (low + high));
  }

  const Suite& suite_;
  const EvaluateOptions& options_;
  const std::size_t nodes_;
  std::vector<const Row*> rows_;  // That count and have a time.
  std::vector<double> measured_s_;
  Times table_;
};

std::string ValuesText(const Suite& suite, const std::vector<double>& values) {
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i) {
    text += StrCat(i > 0 ? ", " : "", suite.fitted(static_cast<int>(i)).field(), " = ", values[i]);
  }
  return text;
}

}  // namespace

double CrossValidation::HeldOutError() const {
  // Each half is judged under the other's constants; the halves differ by one row at most.
  return 0.5 * (halves[0].held_out_error + halves[1].held_out_error);
}

Result<CrossValidation> CrossValidate(const Suite& suite, const EvaluateOptions& options) {
  Fitter fitter(suite, options);
  if (suite.fitted().empty() || suite.fitted_size() > kMostConstants || fitter.row_count() < 4) {
    return Error{.message = StrCat("suite ", suite.name(), ": --cross-validate needs one to ",
                                   kMostConstants, " fitted constants and four rows")};
  }
  if (const Status done = fitter.Tabulate(); !done.ok()) return done.error();
  std::vector<std::size_t> all, halves[2];
  for (std::size_t i = 0; i < fitter.row_count(); ++i) {
    all.push_back(i);
    halves[i % 2].push_back(i);
  }
  CrossValidation validation;
  validation.suite = &suite;
  validation.all.values = fitter.Fit(all);
  for (int half = 0; half < 2; ++half) validation.halves[half].values = fitter.Fit(halves[half]);
  // What counts is simulated.
  const Result<Times> times = fitter.Simulate(
      {{}, validation.all.values, validation.halves[0].values, validation.halves[1].values});
  if (!times.ok()) return times.error();
  const auto error_of = [&](const std::vector<std::size_t>& rows, std::size_t point) {
    std::vector<Pair> pairs;
    for (const std::size_t row : rows) {
      pairs.push_back({times.value()[row][point], fitter.measured_s()[row]});
    }
    return Summarize(pairs).mean;
  };
  validation.recorded_error = error_of(all, 0);
  validation.all.mean_error = validation.all.held_out_error = error_of(all, 1);
  for (std::size_t half = 0; half < 2; ++half) {
    validation.halves[half].mean_error = error_of(halves[half], 2 + half);
    validation.halves[half].held_out_error = error_of(halves[1 - half], 2 + half);
  }
  return validation;
}

std::string ToText(const CrossValidation& validation) {
  TextTable table({"fitted to", "mean error % of them", "of the others", "constants"});
  table.AlignLeft(3);
  const auto add = [&](const char* rows, const FittedConstants& fit, bool held_out) {
    table.AddRow({rows, Fixed(100 * fit.mean_error, 2),
                  held_out ? Fixed(100 * fit.held_out_error, 2) : "",
                  ValuesText(*validation.suite, fit.values)});
  };
  add("all rows", validation.all, false);
  add("rows 1, 3, 5 ...", validation.halves[0], true);
  add("rows 2, 4, 6 ...", validation.halves[1], true);
  return StrCat("Cross-validation of ", validation.suite->name(), ": mean error ",
                Percent(validation.HeldOutError()), " on rows held out, ",
                Percent(validation.all.mean_error), " fitted to all, ",
                Percent(validation.recorded_error), " with the cluster's own constants\n",
                table.ToString());
}

nlohmann::ordered_json ToJson(const CrossValidation& validation) {
  nlohmann::ordered_json json = {{"suite", validation.suite->name()},
                                 {"recorded_mean_error", validation.recorded_error},
                                 {"fitted_mean_error", validation.all.mean_error},
                                 {"held_out_mean_error", validation.HeldOutError()}};
  for (std::size_t i = 0; i < validation.all.values.size(); ++i) {
    json["constants"][validation.suite->fitted(static_cast<int>(i)).field()] =
        validation.all.values[i];
  }
  return json;
}

}  // namespace twinstep
