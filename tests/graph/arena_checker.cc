#include "tests/graph/arena_checker.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <vector>

namespace twinstep {
namespace {

std::string Describe(const TaskGraph& graph, const ArenaPlan& plan, BufferId id) {
  const Buffer& buffer = graph.buffers[id];
  return "buffer " + std::to_string(id) + " (" + std::to_string(buffer.bytes) + " bytes at " +
         std::to_string(plan.offset[id]) + " of rank " + std::to_string(buffer.rank) + " " +
         Name(buffer.pool) + ")";
}

bool Overlap(const TaskGraph& graph, const ArenaPlan& plan, BufferId a, BufferId b) {
  const Buffer& x = graph.buffers[a];
  const Buffer& y = graph.buffers[b];
  return x.rank == y.rank && x.pool == y.pool && x.bytes > 0 && y.bytes > 0 &&
         plan.offset[a] < plan.offset[b] + y.bytes && plan.offset[b] < plan.offset[a] + x.bytes;
}

std::vector<std::vector<TaskId>> Accesses(const TaskGraph& graph) {
  std::vector<std::vector<TaskId>> accesses(graph.buffers.size());
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    for (const auto& operands : {graph.Reads(id), graph.Writes(id)}) {
      for (const Operand& operand : operands) accesses[operand.buffer].push_back(id);
    }
  }
  return accesses;
}

// Which tasks of a rank follow which, by paths inside the rank.
class Closure {
 public:
  Closure(const TaskGraph& graph, std::size_t rank)
      : begin_(graph.rank_begin[rank]),
        count_(graph.rank_begin[rank + 1] - begin_),
        words_((count_ + 63) / 64),
        follows_(count_ * words_, 0) {
    for (std::size_t i = count_; i-- > 0;) {
      for (const TaskId next : graph.Successors(begin_ + static_cast<TaskId>(i))) {
        if (next < begin_ || next - begin_ >= count_) continue;
        const std::size_t j = next - begin_;
        for (std::size_t w = 0; w < words_; ++w)
          follows_[i * words_ + w] |= follows_[j * words_ + w];
        follows_[i * words_ + j / 64] |= std::uint64_t{1} << (j % 64);
      }
    }
  }
  bool AllBefore(const std::vector<TaskId>& a, const std::vector<TaskId>& b) const {
    return std::all_of(a.begin(), a.end(), [&](TaskId x) {
      return std::all_of(b.begin(), b.end(), [&](TaskId y) { return Follows(y, x); });
    });
  }

 private:
  bool Follows(TaskId y, TaskId x) const {
    const std::size_t j = y - begin_;
    return (follows_[(x - begin_) * words_ + j / 64] >> (j % 64) & 1) != 0;
  }

  TaskId begin_;
  std::size_t count_, words_;
  std::vector<std::uint64_t> follows_;  // Row of words a task.
};

std::vector<std::vector<BufferId>> ByRank(const TaskGraph& graph) {
  std::vector<std::vector<BufferId>> buffers(graph.ranks.size());
  for (BufferId id = 0; id < graph.buffers.size(); ++id) {
    buffers[graph.buffers[id].rank].push_back(id);
  }
  return buffers;
}

std::string CheckBounds(const TaskGraph& graph, const ArenaPlan& plan) {
  if (plan.offset.size() != graph.buffers.size() || plan.arena_bytes.size() != graph.ranks.size() ||
      plan.live_bound_bytes.size() != graph.ranks.size()) {
    return "the plan is not of this graph's size";
  }
  for (BufferId id = 0; id < graph.buffers.size(); ++id) {
    const Buffer& buffer = graph.buffers[id];
    if (plan.offset[id] < 0 || plan.offset[id] % kBufferAlignment != 0) {
      return Describe(graph, plan, id) + " has a bad offset";
    }
    const std::int64_t arena = plan.arena_bytes[buffer.rank][static_cast<std::size_t>(buffer.pool)];
    if (plan.offset[id] + buffer.bytes > arena) {
      return Describe(graph, plan, id) + " ends past " + std::to_string(arena);
    }
  }
  return "";
}

std::string CheckLiveBounds(const TaskGraph& graph, const ArenaPlan& plan,
                            const std::vector<std::vector<TaskId>>& accesses) {
  const std::vector<std::vector<BufferId>> buffers = ByRank(graph);
  std::vector<std::array<std::int64_t, kPoolCount>> peak(graph.ranks.size());
  for (TaskId now = 0; now < graph.TaskCount(); ++now) {
    const RankId rank = graph.tasks[now].rank;
    std::array<std::int64_t, kPoolCount> live{};
    for (const BufferId id : buffers[rank]) {
      const Buffer& buffer = graph.buffers[id];
      const bool lives =
          buffer.persistent ||
          (!accesses[id].empty() && accesses[id].front() <= now && now <= accesses[id].back());
      if (lives) live[static_cast<std::size_t>(buffer.pool)] += buffer.bytes;
    }
    for (std::size_t pool = 0; pool < kPoolCount; ++pool) {
      peak[rank][pool] = std::max(peak[rank][pool], live[pool]);
    }
  }
  for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    for (std::size_t pool = 0; pool < kPoolCount; ++pool) {
      const std::string where = "rank " + std::to_string(rank) + " " +
                                Name(static_cast<Pool>(pool)) + ": live bound " +
                                std::to_string(plan.live_bound_bytes[rank][pool]);
      const bool has_tasks = graph.rank_begin[rank] < graph.rank_begin[rank + 1];
      if (has_tasks && plan.live_bound_bytes[rank][pool] != peak[rank][pool]) {
        return where + ", live peak " + std::to_string(peak[rank][pool]);
      }
      if (plan.live_bound_bytes[rank][pool] > plan.arena_bytes[rank][pool]) {
        return where + " above the arena's " + std::to_string(plan.arena_bytes[rank][pool]);
      }
    }
  }
  return "";
}

