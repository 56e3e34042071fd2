#include "sim/evaluate/cross_validate.h"

#include <cmath>
#include <functional>

#include "sim/format.h"
#include "sim/parallel.h"
#include "sim/report/text_table.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

constexpr int kSweeps = 2;       // Over all constants.
constexpr int kGoldenSteps = 8;  // Narrow a constant's range to a fiftieth.
constexpr double kGolden = 0.6180339887498949;

class Fitter {
 public:
  Fitter(const Suite& suite, const EvaluateOptions& options) : suite_(suite), options_(options) {
    for (int i = 0; i < suite.rows_size(); ++i) {
      const Row& row = suite.rows(i);
      const bool has_time = row.iteration_s() > 0 || row.tokens_per_s() > 0 ||
                            row.flops_per_s() > 0 || row.seconds() > 0 || row.bus_bytes_per_s() > 0;
      if (row.outlier().empty() && has_time) rows_.push_back(i);
    }
  }

  std::size_t row_count() const { return rows_.size(); }

  // Times of the rows with these constants (none: the cluster's own).
  Result<std::vector<Pair>> Times(const std::vector<std::size_t>& rows,
                                  const std::vector<double>& values) const {
    std::vector<FieldValues> sets = options_.sets;
    for (std::size_t i = 0; i < values.size(); ++i) {
      sets.push_back({suite_.fitted(static_cast<int>(i)).field(), {StrCat(values[i])}});
    }
    std::vector<Pair> pairs(rows.size());
    const Status done = ForEachInParallel(rows.size(), options_.jobs, [&](std::size_t i) -> Status {
      const Result<PreparedRow> row = PrepareRow(suite_, suite_.rows(rows_[rows[i]]), sets);
      if (!row.ok()) return row.error();
      const Result<Quantities> predicted = PredictRow(row.value());
      if (!predicted.ok()) return predicted.error();
      pairs[i] = {predicted.value().Of(TIME), row.value().measured.Of(TIME)};
      return Unit{};
    });
    if (!done.ok()) return done.error();
    return pairs;
  }

  Result<std::vector<double>> Fit(const std::vector<std::size_t>& rows) const {
    std::vector<double> values;
    for (const Fitted& fitted : suite_.fitted()) {
      values.push_back(std::sqrt(fitted.least() * fitted.most()));
    }
    const int sweeps = values.size() > 1 ? kSweeps : 1;
    for (int sweep = 0; sweep < sweeps; ++sweep) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (const Status done = FitOne(rows, i, &values); !done.ok()) return done.error();
      }
    }
    return values;
  }

 private:
  Result<double> Loss(const std::vector<std::size_t>& rows,
                      const std::vector<double>& values) const {
    const Result<std::vector<Pair>> times = Times(rows, values);
    if (!times.ok()) return times.error();
    double sum = 0;
    for (const Pair& pair : times.value())
      sum += std::abs(std::log(pair.predicted / pair.measured));
    return sum / static_cast<double>(times.value().size());
  }

  // Golden-section search along constant `index`, on a logarithmic scale.
  Status FitOne(const std::vector<std::size_t>& rows, std::size_t index,
                std::vector<double>* values) const {
    const Fitted& fitted = suite_.fitted(static_cast<int>(index));
    double low = std::log(fitted.least()), high = std::log(fitted.most());
    const auto loss_at = [&](double x) {
      (*values)[index] = std::exp(x);
      return Loss(rows, *values);
    };
    double left = high - kGolden * (high - low), right = low + kGolden * (high - low);
    Result<double> at_left = loss_at(left), at_right = loss_at(right);
    for (int step = 0; step < kGoldenSteps; ++step) {
      if (!at_left.ok()) return at_left.error();
      if (!at_right.ok()) return at_right.error();
      if (at_left.value() < at_right.value()) {
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
    return Unit{};
  }

  const Suite& suite_;
  const EvaluateOptions& options_;
  std::vector<int> rows_;  // That count and have a time.
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
  const Fitter fitter(suite, options);
  if (suite.fitted().empty() || fitter.row_count() < 4) {
    return Error{.message = StrCat("suite ", suite.name(),
                                   ": --cross-validate needs fitted constants and four rows")};
  }
  CrossValidation validation;
  validation.suite = &suite;
  std::vector<std::size_t> all, halves[2];
  for (std::size_t i = 0; i < fitter.row_count(); ++i) {
    all.push_back(i);
    halves[i % 2].push_back(i);
  }
  const auto error_of = [&](const std::vector<std::size_t>& rows,
                            const std::vector<double>& values) -> Result<double> {
    const Result<std::vector<Pair>> times = fitter.Times(rows, values);
    if (!times.ok()) return times.error();
    return Summarize(times.value()).mean;
  };
  const Result<double> recorded = error_of(all, {});
  if (!recorded.ok()) return recorded.error();
  validation.recorded_error = recorded.value();
  const auto fit = [&](const std::vector<std::size_t>& on, const std::vector<std::size_t>& judged,
                       FittedConstants* constants) -> Status {
    Result<std::vector<double>> values = fitter.Fit(on);
    if (!values.ok()) return values.error();
    constants->values = std::move(values).value();
    const Result<double> own = error_of(on, constants->values);
    const Result<double> other = error_of(judged, constants->values);
    if (!own.ok()) return own.error();
    if (!other.ok()) return other.error();
    constants->mean_error = own.value();
    constants->held_out_error = other.value();
    return Unit{};
  };
  for (const Status& status :
       {fit(all, all, &validation.all), fit(halves[0], halves[1], &validation.halves[0]),
        fit(halves[1], halves[0], &validation.halves[1])}) {
    if (!status.ok()) return status.error();
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
