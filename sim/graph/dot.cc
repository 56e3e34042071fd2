#include "sim/graph/dot.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

namespace twinstep {
namespace {

std::string Number(std::uint64_t value) { return std::to_string(value); }

const char* Colour(Lane lane) {
  // Light enough for black text; copies blue, groups green, pipeline purple.
  static constexpr std::array<const char*, kLaneCount> kColours = {
      "#fdd49e", "#9ecae1", "#c6dbef", "#a1d99b", "#c7e9c0", "#e5f5e0",
      "#bcbddc", "#dadaeb", "#bcbddc", "#dadaeb", "#d9d9d9"};
  return kColours[static_cast<std::size_t>(lane)];
}

bool Share(std::span<const Operand> a, std::span<const Operand> b) {
  return std::any_of(a.begin(), a.end(), [b](const Operand& x) {
    return std::any_of(b.begin(), b.end(), [&x](const Operand& y) { return x.buffer == y.buffer; });
  });
}

const char* EdgeStyle(const TaskGraph& graph, TaskId source, TaskId target) {
  if (Share(graph.Writes(source), graph.Reads(target))) return "color=black, tooltip=RAW";
  if (Share(graph.Writes(source), graph.Writes(target))) return "color=red, tooltip=WAW";
  if (Share(graph.Reads(source), graph.Writes(target))) return "color=orange, tooltip=WAR";
  if (graph.tasks[source].lane == graph.tasks[target].lane) return "color=gray, tooltip=lane";
  return "color=black, style=dotted, tooltip=order";
}

class DotWriter {
 public:
  DotWriter(const TaskGraph& graph, const DotOptions& options)
      : graph_(graph), shown_(graph.ranks.size(), options.ranks.empty()) {
    for (const RankId rank : options.ranks) {
      if (rank < shown_.size()) shown_[rank] = true;
    }
  }

  std::string Write() {
    text_ =
        "digraph task_graph {\n"
        "  rankdir=LR;\n"
        "  node [shape=box, style=filled, fontsize=10];\n";
    for (RankId rank = 0; rank < graph_.ranks.size(); ++rank) {
      if (shown_[rank]) WriteRank(rank);
    }
    for (RankId rank = 0; rank < graph_.ranks.size(); ++rank) {
      if (shown_[rank]) WriteEdges(rank);
    }
    WriteRendezvous();
    return text_ + "}\n";
  }

 private:
  void WriteRank(RankId rank) {
    const RankInfo& info = graph_.ranks[rank];
    text_ +=
        "  subgraph cluster_" + Number(rank) + " {\n    label=\"rank " + Number(info.global_rank);
    if (info.class_size > 1) text_ += " and " + Number(info.class_size - 1) + " like it";
    text_ += "\";\n";
    for (TaskId id = graph_.rank_begin[rank]; id < graph_.rank_begin[rank + 1]; ++id) {
      const Lane lane = graph_.tasks[id].lane;
      // Nodes of one `group` stand in one line.
      text_ += "    t" + Number(id) + " [label=\"" + graph_.TaskName(id) + "\", group=\"" +
               Number(rank) + " " + Name(lane) + "\", fillcolor=\"" + Colour(lane) + "\"];\n";
    }
    text_ += "  }\n";
  }

  void WriteEdges(RankId rank) {
    for (TaskId id = graph_.rank_begin[rank]; id < graph_.rank_begin[rank + 1]; ++id) {
      for (const TaskId next : graph_.Successors(id)) {
        text_ += "  t" + Number(id) + " -> t" + Number(next) + " [" + EdgeStyle(graph_, id, next) +
                 "];\n";
      }
    }
  }

  void WriteRendezvous() {
    std::vector<std::vector<TaskId>> members(graph_.rendezvous.size());
    for (TaskId id = 0; id < graph_.TaskCount(); ++id) {
      const Task& task = graph_.tasks[id];
      if (task.rendezvous != kNone && shown_[task.rank]) members[task.rendezvous].push_back(id);
    }
    for (RendezvousId id = 0; id < members.size(); ++id) {
      if (members[id].empty()) continue;
      if (graph_.tasks[members[id].front()].kind == TaskKind::kCollective) {
        WriteHub(id, members[id]);
      } else if (members[id].size() == 2) {
        WritePair(members[id]);
      }
    }
  }

  void WriteHub(RendezvousId id, const std::vector<TaskId>& members) {
    const std::string hub = "v" + Number(id);
    text_ += "  " + hub + " [shape=point, tooltip=\"rendezvous " + Number(id) + "\"];\n";
    for (const TaskId member : members) {
      text_ += "  t" + Number(member) + " -> " + hub + " [style=dashed, dir=none];\n";
    }
  }

  void WritePair(const std::vector<TaskId>& members) {
    const bool first_sends = graph_.tasks[members[0]].kind == TaskKind::kSend;
    text_ += "  t" + Number(members[first_sends ? 0 : 1]) + " -> t" +
             Number(members[first_sends ? 1 : 0]) + " [style=dashed];\n";
  }

  const TaskGraph& graph_;
  std::vector<bool> shown_;  // By rank.
  std::string text_;
};

}  // namespace

std::string ToDot(const TaskGraph& graph, const DotOptions& options) {
  return DotWriter(graph, options).Write();
}

}  // namespace twinstep