// Bytes in use while tasks run, one pool of one rank.
class Occupancy {
 public:
  // The buffer that lies in the way, or kNone.
  BufferId Occupy(std::int64_t offset, std::int64_t bytes, BufferId id) {
    if (bytes == 0) return kNone;
    const auto next = live_.lower_bound(offset);
    if (next != live_.end() && next->first < offset + bytes) return next->second.id;
    if (next != live_.begin() && std::prev(next)->second.end > offset) {
      return std::prev(next)->second.id;
    }
    live_[offset] = {offset + bytes, id};
    return kNone;
  }
  void Release(std::int64_t offset) { live_.erase(offset); }

 private:
  struct Range {
    std::int64_t end;
    BufferId id;
  };
  std::map<std::int64_t, Range> live_;
};

// Calls begin(buffer) and end(buffer) as lives begin and end; persistent buffers begin at once.
template <typename Begin, typename End>
void FollowLives(const TaskGraph& graph, std::span<const DispatchStep> steps, Begin begin,
                 End end) {
  std::vector<std::size_t> accesses_left(graph.buffers.size());
  std::vector<bool> has_begun(graph.buffers.size(), false);
  const auto for_each_operand = [&](TaskId id, const auto& visit) {
    for (const Operand& operand : graph.Reads(id)) visit(operand.buffer);
    for (const Operand& operand : graph.Writes(id)) visit(operand.buffer);
  };
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    for_each_operand(id, [&](BufferId buffer) { ++accesses_left[buffer]; });
  }
  for (BufferId id = 0; id < graph.buffers.size(); ++id) {
    if (graph.buffers[id].persistent) begin(id);
  }
  for (const DispatchStep& step : steps) {
    for_each_operand(step.task, [&](BufferId buffer) {
      if (graph.buffers[buffer].persistent) return;
      if (step.is_end) {
        if (--accesses_left[buffer] == 0) end(buffer);
      } else if (!has_begun[buffer]) {
        has_begun[buffer] = true;
        begin(buffer);
      }
    });
  }
}

}  // namespace

std::string CheckArena(const TaskGraph& graph, const ArenaPlan& plan) {
  if (std::string bad = CheckBounds(graph, plan); !bad.empty()) return bad;
  const std::vector<std::vector<TaskId>> accesses = Accesses(graph);
  const std::vector<std::vector<BufferId>> buffers = ByRank(graph);
  for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    const Closure closure(graph, rank);
    for (std::size_t i = 0; i < buffers[rank].size(); ++i) {
      for (std::size_t j = i + 1; j < buffers[rank].size(); ++j) {
        const BufferId a = buffers[rank][i], b = buffers[rank][j];
        if (!Overlap(graph, plan, a, b)) continue;
        const bool persistent = graph.buffers[a].persistent || graph.buffers[b].persistent;
        const bool unused = accesses[a].empty() || accesses[b].empty();
        const bool ordered = closure.AllBefore(accesses[a], accesses[b]) ||
                             closure.AllBefore(accesses[b], accesses[a]);
        if (!unused && (persistent || !ordered)) {
          return Describe(graph, plan, a) + " and " + Describe(graph, plan, b) +
                 " share bytes unordered";
        }
      }
    }
  }
  return CheckLiveBounds(graph, plan, accesses);
}

std::string CheckArenaInOrder(const TaskGraph& graph, const ArenaPlan& plan,
                              std::span<const DispatchStep> steps) {
  std::vector<std::array<Occupancy, kPoolCount>> occupancy(graph.ranks.size());
  const auto pool_of = [&](BufferId id) -> Occupancy& {
    const Buffer& buffer = graph.buffers[id];
    return occupancy[buffer.rank][static_cast<std::size_t>(buffer.pool)];
  };
  std::string clash;
  FollowLives(
      graph, steps,
      [&](BufferId id) {
        const BufferId other = pool_of(id).Occupy(plan.offset[id], graph.buffers[id].bytes, id);
        if (other != kNone && clash.empty()) {
          clash = Describe(graph, plan, id) + " begins to live on " + Describe(graph, plan, other);
        }
      },
      [&](BufferId id) {
        if (clash.empty()) pool_of(id).Release(plan.offset[id]);
      });
  return clash;
}

std::vector<std::array<std::int64_t, kPoolCount>> DispatchPeak(
    const TaskGraph& graph, std::span<const DispatchStep> steps) {
  std::vector<std::array<std::int64_t, kPoolCount>> live(graph.ranks.size());
  std::vector<std::array<std::int64_t, kPoolCount>> peak(graph.ranks.size());
  FollowLives(
      graph, steps,
      [&](BufferId id) {
        const Buffer& buffer = graph.buffers[id];
        const auto pool = static_cast<std::size_t>(buffer.pool);
        live[buffer.rank][pool] += buffer.bytes;
        peak[buffer.rank][pool] = std::max(peak[buffer.rank][pool], live[buffer.rank][pool]);
      },
      [&](BufferId id) {
        const Buffer& buffer = graph.buffers[id];
        live[buffer.rank][static_cast<std::size_t>(buffer.pool)] -= buffer.bytes;
      });
  return peak;
}

}  // namespace twinstep
