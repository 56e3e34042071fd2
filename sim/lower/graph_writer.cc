#include "sim/lower/graph_writer.h"

#include <algorithm>
#include <functional>
#include <set>

namespace twinstep {

ShapeId GraphWriter::Intern(const OpShape& shape) {
  const auto [it, inserted] =
      shape_ids_.try_emplace(shape, static_cast<ShapeId>(graph_->shapes.size()));
  if (inserted) graph_->shapes.push_back(shape);
  return it->second;
}

SliceId GraphWriter::InternSlice(std::int64_t offset, std::int64_t bytes) {
  const auto [it, inserted] =
      slice_ids_.try_emplace({offset, bytes}, static_cast<SliceId>(graph_->slices.size()));
  if (inserted) graph_->slices.push_back({.offset = offset, .bytes = bytes});
  return it->second;
}

Operand GraphWriter::SliceOf(const Operand& whole, std::int64_t offset, std::int64_t bytes) {
  const std::int64_t base = whole.slice == 0 ? 0 : graph_->slices[whole.slice].offset;
  return {.buffer = whole.buffer, .slice = InternSlice(base + offset, bytes)};
}

void GraphWriter::BeginRank(const RankInfo& info) {
  rank_ = static_cast<RankId>(graph_->ranks.size());
  graph_->ranks.push_back(info);
  rank_first_task_ = static_cast<TaskId>(graph_->tasks.size());
  rank_first_buffer_ = static_cast<BufferId>(graph_->buffers.size());
  graph_->rank_begin.push_back(rank_first_task_);
  states_.clear();
  clocks_.clear();
  positions_.clear();
  lane_tail_.fill(kNone);
  lane_length_.fill(0);
}

BufferId GraphWriter::AddBuffer(std::int64_t bytes, Dtype dtype, Role role, Pool pool,
                                bool persistent) {
  graph_->buffers.push_back({.bytes = bytes,
                             .rank = rank_,
                             .pool = pool,
                             .dtype = dtype,
                             .role = role,
                             .persistent = persistent});
  states_.emplace_back();
  return static_cast<BufferId>(graph_->buffers.size() - 1);
}

void GraphWriter::Require(TaskId before) { pending_.push_back(before); }

TaskId GraphWriter::Add(ShapeId shape, const TaskTags& tags, std::span<const Operand> reads,
                        std::span<const Operand> writes, std::span<const TaskId> after) {
  const auto id = static_cast<TaskId>(graph_->tasks.size());
  const auto lane = static_cast<std::size_t>(tags.lane);
  graph_->tasks.push_back({.shape = shape,
                           .rank = rank_,
                           .operand_begin = static_cast<std::uint32_t>(graph_->operands.size()),
                           .read_count = static_cast<std::uint16_t>(reads.size()),
                           .write_count = static_cast<std::uint16_t>(writes.size()),
                           .kind = tags.kind,
                           .lane = tags.lane,
                           .phase = tags.phase,
                           .micro_batch = tags.micro_batch,
                           .stage = tags.stage,
                           .block = tags.block,
                           .chunk = tags.chunk});
  graph_->operands.insert(graph_->operands.end(), reads.begin(), reads.end());
  graph_->operands.insert(graph_->operands.end(), writes.begin(), writes.end());

  pending_.clear();
  for (const Operand& x : reads) {
    BufferState& state = states_[x.buffer - rank_first_buffer_];
    if (state.last_write != kNone) Require(state.last_write);
    state.reader[lane] = id;
    state.reader_lanes = static_cast<std::uint16_t>(state.reader_lanes | 1u << lane);
  }
  for (const Operand& x : writes) {
    BufferState& state = states_[x.buffer - rank_first_buffer_];
    if (state.last_write != kNone && state.last_write != id) Require(state.last_write);
    for (unsigned lanes = state.reader_lanes; lanes != 0; lanes &= lanes - 1) {
      const TaskId reader = state.reader[static_cast<std::size_t>(__builtin_ctz(lanes))];
      if (reader != id) Require(reader);
    }
    state.last_write = id;
    state.reader_lanes = 0;
  }
  for (const TaskId before : after) {
    if (before != kNone) Require(before);
  }

  Clock clock{};
  const TaskId tail = lane_tail_[lane];
  if (tail != kNone) {
    edges_.emplace_back(tail, id);
    clock = clocks_[tail - rank_first_task_];
  }
  // Later tasks first: what they imply need not be said again, which leaves exactly the edges of
  // the rank's transitive reduction.
  std::sort(pending_.begin(), pending_.end(), std::greater<>());
  for (const TaskId before : pending_) {
    const TaskId local = before - rank_first_task_;
    const auto before_lane = static_cast<std::size_t>(graph_->tasks[before].lane);
    if (clock[before_lane] >= positions_[local]) continue;
    edges_.emplace_back(before, id);
    const Clock& other = clocks_[local];
    for (std::size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other[i]);
  }
  const std::uint32_t position = ++lane_length_[lane];
  clock[lane] = position;
  clocks_.push_back(clock);
  positions_.push_back(position);
  lane_tail_[lane] = id;
  return id;
}

std::uint32_t GraphWriter::Communicator(int channel, std::vector<std::uint32_t> classes,
                                        std::vector<std::uint32_t> members) {
  std::sort(classes.begin(), classes.end());
  const std::set<std::uint32_t> distinct(classes.begin(), classes.end());
  const auto [it, inserted] = communicator_ids_.try_emplace(
      {channel, std::move(classes)}, static_cast<std::uint32_t>(communicators_.size()));
  if (inserted) {
    communicators_.push_back({.group = static_cast<GroupId>(graph_->groups.size()),
                              .participants = static_cast<std::uint32_t>(distinct.size()),
                              .meetings = {}});
    graph_->groups.push_back({.members = std::move(members)});
  }
  return it->second;
}

void GraphWriter::Join(std::uint32_t communicator) {
  CommunicatorState& state = communicators_[communicator];
  if (state.counting_rank != rank_) {
    state.counting_rank = rank_;
    state.next = 0;
  }
  if (state.next == state.meetings.size()) {
    state.meetings.push_back(static_cast<RendezvousId>(graph_->rendezvous.size()));
    graph_->rendezvous.push_back({.group = state.group, .participants = state.participants});
  }
  graph_->tasks.back().rendezvous = state.meetings[state.next++];
}

void GraphWriter::Finish() {
  graph_->rank_begin.push_back(static_cast<std::uint32_t>(graph_->tasks.size()));
  graph_->edges = FreezeEdges(graph_->TaskCount(), edges_);
}

}  // namespace twinstep
