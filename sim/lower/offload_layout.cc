#include "sim/lower/offload_layout.h"

#include <algorithm>
#include <cmath>

#include "sim/graph/ids.h"

namespace twinstep {
namespace {

std::int64_t Align(std::int64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

}  // namespace

OffloadLayout MakeOffloadLayout(const std::vector<const BlockTemplate*>& layers, double ratio) {
  struct Candidate {
    OffloadLayout::Entry entry;
    std::int64_t bytes;
    bool stage_input;
  };
  OffloadLayout layout;
  std::vector<Candidate> rest;
  std::int64_t total = 0;
  for (std::size_t j = 0; j < layers.size(); ++j) {
    const BlockTemplate& layer = *layers[j];
    for (std::size_t i = 0; i < layer.saved.size(); ++i) {
      const std::int64_t bytes = Align(layer.Tensor(layer.saved[i]).bytes);
      rest.push_back({{.layer = static_cast<std::int64_t>(j), .saved_index = i},
                      bytes,
                      j == 0 && layer.saved[i] == layer.input});
      total += bytes;
    }
  }
  const std::int64_t target = std::min(
      total, Align(static_cast<std::int64_t>(std::llround(ratio * static_cast<double>(total)))));
  if (target <= 0) return layout;
  // Large tensors first; the stage's input last, so that its receive does not wait for the slot.
  std::stable_sort(rest.begin(), rest.end(), [](const Candidate& a, const Candidate& b) {
    if (a.stage_input != b.stage_input) return b.stage_input;
    return a.bytes > b.bytes;
  });
  std::int64_t used = 0;
  std::vector<Candidate> left;
  for (Candidate& candidate : rest) {
    if (used + candidate.bytes > target) {
      left.push_back(candidate);
      continue;
    }
    candidate.entry.slot_offset = used;
    layout.entries.push_back(candidate.entry);
    used += candidate.bytes;
  }
  layout.host_bytes = layout.slot_bytes = used;
  if (used < target) {
    // Cut the smallest tensor that is larger than what remains: its tail costs a copy each way.
    const Candidate* cut = nullptr;
    for (const Candidate& candidate : left) {
      if (candidate.bytes <= target - used) continue;
      const bool better =
          cut == nullptr || (cut->stage_input && !candidate.stage_input) ||
          (cut->stage_input == candidate.stage_input && candidate.bytes < cut->bytes);
      if (better) cut = &candidate;
    }
    layout.entries.push_back(cut->entry);
    layout.entries.back().slot_offset = used;
    layout.host_bytes = target;
    layout.slot_bytes = used + cut->bytes;
  }
  layout.tail_bytes = layout.slot_bytes - layout.host_bytes;
  return layout;
}

}  // namespace twinstep
