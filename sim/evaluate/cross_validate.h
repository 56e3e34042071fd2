// Do a suite's constants hold on rows that they were not chosen with? The constants that the suite
// names as fitted are fitted again on each half of its rows and judged on the other half.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/evaluate/evaluation.h"
#include "sim/evaluate/suites/suite.pb.h"
#include "sim/result.h"

namespace twinstep {

struct FittedConstants {
  std::vector<double> values;  // In the order of Suite::fitted.
  double mean_error = 0;       // Of times: of the rows that they were fitted to ...
  double held_out_error = 0;   // ... and of the other half; of all rows' fit: the same.
};

struct CrossValidation {
  const Suite* suite = nullptr;
  double recorded_error = 0;  // With the constants of the cluster's file.
  FittedConstants all;
  FittedConstants halves[2];  // Fitted to rows 0, 2, 4 ... and to rows 1, 3, 5 ...
  // Mean error of all rows, each under the constants that it had no part in.
  double HeldOutError() const;
};

// Deterministic. Each row is lowered once and simulated on a grid over the constants (9 points for
// one, 25 for two, 27 for three, 81 for four); in between its time is interpolated in their
// reciprocals, and coordinate descent with golden-section steps finds the least mean
// |log(predicted / measured)|. Errors are of times simulated anew. The suite must have one to four
// `fitted` constants and four rows that count.
Result<CrossValidation> CrossValidate(const Suite& suite, const EvaluateOptions& options);

std::string ToText(const CrossValidation& validation);
nlohmann::ordered_json ToJson(const CrossValidation& validation);

}  // namespace twinstep
