#include "sim/lower/state_tasks.h"

#include <array>
#include <vector>

namespace twinstep {

void RegisterTensor(const RankContext& context, const StateTensor& place, BufferId buffer,
                    StateKind state, Dtype dtype, bool sharded, GraphWriter* writer) {
  const ParameterTensor& tensor = place.tensor;
  TensorInfo info{
      .buffer = buffer,
      .slice = {.offset = tensor.offset * DtypeBytes(dtype),
                .bytes = tensor.elements() * DtypeBytes(dtype)},
      .kind = tensor.kind,
      .state = state,
      .axis = tensor.axis,
      .axis_index = static_cast<std::uint16_t>(context.at.tp),
      .axis_count = static_cast<std::uint16_t>(context.plan.t),
      .block = place.block,
      .chunk = place.chunk,
      .rows = tensor.rows,
      .columns = tensor.columns,
  };
  if (tensor.axis == ShardAxis::kWhole) {
    info.axis_index = 0;
    info.axis_count = 1;
  }
  if (sharded) {
    info.shard_index = static_cast<std::uint32_t>(context.shard_index());
    info.shard_count = static_cast<std::uint32_t>(context.shard_count());
  }
  writer->AddTensor(info);
}

void AddAdam(const LocalShapes& shapes, const AdamOperands& operands, const TaskTags& tags,
             std::span<const TaskId> after, GraphWriter* writer) {
  const bool clips = operands.clip_coefficient != kNone;
  OpShape shape{.op = OpCode::kAdam, .dtype = shapes.dtype};
  shape.flags =
      static_cast<std::uint16_t>((clips ? unsigned{kHasClip} : 0u) |
                                 (shapes.master_is_parameter ? unsigned{kMasterIsParameter} : 0u));
  shape.dims[0] = operands.elements;
  shape.dims[1] = operands.undecayed_elements;
  std::vector<Operand> reads{operands.gradient};
  std::vector<Operand> writes;
  if (!shapes.master_is_parameter) writes.push_back({.buffer = operands.master});
  writes.push_back({.buffer = operands.moment1});
  writes.push_back({.buffer = operands.moment2});
  reads.insert(reads.end(), writes.begin(), writes.end());
  if (shapes.master_is_parameter) reads.push_back(operands.parameter);
  if (clips) reads.push_back({.buffer = operands.clip_coefficient});
  writes.push_back(operands.parameter);
  writer->Add(writer->Intern(shape), tags, reads, writes, after);
}

void AddGradNorm(const RankContext& context, const NormOperands& operands, const TaskTags& tags,
                 GraphWriter* writer) {
  OpShape shape{.op = OpCode::kGradNorm, .dtype = context.shapes.gradient_dtype};
  shape.dims[0] = operands.elements;
  shape.dims[1] = operands.begin;
  shape.dims[2] = operands.end;
  shape.index = static_cast<std::uint16_t>(context.shard_index());
  shape.count = static_cast<std::uint16_t>(context.shard_count());
  shape.flags = operands.first ? std::uint16_t{0} : std::uint16_t{kAccumulateGradient};
  const std::array<Operand, 2> reads{operands.gradient, Operand{.buffer = operands.accumulator}};
  writer->Add(writer->Intern(shape), tags, {reads.data(), operands.first ? 1u : 2u},
              {&reads[1], 1});
}

}  // namespace twinstep
