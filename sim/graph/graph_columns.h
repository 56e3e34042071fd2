// The columns of a stored task graph, told once for writing and reading: each function calls
// visit(name, column, field[, coding]) for every column of a table that holds one entry an object.
// `field` is what std::invoke takes: a member, or a function from an object to the field.
#pragma once

#include "sim/graph/task_graph.h"
#include "sim/graph/task_graph.pb.h"

namespace twinstep {

// How a value stands in its column. Plus one turns "none", all ones, into 0: one byte, not five.
enum class Coding { kPlain, kPlusOne };

template <typename Visit>
void VisitRanks(TaskGraphFile::Ranks& table, Visit&& visit) {
  visit("ranks.global_rank", *table.mutable_global_rank(), &RankInfo::global_rank);
  visit("ranks.tp", *table.mutable_tp(), &RankInfo::tp);
  visit("ranks.cp", *table.mutable_cp(), &RankInfo::cp);
  visit("ranks.dp", *table.mutable_dp(), &RankInfo::dp);
  visit("ranks.pp", *table.mutable_pp(), &RankInfo::pp);
  visit("ranks.class_size", *table.mutable_class_size(), &RankInfo::class_size);
}

template <typename Visit>
void VisitTasks(TaskGraphFile::Tasks& table, Visit&& visit) {
  visit("tasks.shape", *table.mutable_shape(), &Task::shape);
  visit("tasks.operand_begin", *table.mutable_operand_begin(), &Task::operand_begin);
  visit("tasks.read_count", *table.mutable_read_count(), &Task::read_count);
  visit("tasks.write_count", *table.mutable_write_count(), &Task::write_count);
  visit("tasks.rendezvous", *table.mutable_rendezvous(), &Task::rendezvous, Coding::kPlusOne);
  visit("tasks.kind", *table.mutable_kind(), &Task::kind);
  visit("tasks.lane", *table.mutable_lane(), &Task::lane);
  visit("tasks.phase", *table.mutable_phase(), &Task::phase);
  visit("tasks.micro_batch", *table.mutable_micro_batch(), &Task::micro_batch, Coding::kPlusOne);
  visit("tasks.stage", *table.mutable_stage(), &Task::stage, Coding::kPlusOne);
  visit("tasks.block", *table.mutable_block(), &Task::block, Coding::kPlusOne);
  visit("tasks.chunk", *table.mutable_chunk(), &Task::chunk, Coding::kPlusOne);
}

template <typename Visit>
void VisitOperands(TaskGraphFile::Operands& table, Visit&& visit) {
  visit("operands.buffer", *table.mutable_buffer(), &Operand::buffer);
  visit("operands.slice", *table.mutable_slice(), &Operand::slice);
}

template <typename Visit>
void VisitBuffers(TaskGraphFile::Buffers& table, Visit&& visit) {
  visit("buffers.bytes", *table.mutable_bytes(), &Buffer::bytes);
  visit("buffers.rank", *table.mutable_rank(), &Buffer::rank);
  visit("buffers.pool", *table.mutable_pool(), &Buffer::pool);
  visit("buffers.dtype", *table.mutable_dtype(), &Buffer::dtype);
  visit("buffers.role", *table.mutable_role(), &Buffer::role);
  visit("buffers.persistent", *table.mutable_persistent(), &Buffer::persistent);
}

template <typename Visit>
void VisitSlices(TaskGraphFile::Slices& table, Visit&& visit) {
  visit("slices.offset", *table.mutable_offset(), &Slice::offset);
  visit("slices.bytes", *table.mutable_bytes(), &Slice::bytes);
}

// Without dims, which are several a shape.
template <typename Visit>
void VisitShapes(TaskGraphFile::Shapes& table, Visit&& visit) {
  visit("shapes.op", *table.mutable_op(), &OpShape::op);
  visit("shapes.dtype", *table.mutable_dtype(), &OpShape::dtype);
  visit("shapes.flags", *table.mutable_flags(), &OpShape::flags);
  visit("shapes.index", *table.mutable_index(), &OpShape::index);
  visit("shapes.count", *table.mutable_count(), &OpShape::count);
}

template <typename Visit>
void VisitRendezvous(TaskGraphFile::RendezvousTable& table, Visit&& visit) {
  visit("rendezvous.group", *table.mutable_group(), &Rendezvous::group, Coding::kPlusOne);
  visit("rendezvous.participants", *table.mutable_participants(), &Rendezvous::participants);
}

template <typename Visit>
void VisitTensors(TaskGraphFile::Tensors& table, Visit&& visit) {
  visit("tensors.buffer", *table.mutable_buffer(), &TensorInfo::buffer);
  visit(
      "tensors.offset", *table.mutable_offset(),
      [](auto& tensor) -> auto& { return tensor.slice.offset; });
  visit(
      "tensors.bytes", *table.mutable_bytes(),
      [](auto& tensor) -> auto& { return tensor.slice.bytes; });
  visit("tensors.kind", *table.mutable_kind(), &TensorInfo::kind);
  visit("tensors.state", *table.mutable_state(), &TensorInfo::state);
  visit("tensors.axis", *table.mutable_axis(), &TensorInfo::axis);
  visit("tensors.axis_index", *table.mutable_axis_index(), &TensorInfo::axis_index);
  visit("tensors.axis_count", *table.mutable_axis_count(), &TensorInfo::axis_count);
  visit("tensors.block", *table.mutable_block(), &TensorInfo::block, Coding::kPlusOne);
  visit("tensors.chunk", *table.mutable_chunk(), &TensorInfo::chunk, Coding::kPlusOne);
  visit("tensors.shard_index", *table.mutable_shard_index(), &TensorInfo::shard_index);
  visit("tensors.shard_count", *table.mutable_shard_count(), &TensorInfo::shard_count);
  visit("tensors.micro_batch", *table.mutable_micro_batch(), &TensorInfo::micro_batch);
  visit("tensors.cp_index", *table.mutable_cp_index(), &TensorInfo::cp_index);
  visit("tensors.cp_count", *table.mutable_cp_count(), &TensorInfo::cp_count);
  visit("tensors.rows", *table.mutable_rows(), &TensorInfo::rows);
  visit("tensors.columns", *table.mutable_columns(), &TensorInfo::columns);
}

}  // namespace twinstep
