// Bytes that the program holds on the heap, counted in operator new and delete of every program
// that links this.
#pragma once

#include <cstdint>

namespace twinstep {

std::int64_t HeapBytes();
// The most since the last ResetHeapPeak.
std::int64_t HeapPeakBytes();
void ResetHeapPeak();

}  // namespace twinstep
