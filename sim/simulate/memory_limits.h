// Whether the arenas fit.
#pragma once

#include <optional>

#include "sim/report/report.h"

namespace twinstep {

// The GPU arena of every rank against the report's capacity, host memory of the fullest node
// against its budget. An Error (kNo) of rule "gpu-memory" or "host-memory" names rank, pool and the
// bytes above the limit.
std::optional<Error> CheckMemoryLimits(const Report& report);

}  // namespace twinstep
