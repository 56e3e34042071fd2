#include "exec/cpu/scratch.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

namespace twinstep {
namespace {

constexpr std::align_val_t kAlignment{64};

struct Free {
  void operator()(std::byte* bytes) const { ::operator delete[](bytes, kAlignment); }
};

struct Arena {
  std::unique_ptr<std::byte[], Free> bytes;
  std::size_t size = 0;
};

Arena& ThreadArena(std::size_t bytes) {
  thread_local Arena arena;
  if (arena.size < bytes) {
    arena.bytes.reset();  // First, so that old and new are not there at once.
    arena.size = 0;
    arena.bytes.reset(new (kAlignment) std::byte[bytes]);
    arena.size = bytes;
  }
  return arena;
}

thread_local std::size_t peak_bytes = 0;

}  // namespace

Scratch::Scratch(std::size_t bytes) : next_(ThreadArena(bytes).bytes.get()), end_(next_ + bytes) {
  peak_bytes = std::max(peak_bytes, bytes);
}

std::size_t Scratch::PeakBytes() { return peak_bytes; }

void Scratch::ForgetPeak() { peak_bytes = 0; }

void Scratch::Reserve(std::size_t bytes) { ThreadArena(bytes); }

std::byte* Scratch::TakeBytes(std::size_t bytes) {
  // A kernel that takes more than it said would write over other memory.
  if (static_cast<std::size_t>(end_ - next_) < bytes) std::abort();
  std::byte* result = next_;
  next_ += bytes;
  return result;
}

}  // namespace twinstep
