// Allocations of the program, counted in operator new of every program that links this.
#pragma once

#include <cstdint>

namespace twinstep {

// By all threads, since the program started.
std::int64_t AllocationCount();

}  // namespace twinstep
