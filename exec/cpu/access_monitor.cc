#include "exec/cpu/access_monitor.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "sim/graph/symbolic_tensors.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

constexpr int kPoisonByte = 0xff;

}  // namespace

AccessMonitor::AccessMonitor(const TaskGraph& graph, const ArenaPlan& arena, ArenaBases bases)
    : graph_(graph),
      arena_(arena),
      bases_(std::move(bases)),
      uses_(graph.buffers.size()),
      live_(graph.ranks.size()),
      touched_(graph.ranks.size()) {
  ListAccesses();
  ListStaleShards();
}

void AccessMonitor::ListStaleShards() {
  std::vector<std::int64_t> chunk_end(graph_.buffers.size(), 0);
  for (const TensorInfo& tensor : graph_.tensors) {
    std::int64_t& end = chunk_end[tensor.buffer];
    end = std::max(end, tensor.slice.offset + tensor.slice.bytes);
  }
  const std::vector<TensorPlace> places = PlaceTensors(graph_);
  for (std::size_t i = 0; i < graph_.tensors.size(); ++i) {
    const TensorInfo& tensor = graph_.tensors[i];
    if (tensor.state != StateKind::kParameter || tensor.shard_count == 1) continue;
    // Host memory holds shards; on the GPU a buffer of just the shard is smaller than the chunk.
    if (graph_.buffers[tensor.buffer].pool != Pool::kGpu) continue;
    if (chunk_end[tensor.buffer] > graph_.buffers[tensor.buffer].bytes) continue;
    const std::int64_t begin = tensor.slice.offset;
    const std::int64_t end = begin + tensor.slice.bytes;
    const TensorPlace& own = places[i];
    const std::int64_t own_begin = own.bytes > 0 ? own.offset : end;
    const std::int64_t own_end = own.bytes > 0 ? own.offset + own.bytes : end;
    if (own_begin > begin) stale_.push_back({tensor.buffer, begin, own_begin - begin});
    if (own_end < end) stale_.push_back({tensor.buffer, own_end, end - own_end});
  }
}

void AccessMonitor::ListAccesses() {
  access_count_.assign(graph_.buffers.size(), 0);
  std::vector<std::uint32_t> writes(graph_.buffers.size(), 0);
  access_begin_.push_back(0);
  for (TaskId id = 0; id < graph_.TaskCount(); ++id) {
    const std::size_t first = accesses_.size();
    const auto add = [&](const Operand& x, bool is_write) {
      const std::int64_t end =
          (x.slice == 0 ? 0 : graph_.slices[x.slice].offset) + graph_.OperandBytes(x);
      for (std::size_t i = first; i < accesses_.size(); ++i) {
        if (accesses_[i].buffer != x.buffer) continue;
        accesses_[i].writes = accesses_[i].writes || is_write;
        accesses_[i].end = std::max(accesses_[i].end, end);
        return;
      }
      accesses_.push_back({.buffer = x.buffer,
                           .writes = is_write,
                           .accesses_before = access_count_[x.buffer],
                           .writes_before = writes[x.buffer],
                           .end = end});
    };
    for (const Operand& x : graph_.Reads(id)) add(x, false);
    for (const Operand& x : graph_.Writes(id)) add(x, true);
    for (std::size_t i = first; i < accesses_.size(); ++i) {
      ++access_count_[accesses_[i].buffer];
      if (accesses_[i].writes) ++writes[accesses_[i].buffer];
    }
    access_begin_.push_back(static_cast<std::uint32_t>(accesses_.size()));
  }
}

std::map<std::int64_t, BufferId>& AccessMonitor::LiveIn(BufferId buffer) {
  const Buffer& x = graph_.buffers[buffer];
  return live_[x.rank][static_cast<std::size_t>(x.pool)];
}

void AccessMonitor::Poison(BufferId buffer, std::int64_t offset, std::int64_t bytes) {
  const Buffer& x = graph_.buffers[buffer];
  std::byte* const base = bases_[x.rank][static_cast<std::size_t>(x.pool)];
  std::memset(base + arena_.offset[buffer] + offset, kPoisonByte, static_cast<std::size_t>(bytes));
}

