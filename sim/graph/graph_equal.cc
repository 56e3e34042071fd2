#include "sim/graph/graph_equal.h"

#include <algorithm>
#include <vector>

#include "sim/str_cat.h"

namespace twinstep {
namespace {

bool Same(const Buffer& a, const Buffer& b) {
  return a.bytes == b.bytes && a.rank == b.rank && a.pool == b.pool && a.dtype == b.dtype &&
         a.role == b.role && a.persistent == b.persistent;
}

bool Same(const RankInfo& a, const RankInfo& b) {
  return a.global_rank == b.global_rank && a.tp == b.tp && a.cp == b.cp && a.dp == b.dp &&
         a.pp == b.pp && a.class_size == b.class_size;
}

bool Same(const TensorInfo& a, const TensorInfo& b) {
  return a.buffer == b.buffer && a.slice == b.slice && a.kind == b.kind && a.state == b.state &&
         a.axis == b.axis && a.axis_index == b.axis_index && a.axis_count == b.axis_count &&
         a.block == b.block && a.chunk == b.chunk && a.shard_index == b.shard_index &&
         a.shard_count == b.shard_count && a.micro_batch == b.micro_batch &&
         a.cp_index == b.cp_index && a.cp_count == b.cp_count && a.rows == b.rows &&
         a.columns == b.columns;
}

template <typename T, typename Equal>
std::optional<std::string> CompareLists(const char* name, const std::vector<T>& a,
                                        const std::vector<T>& b, Equal equal) {
  if (a.size() != b.size()) return StrCat(a.size(), " against ", b.size(), " ", name, "s");
  const auto [first, second] = std::mismatch(a.begin(), a.end(), b.begin(), equal);
  if (first == a.end()) return std::nullopt;
  return StrCat(name, " ", first - a.begin());
}

// Rendezvous of one graph against those of the other.
class RendezvousMap {
 public:
  RendezvousMap(const TaskGraph& a, const TaskGraph& b)
      : a_(a), b_(b), to_b_(a.rendezvous.size(), kNone), to_a_(b.rendezvous.size(), kNone) {}

  bool Matches(RendezvousId in_a, RendezvousId in_b) {
    if (in_a == kNone || in_b == kNone) return in_a == in_b;
    if (to_b_[in_a] == kNone && to_a_[in_b] == kNone) {
      to_b_[in_a] = in_b;
      to_a_[in_b] = in_a;
      return a_.rendezvous[in_a].participants == b_.rendezvous[in_b].participants &&
             Members(a_, in_a) == Members(b_, in_b);
    }
    return to_b_[in_a] == in_b && to_a_[in_b] == in_a;
  }

 private:
  static std::vector<std::uint32_t> Members(const TaskGraph& graph, RendezvousId id) {
    const GroupId group = graph.rendezvous[id].group;
    return group == kNone ? std::vector<std::uint32_t>() : graph.groups[group].members;
  }

  const TaskGraph& a_;
  const TaskGraph& b_;
  std::vector<RendezvousId> to_b_, to_a_;
};

}  // namespace

std::optional<std::string> FirstDifference(const TaskGraph& a, const TaskGraph& b) {
  const auto same = [](const auto& x, const auto& y) { return Same(x, y); };
  if (auto text = CompareLists("rank", a.ranks, b.ranks, same)) return text;
  if (auto text =
          CompareLists("rank's first task", a.rank_begin, b.rank_begin, std::equal_to<>())) {
    return text;
  }
  if (auto text = CompareLists("rank class", a.rank_class, b.rank_class, std::equal_to<>())) {
    return text;
  }
  if (auto text = CompareLists("buffer", a.buffers, b.buffers, same)) return text;
  if (auto text = CompareLists("tensor", a.tensors, b.tensors, same)) return text;
  RendezvousMap rendezvous(a, b);
  for (TaskId id = 0; id < a.TaskCount(); ++id) {
    const Task& x = a.tasks[id];
    const Task& y = b.tasks[id];
    const auto differs = [&](const char* what) {
      return StrCat("task ", id, " (", a.TaskName(id), " against ", b.TaskName(id), "): ", what);
    };
    if (x.rank != y.rank || x.kind != y.kind || x.lane != y.lane || x.phase != y.phase ||
        x.micro_batch != y.micro_batch || x.stage != y.stage || x.block != y.block ||
        x.chunk != y.chunk) {
      return differs("rank, kind, lane or tags");
    }
    if (a.shapes[x.shape] != b.shapes[y.shape]) return differs("shape");
    if (x.read_count != y.read_count || x.write_count != y.write_count) return differs("operands");
    for (std::uint32_t i = 0; i < std::uint32_t{x.read_count} + x.write_count; ++i) {
      const Operand& in_a = a.operands[x.operand_begin + i];
      const Operand& in_b = b.operands[y.operand_begin + i];
      if (in_a.buffer != in_b.buffer || (in_a.slice == 0) != (in_b.slice == 0) ||
          a.slices[in_a.slice] != b.slices[in_b.slice]) {
        return differs(StrCat("operand ", i).c_str());
      }
    }
    if (!rendezvous.Matches(x.rendezvous, y.rendezvous)) return differs("rendezvous");
    const auto successors_a = a.Successors(id);
    const auto successors_b = b.Successors(id);
    if (!std::equal(successors_a.begin(), successors_a.end(), successors_b.begin(),
                    successors_b.end())) {
      return differs("successors");
    }
  }
  return std::nullopt;
}

}  // namespace twinstep
