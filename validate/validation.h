// One graph simulated and run: the law that connects the project's two halves.
//
//   Result<Validation> done = Validate(input, &progress, &warnings);
//   std::cout << ComparisonText(done.value().comparison);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/report/progress.h"
#include "sim/result.h"
#include "traces/compare.h"
#include "traces/trace.pb.h"
#include "validate/validate_input.h"

namespace twinstep {

struct Validation {
  Trace simulated, executed;
  TraceComparison comparison;  // Of these, in this order.
  // Of the steps that were kept, in seconds, and which of them is `executed`: the middle one (of an
  // even number the shorter of the two).
  std::vector<double> step_s;
  std::int64_t chosen_step = 0;  // From 1, dropped ones counted.
};

// How many times Validate calls progress->Step().
std::size_t StepsOfValidation(const ValidateInput& input);

// Warnings are the training's and the cost model's. An Error of kNo where the plan does not run
// (memory), of kInternal where the executor stalls.
Result<Validation> Validate(const ValidateInput& input, Progress* progress,
                            std::vector<std::string>* warnings);

}  // namespace twinstep
