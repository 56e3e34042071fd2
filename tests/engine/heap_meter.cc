#include "tests/engine/heap_meter.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::int64_t> live_bytes{0};
std::atomic<std::int64_t> peak_bytes{0};

}  // namespace

void* operator new(std::size_t size) {
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  const auto bytes = static_cast<std::int64_t>(malloc_usable_size(memory));
  const std::int64_t live = live_bytes.fetch_add(bytes) + bytes;
  if (live > peak_bytes.load()) peak_bytes.store(live);
  return memory;
}

void operator delete(void* memory) noexcept {
  if (memory == nullptr) return;
  live_bytes.fetch_sub(static_cast<std::int64_t>(malloc_usable_size(memory)));
  std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }

namespace twinstep {

std::int64_t HeapBytes() { return live_bytes; }
std::int64_t HeapPeakBytes() { return peak_bytes; }
void ResetHeapPeak() { peak_bytes.store(live_bytes); }

}  // namespace twinstep
