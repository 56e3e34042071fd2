// Independent pieces of work on several threads.
#pragma once

#include <cstddef>
#include <functional>

#include "sim/result.h"

namespace twinstep {

// Calls work(0) ... work(count - 1) on up to `jobs` threads; returns the error of the lowest index
// that failed. What `work` writes must be its index's own.
Status ForEachInParallel(std::size_t count, int jobs,
                         const std::function<Status(std::size_t)>& work);

}  // namespace twinstep
