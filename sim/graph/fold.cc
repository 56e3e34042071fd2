#include "sim/graph/fold.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/str_cat.h"

namespace twinstep {
namespace {

// A task of a class: the same place in the program of each of its members.
struct ClassTask {
  std::uint32_t class_index = 0, local = 0;
  auto operator<=>(const ClassTask&) const = default;
};

class Folder {
 public:
  Folder(const TaskGraph& graph, std::span<const std::uint32_t> class_of)
      : graph_(graph), class_of_(class_of) {}

  Result<TaskGraph> Run() {
    if (std::optional<Error> error = ListClasses()) return *std::move(error);
    MeetingsByClass();
    for (RankId rank = 0; rank < graph_.ranks.size(); ++rank) {
      const RankId representative = representative_[class_of_[rank]];
      if (rank == representative) continue;
      if (std::optional<Error> error = CompareRanks(representative, rank)) return *std::move(error);
    }
    return Emit();
  }

 private:
  std::optional<Error> ListClasses();
  void MeetingsByClass();
  std::optional<Error> CompareRanks(RankId a, RankId b) const;
  TaskGraph Emit() const;

  TaskId TaskOf(RankId rank, std::uint32_t local) const { return graph_.rank_begin[rank] + local; }
  std::uint32_t TaskCountOf(RankId rank) const {
    return graph_.rank_begin[rank + 1] - graph_.rank_begin[rank];
  }