void AccessMonitor::BeginIteration() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto& pools : live_) {
    for (auto& live : pools) live.clear();
  }
  for (BufferId id = 0; id < graph_.buffers.size(); ++id) {
    const Buffer& buffer = graph_.buffers[id];
    uses_[id] = {.alive = buffer.persistent};
    if (buffer.persistent && access_count_[id] > 0) {
      LiveIn(id).emplace(arena_.offset[id], id);
    } else if (!buffer.persistent && access_count_[id] > 0) {
      Poison(id, 0, buffer.bytes);
    }
  }
  for (const StaleRange& range : stale_) Poison(range.buffer, range.offset, range.bytes);
}

bool AccessMonitor::Fail(TaskId id, BufferId buffer, const std::string& text) {
  if (!violation_.has_value()) {
    const Buffer& x = graph_.buffers[buffer];
    violation_ =
        StrCat("poison: rank ", graph_.ranks[x.rank].global_rank, ", task ", id, " (",
               graph_.TaskName(id), "), ", Name(x.role), " buffer ", buffer, " of ", x.bytes,
               " bytes at ", arena_.offset[buffer], " in pool ", Name(x.pool), ": ", text);
  }
  return false;
}

bool AccessMonitor::BeginLife(TaskId id, BufferId buffer) {
  std::map<std::int64_t, BufferId>& live = LiveIn(buffer);
  const std::int64_t begin = arena_.offset[buffer];
  const std::int64_t end = begin + graph_.buffers[buffer].bytes;
  const auto after = live.lower_bound(begin);
  BufferId other = kNone;
  if (after != live.end() && after->first < end) other = after->second;
  if (after != live.begin()) {
    const auto before = std::prev(after);
    if (before->first + graph_.buffers[before->second].bytes > begin) other = before->second;
  }
  if (other != kNone) {
    return Fail(id, buffer,
                StrCat("takes bytes that buffer ", other, " (", Name(graph_.buffers[other].role),
                       ") still holds"));
  }
  live.emplace(begin, buffer);
  uses_[buffer].alive = true;
  return true;
}

bool AccessMonitor::Check(TaskId id, const Access& access) {
  Use& use = uses_[access.buffer];
  if (use.writers > 0 || (access.writes && use.readers > 0)) {
    return Fail(id, access.buffer, "another task uses it at the same time");
  }
  if (use.writes != access.writes_before) {
    return Fail(id, access.buffer,
                StrCat("has been written ", use.writes, " times where the task comes after write ",
                       access.writes_before));
  }
  if (access.writes && use.accesses != access.accesses_before) {
    return Fail(
        id, access.buffer,
        StrCat("is written after ", use.accesses, " accesses, not ", access.accesses_before));
  }
  if (!use.alive && !access.writes) return Fail(id, access.buffer, "is read while it is dead");
  if (!use.alive && !BeginLife(id, access.buffer)) return false;
  ++(access.writes ? use.writers : use.readers);
  const Buffer& buffer = graph_.buffers[access.buffer];
  std::int64_t& touched = touched_[buffer.rank][static_cast<std::size_t>(buffer.pool)];
  touched = std::max(touched, arena_.offset[access.buffer] + access.end);
  return true;
}

bool AccessMonitor::Start(TaskId id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (violation_.has_value()) return false;
  for (std::uint32_t i = access_begin_[id]; i < access_begin_[id + 1]; ++i) {
    if (!Check(id, accesses_[i])) return false;
  }
  return true;
}

bool AccessMonitor::End(TaskId id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (violation_.has_value()) return false;
  for (std::uint32_t i = access_begin_[id]; i < access_begin_[id + 1]; ++i) {
    const Access& access = accesses_[i];
    Use& use = uses_[access.buffer];
    --(access.writes ? use.writers : use.readers);
    ++use.accesses;
    if (access.writes) ++use.writes;
    const Buffer& buffer = graph_.buffers[access.buffer];
    if (use.accesses < access_count_[access.buffer] || buffer.persistent) continue;
    use.alive = false;
    LiveIn(access.buffer).erase(arena_.offset[access.buffer]);
    Poison(access.buffer, 0, buffer.bytes);
  }
  return true;
}

std::string AccessMonitor::violation() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return violation_.value_or("");
}

std::vector<std::array<std::int64_t, kPoolCount>> AccessMonitor::touched_bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return touched_;
}

}  // namespace twinstep
