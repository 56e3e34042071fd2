#include "sim/estimate/protrain_memory.h"

#include <algorithm>

#include "sim/str_cat.h"

namespace twinstep {
namespace {

Status Check(const ProTrainMemoryInput& input) {
  if (input.persistent_chunks < 0 || input.buffers < 0) {
    return Error{.message = StrCat("closed form: ", input.persistent_chunks,
                                   " persistent chunks and ", input.buffers, " buffers")};
  }
  if (!(input.fragmentation >= 1)) {
    return Error{.message = StrCat("closed form: fragmentation is ", input.fragmentation,
                                   "; must be at least 1")};
  }
  for (std::size_t i = 0; i < input.operators.size(); ++i) {
    const std::int64_t block = input.operators[i].block;
    if (block < -1 || block >= static_cast<std::int64_t>(input.blocks.size())) {
      return Error{.message = StrCat("closed form: operator ", i, " is of block ", block, " of ",
                                     input.blocks.size())};
    }
  }
  return Unit{};
}

// Eqs 8-10; without deltas their terms are 0.
struct BackwardPeak {
  double begin_bytes, peak_bytes;

  BackwardPeak(const ProTrainMemoryInput& input, bool with_deltas) {
    double current = input.forward_bytes;
    for (const OperatorMemory& op : input.operators) current += op.activation_bytes;
    for (const BlockStorage storage : input.blocks) {
      if (storage == BlockStorage::kCheckpoint) current -= input.checkpoint_saving_bytes;
      if (storage == BlockStorage::kSwap) current -= input.swap_saving_bytes;
    }
    begin_bytes = peak_bytes = current;
    std::vector<bool> begun(input.blocks.size());
    const double deltas = with_deltas ? 1 : 0;
    for (const OperatorMemory& op : input.operators) {
      BlockStorage storage = BlockStorage::kKeep;
      double recomputed = 0;
      if (op.block >= 0) {
        const auto block = static_cast<std::size_t>(op.block);
        storage = input.blocks[block];
        if (storage == BlockStorage::kCheckpoint && !begun[block]) {
          recomputed = input.checkpoint_saving_bytes;
        }
        begun[block] = true;
      }
      const double prior = current + deltas * op.current_prior_bytes;
      peak_bytes = std::max({peak_bytes, current + deltas * op.peak_prior_bytes,
                             prior + deltas * op.peak_bytes + recomputed});
      current = prior + deltas * op.current_bytes + recomputed;
      if (storage != BlockStorage::kSwap) current -= op.activation_bytes;
    }
  }
};

}  // namespace

Result<ProTrainMemory> EstimatePeakMemory(const ProTrainMemoryInput& input) {
  if (const Status valid = Check(input); !valid.ok()) return valid.error();
  const BackwardPeak backward(input, /*with_deltas=*/true);
  ProTrainMemory memory;
  memory.backward_begin_bytes = backward.begin_bytes;
  memory.backward_peak_bytes = backward.peak_bytes;
  memory.persistent_bytes =
      input.persistent_chunk_bytes * static_cast<double>(input.persistent_chunks);
  memory.buffer_bytes = input.buffer_bytes * static_cast<double>(input.buffers);
  memory.fragmentation = input.fragmentation;
  memory.peak_without_deltas_bytes =
      input.fragmentation * (BackwardPeak(input, /*with_deltas=*/false).peak_bytes +
                             memory.persistent_bytes + memory.buffer_bytes);
  return memory;
}

}  // namespace twinstep
