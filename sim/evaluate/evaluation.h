// Suites, predicted and compared with what was measured, beside a null model.
//
//   Result<std::vector<Evaluation>> done = Evaluate(suites, {.jobs = 2});
//   for (const QuantitySummary& s : done.value()[0].summaries) std::cout << s.model.median;
//   const Suite& suite = *done.value()[0].suite;
//   bool worse = !Violations(done.value()[0], suite.recorded(), kRecordedPrecision).empty();
//
// The null model has one constant a suite, fitted to all of its rows: the fraction of the peak
// (floating-point operations, or the link's bytes) that every row reaches; no communication, no
// bubble. It is fitted to the very rows that it is judged on.
#pragma once

#include <google/protobuf/repeated_field.h>

#include <string>
#include <vector>

#include "sim/evaluate/predict_row.h"
#include "sim/evaluate/statistics.h"
#include "sim/evaluate/suites/suite.pb.h"
#include "sim/result.h"

namespace twinstep {

// Measured times that differ by less count as equal when the order of rows is compared.
inline constexpr double kDistinctTimes = 0.02;

struct EvaluatedRow {
  const Row* row = nullptr;
  std::string cluster;
  Quantities measured, predicted;  // Where measured is 0, predicted says nothing.
  double null_time_s = 0;
  double time_unit = 1;
  bool counts() const { return row->outlier().empty(); }
};

struct QuantitySummary {
  Quantity quantity = QUANTITY_UNSPECIFIED;
  ErrorSummary model, null;  // The null model knows times only.
  // Inside a model's rows (TIME only): the least rank correlation over the models with three or
  // more distinct rows, and pairs in order. NaN and 0 where there are none.
  double spearman = 0, null_spearman = 0;
  PairOrder order, null_order;
};

struct Evaluation {
  const Suite* suite = nullptr;
  std::vector<EvaluatedRow> rows;
  std::vector<QuantitySummary> summaries;  // Of what was measured.
};

struct EvaluateOptions {
  int jobs = 1;                   // Threads over rows; the result does not depend on it.
  std::vector<FieldValues> sets;  // Changes of all clusters.
};

// The suites must outlive the result.
Result<std::vector<Evaluation>> Evaluate(const std::vector<Suite>& suites,
                                         const EvaluateOptions& options);

// Suites record errors as they are shown, rounded to 0.1 %: the figures may be that much above.
inline constexpr double kRecordedPrecision = 0.0005;

// What is worse than the limits, one sentence each: "median time error 5.1 %, limit 4.0 %". Errors
// may be above a limit by `precision`.
std::vector<std::string> Violations(const Evaluation& evaluation,
                                    const google::protobuf::RepeatedPtrField<Limit>& limits,
                                    double precision = 0);

// "time", "memory", ...
const char* Label(Quantity quantity);

}  // namespace twinstep
