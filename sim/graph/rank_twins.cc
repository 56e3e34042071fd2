#include "sim/graph/rank_twins.h"

#include <algorithm>
#include <unordered_map>

namespace twinstep {
namespace {

// Calls visit(number) for every number that makes up the rank's local structure, in a fixed order,
// until it returns false.
template <typename Visit>
void VisitStructure(const TaskGraph& graph, RankId rank, const std::vector<BufferId>& buffers,
                    const std::vector<std::uint32_t>& local_id, Visit visit) {
  for (const BufferId id : buffers) {
    const Buffer& buffer = graph.buffers[id];
    const auto kind = static_cast<std::uint64_t>(buffer.pool) << 16 |
                      static_cast<std::uint64_t>(buffer.role) << 8 |
                      static_cast<std::uint64_t>(buffer.persistent);
    if (!visit(static_cast<std::uint64_t>(buffer.bytes)) || !visit(kind)) return;
  }
  const TaskId begin = graph.rank_begin[rank];
  const TaskId end = graph.rank_begin[rank + 1];
  for (TaskId id = begin; id < end; ++id) {
    const Task& task = graph.tasks[id];
    const std::uint64_t head = static_cast<std::uint64_t>(task.lane) << 32 |
                               std::uint64_t{task.read_count} << 16 | task.write_count;
    if (!visit(head)) return;
    const std::size_t operand_count = std::size_t{task.read_count} + task.write_count;
    for (std::size_t k = 0; k < operand_count; ++k) {
      if (!visit(local_id[graph.operands[task.operand_begin + k].buffer])) return;
    }
    for (const TaskId next : graph.Successors(id)) {
      if (next >= begin && next < end && !visit(next - begin)) return;
    }
    if (!visit(kNone)) return;  // Ends the successors.
  }
}

}  // namespace

std::vector<std::vector<BufferId>> BuffersByRank(const TaskGraph& graph) {
  std::vector<std::vector<BufferId>> buffers(graph.ranks.size());
  for (BufferId id = 0; id < graph.buffers.size(); ++id) {
    buffers[graph.buffers[id].rank].push_back(id);
  }
  return buffers;
}

std::vector<RankId> RankTwins(const TaskGraph& graph,
                              const std::vector<std::vector<BufferId>>& buffers) {
  std::vector<std::uint32_t> local_id(graph.buffers.size());
  for (const std::vector<BufferId>& of_rank : buffers) {
    for (std::size_t i = 0; i < of_rank.size(); ++i) {
      local_id[of_rank[i]] = static_cast<std::uint32_t>(i);
    }
  }
  std::vector<RankId> twin(graph.ranks.size());
  std::unordered_map<std::uint64_t, std::vector<RankId>> firsts_by_hash;
  for (RankId rank = 0; rank < graph.ranks.size(); ++rank) {
    std::uint64_t hash = 0x9e3779b97f4a7c15;
    VisitStructure(graph, rank, buffers[rank], local_id, [&hash](std::uint64_t number) {
      hash = (hash ^ number) * 0xff51afd7ed558ccd;
      hash ^= hash >> 32;
      return true;
    });
    // Equal hashes are checked number by number: a collision must not overlap live buffers.
    std::vector<RankId>& firsts = firsts_by_hash[hash];
    std::vector<std::uint64_t> numbers;
    if (!firsts.empty()) {
      VisitStructure(graph, rank, buffers[rank], local_id, [&numbers](std::uint64_t number) {
        numbers.push_back(number);
        return true;
      });
    }
    const auto is_equal = [&](RankId first) {
      std::size_t at = 0;
      bool equal = true;
      VisitStructure(graph, first, buffers[first], local_id, [&](std::uint64_t number) {
        equal = at < numbers.size() && numbers[at++] == number;
        return equal;
      });
      return equal && at == numbers.size();
    };
    const auto found = std::find_if(firsts.begin(), firsts.end(), is_equal);
    twin[rank] = found == firsts.end() ? rank : *found;
    if (found == firsts.end()) firsts.push_back(rank);
  }
  return twin;
}

}  // namespace twinstep
