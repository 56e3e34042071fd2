// Independent pieces of work on several threads. What each computes must not depend on the others;
// then the result is the same for any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "sim/result.h"

namespace twinstep {

// Calls work(0) ... work(count - 1) on up to `jobs` threads; returns the error of the lowest index
// that failed. What `work` writes must be its index's own. What it throws (memory above all) is
// thrown here.
Status ForEachInParallel(std::size_t count, int jobs,
                         const std::function<Status(std::size_t)>& work);

// What a user may ask for: systems refuse to start many more.
inline constexpr std::int64_t kMostThreads = 1024;

}  // namespace twinstep
