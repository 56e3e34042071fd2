// Who waits for what when an iteration makes no progress.
#pragma once

#include "exec/runtime/backend.h"
#include "exec/runtime/program.h"
#include "sim/result.h"

namespace twinstep {

// Names what holds the others up: tasks that are not done although all that they wait for is, by
// rank and lane; of a rendezvous the members that have not come. kInternal, rule "stall", rank of
// the first such task.
Error StallError(const Program& program, const Backend& backend, double stalled_s);

}  // namespace twinstep
