// One graph simulated and run: the law that connects the project's two halves.
//
//   Result<Validation> done = Validate(input, &progress, &warnings);
//   std::cout << ComparisonText(done.value().comparison);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/report/progress.h"
#include "sim/result.h"
#include "traces/compare.h"
#include "traces/trace.pb.h"
#include "validate/step_spread.h"
#include "validate/validate_input.h"

namespace twinstep {

// On the device: what the simulation says that the process takes, and what the driver says.
struct DeviceMemory {
  std::int64_t predicted_bytes = 0;  // Arenas, and what the profile says of all else.
  std::int64_t driver_bytes = 0;

  double Error() const;  // predicted / driver - 1
};

struct Validation {
  Trace simulated, executed;
  TraceComparison comparison;  // Of these, in this order; its verdicts are of all steps' medians.
  StepSpread spread;           // Of the steps that were kept.
  std::optional<DeviceMemory> device_memory;  // Of a backend with memory of its own.
  // Which of them is `executed`: the middle one by time (of an even number the shorter of the two).
  std::int64_t chosen_step = 0;  // From 1, dropped ones counted.
};

// How many times Validate calls progress->Step().
std::size_t StepsOfValidation(const ValidateInput& input);

// Warnings are the training's and the cost model's. An Error of kNo where the plan does not run
// (memory), of kInternal where the executor stalls.
Result<Validation> Validate(const ValidateInput& input, Progress* progress,
                            std::vector<std::string>* warnings);

}  // namespace twinstep
