// Whether the numbers of a plan file can be those of a plan at all; what they mean together is for
// ResolvePlan to say, which knows the model and the cluster.
#pragma once

#include "sim/plan/plan.pb.h"
#include "sim/result.h"
#include "sim/textproto/text_source.h"

namespace twinstep {

// All problems, one a line: `file:line:column: field: problem`.
Status ValidatePlan(const Plan& plan, const TextSource& source);

}  // namespace twinstep
