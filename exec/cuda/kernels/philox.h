// Dropout's generator: exec/cpu/dropout.h, word by word. Whether an element is kept depends on the
// seed, the step, the dropout's place in the model, and the element's global sample, position, head
// and feature.
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/host_device.h"

namespace twinstep::cuda {

struct PhiloxWords {
  std::uint32_t x[4];
};

// Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011).
TWINSTEP_HD PhiloxWords Philox(std::uint64_t key, PhiloxWords w) {
  constexpr std::uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  auto key0 = static_cast<std::uint32_t>(key);
  auto key1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * w.x[0];
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * w.x[2];
    w.x[0] = static_cast<std::uint32_t>(product1 >> 32) ^ w.x[1] ^ key0;
    w.x[1] = static_cast<std::uint32_t>(product1);
    w.x[2] = static_cast<std::uint32_t>(product0 >> 32) ^ w.x[3] ^ key1;
    w.x[3] = static_cast<std::uint32_t>(product0);
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return w;
}

// What the mask of a whole tensor shares.
TWINSTEP_HD std::uint64_t DropoutKey(std::uint64_t seed, std::int64_t step, std::uint32_t site,
                                     std::uint32_t layer) {
  const auto bits = static_cast<std::uint64_t>(step);
  const PhiloxWords w = Philox(seed, {{static_cast<std::uint32_t>(bits),
                                       static_cast<std::uint32_t>(bits >> 32), site, layer}});
  return w.x[0] | std::uint64_t{w.x[1]} << 32;
}

// Where an element's row lies in the whole batch and model.
struct DropoutRow {
  std::uint32_t sample, position, head;
};

// keep[i] = whether element first + i of the row is kept. `first` is a multiple of kCount or
// kCount of 4, so that groups of four words are drawn whole where that is possible.
template <int kCount>
TWINSTEP_HD void DrawKeep(std::uint64_t key, std::uint64_t threshold, const DropoutRow& row,
                          std::int64_t first, bool (&keep)[kCount]) {
  constexpr int kGroup = kCount < 4 ? kCount : 4;
  for (int i = 0; i < kCount; i += kGroup) {
    const std::int64_t element = first + i;
    const PhiloxWords w = Philox(
        key, {{static_cast<std::uint32_t>(element / 4), row.position, row.sample, row.head}});
    const int word = static_cast<int>(element % 4);
    for (int j = 0; j < kGroup; ++j) {
      // Selected rather than indexed: an index known only at run time would spill to memory.
      std::uint32_t draw = w.x[0];
      draw = word + j == 1 ? w.x[1] : draw;
      draw = word + j == 2 ? w.x[2] : draw;
      draw = word + j == 3 ? w.x[3] : draw;
      keep[i + j] = draw >= threshold;
    }
  }
}

}  // namespace twinstep::cuda