  const TaskGraph& graph_;
  std::span<const std::uint32_t> class_of_;
  std::vector<RankId> representative_;
  std::vector<std::uint32_t> size_;
  // By rendezvous: number of the set of class tasks that meet in it, equal for equal sets.
  std::vector<std::uint32_t> meeting_;
  std::vector<std::uint32_t> meeting_size_;
};

std::optional<Error> Folder::ListClasses() {
  if (graph_.IsFolded()) return Error{.message = "fold: the graph is folded already"};
  if (class_of_.size() != graph_.ranks.size()) {
    return Error{.message = StrCat("fold: classes of ", class_of_.size(), " ranks for a graph of ",
                                   graph_.ranks.size())};
  }
  for (RankId rank = 0; rank < class_of_.size(); ++rank) {
    if (class_of_[rank] > representative_.size()) {
      return Error{.message = StrCat("fold: rank ", rank, " is of class ", class_of_[rank],
                                     " where class ", representative_.size(), " comes next")};
    }
    if (class_of_[rank] == representative_.size()) {
      representative_.push_back(rank);
      size_.push_back(0);
    }
    ++size_[class_of_[rank]];
  }
  return std::nullopt;
}

void Folder::MeetingsByClass() {
  std::vector<std::vector<ClassTask>> members(graph_.rendezvous.size());
  for (RankId rank = 0; rank < graph_.ranks.size(); ++rank) {
    for (std::uint32_t local = 0; local < TaskCountOf(rank); ++local) {
      const RendezvousId rendezvous = graph_.tasks[TaskOf(rank, local)].rendezvous;
      if (rendezvous != kNone) members[rendezvous].push_back({class_of_[rank], local});
    }
  }
  std::map<std::vector<ClassTask>, std::uint32_t> ids;
  meeting_.reserve(members.size());
  meeting_size_.reserve(members.size());
  for (std::vector<ClassTask>& tasks : members) {
    meeting_size_.push_back(static_cast<std::uint32_t>(tasks.size()));
    std::sort(tasks.begin(), tasks.end());
    tasks.erase(std::unique(tasks.begin(), tasks.end()), tasks.end());
    meeting_.push_back(
        ids.try_emplace(std::move(tasks), static_cast<std::uint32_t>(ids.size())).first->second);
  }
}

std::optional<Error> Folder::CompareRanks(RankId a, RankId b) const {
  const std::uint32_t common = std::min(TaskCountOf(a), TaskCountOf(b));
  std::unordered_map<BufferId, BufferId> partner;  // Of a's buffers among b's, and the reverse.
  const auto pairs = [&](BufferId x, BufferId y) {
    const auto [of_x, new_x] = partner.try_emplace(x, y);
    const auto [of_y, new_y] = partner.try_emplace(y, x);
    return of_x->second == y && of_y->second == x;
  };
  const auto error = [&](std::uint32_t local, const std::string& what) {
    Error result{.code = ExitCode::kNo, .rule = "not-symmetric"};
    result.rank = graph_.ranks[b].global_rank;
    result.message = StrCat("fold: ranks ", graph_.ranks[a].global_rank, " and ",
                            graph_.ranks[b].global_rank, " are not symmetric: ");
    if (local < common) {
      result.message += StrCat("task ", local, " of each (", graph_.TaskName(TaskOf(a, local)),
                               ", ", graph_.TaskName(TaskOf(b, local)), ") ");
    }
    result.message += what;
    return result;
  };
  for (std::uint32_t local = 0; local < common; ++local) {
    const TaskId id_a = TaskOf(a, local);
    const TaskId id_b = TaskOf(b, local);
    const Task& x = graph_.tasks[id_a];
    const Task& y = graph_.tasks[id_b];
    if (x.kind != y.kind || x.lane != y.lane || x.phase != y.phase ||
        x.micro_batch != y.micro_batch || x.stage != y.stage || x.block != y.block ||
        x.chunk != y.chunk) {
      return error(local, "differs in kind, lane or tags");
    }
    if (x.shape != y.shape &&
        WorkShape(graph_.shapes[x.shape]) != WorkShape(graph_.shapes[y.shape])) {
      return error(local, "differs in shape");
    }
    if (x.read_count != y.read_count || x.write_count != y.write_count) {
      return error(local, "differs in its number of operands");
    }
    for (std::uint32_t i = 0; i < std::uint32_t{x.read_count} + x.write_count; ++i) {
      const Operand& of_a = graph_.operands[x.operand_begin + i];
      const Operand& of_b = graph_.operands[y.operand_begin + i];
      const Buffer& in_a = graph_.buffers[of_a.buffer];
      const Buffer& in_b = graph_.buffers[of_b.buffer];
      if (!pairs(of_a.buffer, of_b.buffer) || in_a.bytes != in_b.bytes || in_a.pool != in_b.pool ||
          in_a.dtype != in_b.dtype || in_a.role != in_b.role ||
          in_a.persistent != in_b.persistent ||
          graph_.OperandBytes(of_a) != graph_.OperandBytes(of_b)) {
        return error(local, StrCat("differs in operand ", i));
      }
    }
    if ((x.rendezvous == kNone) != (y.rendezvous == kNone)) {
      return error(local, "meets others on one of them only");
    }
    if (x.rendezvous != kNone) {
      if (meeting_[x.rendezvous] != meeting_[y.rendezvous] ||
          meeting_size_[x.rendezvous] != meeting_size_[y.rendezvous]) {
        return error(local, "meets other classes, or at other places of their programs");
      }
    }
    const auto after_a = graph_.Successors(id_a);
    const auto after_b = graph_.Successors(id_b);
    const TaskId shift = graph_.rank_begin[b] - graph_.rank_begin[a];
    if (!std::equal(after_a.begin(), after_a.end(), after_b.begin(), after_b.end(),
                    [shift](TaskId of_a, TaskId of_b) { return of_a + shift == of_b; })) {
      return error(local, "differs in what waits for it");
    }
  }
  if (TaskCountOf(a) != TaskCountOf(b)) {
    return error(common, StrCat("they run ", TaskCountOf(a), " and ", TaskCountOf(b), " tasks"));
  }
  return std::nullopt;
}

// Numbers values in the order of their first use.
template <typename Key>
class Renumbering {
 public:
  explicit Renumbering(std::size_t size) : to_(size, kNone) {}
  // The new number; calls `add` when there is none yet.
  template <typename AddNew>
  std::uint32_t Of(Key old, AddNew add) {
    if (to_[old] == kNone) {
      to_[old] = next_++;
      add();
    }
    return to_[old];
  }

