// Tasks and tensors of model states that ZeRO stages and chunks have in common.
#pragma once

#include <cstdint>
#include <span>

#include "sim/lower/graph_writer.h"
#include "sim/lower/parameter_layout.h"
#include "sim/lower/rank_context.h"

namespace twinstep {

// kGradNorm's accumulator: four 64-bit limbs (op.h).
inline constexpr std::int64_t kNormAccumulatorBytes = 32;

// Where a tensor of a chunk lies: `tensor.offset` counts from the chunk's begin. `sharded`: the
// buffer holds this rank's shard of the chunk, or the whole of which only the shard is kept.
struct StateTensor {
  const ParameterTensor& tensor;
  std::uint16_t block = kNoTag, chunk = kNoTag;
};
void RegisterTensor(const RankContext& context, const StateTensor& place, BufferId buffer,
                    StateKind state, Dtype dtype, bool sharded, GraphWriter* writer);

struct AdamOperands {
  Operand gradient, parameter;
  BufferId master = kNone;  // None where the parameter is its own master.
  BufferId moment1 = kNone, moment2 = kNone;
  BufferId clip_coefficient = kNone;  // None without clipping.
  std::int64_t elements = 0;
  std::int64_t undecayed_elements = 0;  // The first of them.
};
// On the compute or the host lane, as `tags` say.
void AddAdam(const LocalShapes& shapes, const AdamOperands& operands, const TaskTags& tags,
             std::span<const TaskId> after, GraphWriter* writer);

struct NormOperands {
  Operand gradient;                 // This rank's shard of the chunk.
  BufferId accumulator = kNone;     // Added to, unless `first`.
  std::int64_t elements = 0;        // Of the whole chunk.
  std::int64_t begin = 0, end = 0;  // What counts of them.
  bool first = false;
};
void AddGradNorm(const RankContext& context, const NormOperands& operands, const TaskTags& tags,
                 GraphWriter* writer);

}  // namespace twinstep
