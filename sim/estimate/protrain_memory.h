// Peak GPU memory of chunked training in closed form: equations 8-11 of ProTrain, appendix A
// (arXiv 2406.08334v2). It follows the backward operator by operator, from what a
// profile says of each, and so knows what lives for less than an operator (workspaces) and what is
// made between two profiled modules.
//
//   const ProTrainMemory memory = EstimatePeakMemory(input).value();
//   memory.peak_bytes();
//
//   8   M_cur(0)  = M_fwd + sum of M_act(i) - M_swap n_swap - M_ckpt n_checkpoint
//   9   M_cur(i)  = M_cur(i-1) + dCur_prior(i) + dCur_op(i) - M_act(i)
//   10  M_peak(i) = max(M_peak(i-1), M_cur(i-1) + dPeak_prior(i),
//                       M_cur(i-1) + dCur_prior(i) + dPeak_op(i)
//                       + M_ckpt at the first operator of a checkpointed block)
//   11  M_peak    = alpha (M_peak + M_persist n_persist + M_buffer n_buffer)
//
// Eq 9 as printed takes M_act(i) of a checkpointed block off without ever having put it back, and
// would end n_checkpoint M_ckpt below M_fwd. Here recomputation puts M_ckpt back where eq 10 counts
// it. A swapped block returns only into memory that is free and adds nothing, so that its operators
// take nothing off either.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/result.h"

namespace twinstep {

enum class BlockStorage : std::uint8_t { kKeep, kCheckpoint, kSwap };

// One operator of the backward, as the profiler sees it (hw_specs/profile.proto).
struct OperatorMemory {
  double current_prior_bytes = 0;  // Inter-operator: change of what is allocated between the end of
                                   // the module before and the begin of this.
  double peak_prior_bytes = 0;     // Inter-operator: peak in between less allocated at its start.
  double current_bytes = 0;        // Intra-operator: change over the operator, M_act apart.
  double peak_bytes = 0;           // Intra-operator: peak less allocated just before.
  double activation_bytes = 0;     // M_act: stored by the forward, released here.
  std::int64_t block = -1;  // Of ProTrainMemoryInput::blocks; -1 = in none (head, embedding).
};

struct ProTrainMemoryInput {
  double forward_bytes = 0;                 // M_fwd: what the forward leaves besides activations.
  std::vector<OperatorMemory> operators{};  // In backward order.
  std::vector<BlockStorage> blocks{};
  double checkpoint_saving_bytes = 0;  // M_ckpt, of a block.
  double swap_saving_bytes = 0;        // M_swap, of a block.
  double persistent_chunk_bytes = 0;   // M_persist: parameters, gradients, optimizer shard.
  std::int64_t persistent_chunks = 0;  // n_persist.
  double buffer_bytes = 0;             // M_buffer.
  std::int64_t buffers = 0;            // n_buffer.
  // alpha: allocator's fragmentation. The paper names no value; 1 where buffers are placed ahead,
  // as Twinstep's arena does.
  double fragmentation = 1;
};

struct ProTrainMemory {
  double backward_begin_bytes = 0;  // M_cur(0).
  double backward_peak_bytes = 0;   // M_peak of eq 10, of activations and operators.
  double persistent_bytes = 0;      // M_persist n_persist.
  double buffer_bytes = 0;          // M_buffer n_buffer.
  double fragmentation = 1;
  // The same without the deltas: what adding up activations and states alone would say.
  double peak_without_deltas_bytes = 0;

  double peak_bytes() const {  // Eq 11.
    return fragmentation * (backward_peak_bytes + persistent_bytes + buffer_bytes);
  }
};

// Error (kBadInput): an operator of a block that is not there; negative counts; alpha below 1.
Result<ProTrainMemory> EstimatePeakMemory(const ProTrainMemoryInput& input);

}  // namespace twinstep