 private:
  std::vector<std::uint32_t> to_;
  std::uint32_t next_ = 0;
};

TaskGraph Folder::Emit() const {
  TaskGraph folded;
  folded.rank_class.assign(class_of_.begin(), class_of_.end());
  // Buffers of the representatives, in their order.
  std::vector<RankId> new_rank(graph_.ranks.size(), kNone);
  for (std::uint32_t i = 0; i < representative_.size(); ++i) new_rank[representative_[i]] = i;
  std::vector<BufferId> new_buffer(graph_.buffers.size(), kNone);
  for (BufferId id = 0; id < graph_.buffers.size(); ++id) {
    Buffer buffer = graph_.buffers[id];
    if (new_rank[buffer.rank] == kNone) continue;
    buffer.rank = new_rank[buffer.rank];
    new_buffer[id] = static_cast<BufferId>(folded.buffers.size());
    folded.buffers.push_back(buffer);
  }
  for (TensorInfo tensor : graph_.tensors) {
    if (new_buffer[tensor.buffer] == kNone) continue;
    tensor.buffer = new_buffer[tensor.buffer];
    folded.tensors.push_back(tensor);
  }

  Renumbering<ShapeId> shapes(graph_.shapes.size());
  Renumbering<SliceId> slices(graph_.slices.size());
  slices.Of(0, [] {});
  Renumbering<GroupId> groups(graph_.groups.size());
  Renumbering<std::uint32_t> meetings(graph_.rendezvous.size());
  std::vector<std::pair<TaskId, TaskId>> edges;
  for (std::uint32_t i = 0; i < representative_.size(); ++i) {
    const RankId rank = representative_[i];
    const auto first = static_cast<TaskId>(folded.tasks.size());
    folded.rank_begin.push_back(first);
    RankInfo info = graph_.ranks[rank];
    info.class_size = size_[i];
    folded.ranks.push_back(info);
    for (std::uint32_t local = 0; local < TaskCountOf(rank); ++local) {
      const TaskId id = TaskOf(rank, local);
      Task task = graph_.tasks[id];
      task.rank = i;
      task.shape = shapes.Of(graph_.tasks[id].shape, [&] {
        folded.shapes.push_back(graph_.shapes[graph_.tasks[id].shape]);
      });
      task.operand_begin = static_cast<std::uint32_t>(folded.operands.size());
      for (std::uint32_t k = 0; k < std::uint32_t{task.read_count} + task.write_count; ++k) {
        const Operand& x = graph_.operands[graph_.tasks[id].operand_begin + k];
        const SliceId slice =
            slices.Of(x.slice, [&] { folded.slices.push_back(graph_.slices[x.slice]); });
        folded.operands.push_back({.buffer = new_buffer[x.buffer], .slice = slice});
      }
      if (task.rendezvous != kNone) {
        const Rendezvous& rendezvous = graph_.rendezvous[task.rendezvous];
        task.rendezvous = meetings.Of(meeting_[task.rendezvous], [&] {
          const GroupId group =
              rendezvous.group == kNone ? kNone : groups.Of(rendezvous.group, [&] {
                folded.groups.push_back(graph_.groups[rendezvous.group]);
              });
          folded.rendezvous.push_back({.group = group, .participants = 0});
        });
        ++folded.rendezvous[task.rendezvous].participants;
      }
      folded.tasks.push_back(task);
      for (const TaskId next : graph_.Successors(id)) {
        edges.emplace_back(first + local, first + (next - graph_.rank_begin[rank]));
      }
    }
  }
  folded.rank_begin.push_back(folded.TaskCount());
  folded.edges = FreezeEdges(folded.TaskCount(), edges);
  return folded;
}

}  // namespace

Result<TaskGraph> Fold(const TaskGraph& graph, std::span<const std::uint32_t> class_of) {
  return Folder(graph, class_of).Run();
}

}  // namespace twinstep
