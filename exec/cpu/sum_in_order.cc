// Sums of whole buffers, the arithmetic of collectives.

#include <algorithm>
#include <array>
#include <cstring>

#include "exec/cpu/element.h"
#include "exec/cpu/exact_sum.h"
#include "exec/cpu/kernel.h"
#include "exec/cpu/vector_clones.h"

namespace twinstep {
namespace {

// Block by block, and each block's sum is complete before it is stored, so that `sum` may be one of
// the parts.
template <typename T>
void Sum(std::span<const std::byte* const> parts, std::size_t elements, std::byte* sum) {
  constexpr std::size_t kBlock = 512;
  std::array<Compute<T>, kBlock> block;
  for (std::size_t begin = 0; begin < elements; begin += kBlock) {
    const std::size_t count = std::min(kBlock, elements - begin);
    const T* first = reinterpret_cast<const T*>(parts[0]) + begin;
    for (std::size_t i = 0; i < count; ++i) block[i] = Load(first[i]);
    for (const std::byte* part : parts.subspan(1)) {
      const T* x = reinterpret_cast<const T*>(part) + begin;
      for (std::size_t i = 0; i < count; ++i) block[i] += Load(x[i]);
    }
    T* out = reinterpret_cast<T*>(sum) + begin;
    for (std::size_t i = 0; i < count; ++i) Store(block[i], &out[i]);
  }
}

void SumExactly(std::span<const std::byte* const> parts, std::size_t bytes, std::byte* sum) {
  ExactSum::Limbs limbs;
  for (std::size_t at = 0; at + sizeof limbs <= bytes; at += sizeof limbs) {
    ExactSum total;
    for (const std::byte* part : parts) {
      std::memcpy(limbs.data(), part + at, sizeof limbs);
      total.Add(ExactSum(limbs));
    }
    std::memcpy(sum + at, total.limbs().data(), sizeof limbs);
  }
}

}  // namespace

TWINSTEP_VECTOR_CLONES void SumInOrder(Dtype dtype, bool exact_sum,
                                       std::span<const std::byte* const> parts, std::size_t bytes,
                                       std::byte* sum) {
  if (exact_sum) {
    SumExactly(parts, bytes, sum);
    return;
  }
  WithElement(dtype, [&](auto element) {
    using T = decltype(element);
    Sum<T>(parts, bytes / sizeof(T), sum);
  });
}

}  // namespace twinstep
