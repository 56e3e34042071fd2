// Independent work on several threads. What each item computes must not depend on the others; then
// the result is the same for any number of threads.
//
//   ForEach(threads, plans.size(), [&](std::size_t i) { times[i] = TimeOf(plans[i]); });
#pragma once

#include <cstddef>
#include <functional>

namespace twinstep {

// Calls work(0) ... work(count - 1), each once, from at most `threads` threads.
void ForEach(int threads, std::size_t count, const std::function<void(std::size_t)>& work);

// Of this machine, at least 1.
int HardwareThreads();

}  // namespace twinstep
