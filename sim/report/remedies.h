// What may help a plan that needs more memory than there is: options that it does not use yet.
//
//   report.infeasible = CheckMemoryLimits(report);
//   std::cout << Remedies(report);   // "--recompute full, a larger --tp or --pp; `twinstep rank
//   ..."
#pragma once

#include <string>

#include "sim/report/report.h"

namespace twinstep {

// Empty where memory is not what is short, or the plan itself is impossible.
std::string Remedies(const Report& report);

}  // namespace twinstep
