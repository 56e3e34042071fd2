#include "tests/graph/mutation.h"

#include <map>
#include <tuple>
#include <utility>

#include "sim/graph/verifier.h"
#include "tests/graph/closure_oracle.h"

namespace twinstep {
namespace {

using Edges = std::vector<std::pair<TaskId, TaskId>>;
using MaybeGraph = std::optional<TaskGraph>;

// Places are drawn, not listed, where nearly any will do.
constexpr int kDraws = 200;

Edges ListEdges(const TaskGraph& graph) {
  Edges edges;
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    for (const TaskId next : graph.Successors(id)) edges.emplace_back(id, next);
  }
  return edges;
}

// Moves the task's operands to the end, so that they can grow.
void AddOperand(TaskGraph& graph, TaskId id, const Operand& operand, bool writes) {
  Task& task = graph.tasks[id];
  const std::uint32_t begin = task.operand_begin;
  const std::uint32_t count = std::uint32_t{task.read_count} + task.write_count;
  task.operand_begin = static_cast<std::uint32_t>(graph.operands.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!writes && i == task.read_count) graph.operands.push_back(operand);
    graph.operands.push_back(Operand(graph.operands[begin + i]));
  }
  if (writes || task.write_count == 0) graph.operands.push_back(operand);
  ++(writes ? task.write_count : task.read_count);
}

class Mutator {
 public:
  Mutator(const TaskGraph& graph, std::mt19937_64& random) : graph_(graph), random_(random) {}

  MaybeGraph Apply(Mutation mutation) {
    if (graph_.tasks.empty()) return std::nullopt;
    switch (mutation) {
      case Mutation::kReverseEdge:
        return ReverseEdge();
      case Mutation::kSwapInLane:
        return SwapInLane();
      case Mutation::kDropWrite:
        return DropWrite();
      case Mutation::kReadUnwritten:
        return ReadUnwritten();
      case Mutation::kUnorderedWrites:
        return ShareBuffer(false);
      case Mutation::kOrderedWrites:
        return ShareBuffer(true);
      case Mutation::kDropParticipant:
        return DropParticipant();
      case Mutation::kExtraParticipant:
        return ExtraParticipant();
      case Mutation::kOtherSize:
        return OtherSize();
      case Mutation::kSwapRendezvous:
        return SwapRendezvous();
      case Mutation::kForeignBuffer:
        return ForeignBuffer();
      case Mutation::kUnknownBuffer:
        return UnknownBuffer();
      case Mutation::kEdgeAcrossRanks:
        return EdgeAcrossRanks();
    }
    return std::nullopt;
  }

 private:
  std::uint32_t Below(std::size_t bound) { return static_cast<std::uint32_t>(random_() % bound); }
  TaskId AnyTask() { return Below(graph_.tasks.size()); }

  template <typename Accepts>
  std::optional<TaskId> AnyTaskThat(Accepts accepts) {
    for (int i = 0; i < kDraws; ++i) {
      const TaskId id = AnyTask();
      if (accepts(graph_.tasks[id])) return id;
    }
    return std::nullopt;
  }

  MaybeGraph ReverseEdge() {
    Edges edges = ListEdges(graph_);
    if (edges.empty()) return std::nullopt;
    const auto [source, target] = edges[Below(edges.size())];
    edges.emplace_back(target, source);
    TaskGraph mutant = graph_;
    mutant.edges = FreezeEdges(mutant.TaskCount(), edges);
    return mutant;
  }

  MaybeGraph SwapInLane() {
    const TaskId first = AnyTask();
    const Task& task = graph_.tasks[first];
    TaskId second = first + 1;
    while (second < graph_.rank_begin[task.rank + 1] && graph_.tasks[second].lane != task.lane) {
      ++second;
    }
    if (second == graph_.rank_begin[task.rank + 1]) return std::nullopt;
    TaskGraph mutant = graph_;
    std::swap(mutant.tasks[first], mutant.tasks[second]);
    Edges edges = ListEdges(graph_);
    const auto renamed = [&](TaskId id) {
      return id == first ? second : id == second ? first : id;
    };
    for (auto& [source, target] : edges) {
      source = renamed(source);
      target = renamed(target);
    }
    mutant.edges = FreezeEdges(mutant.TaskCount(), edges);
    return mutant;
  }

  MaybeGraph DropWrite() {
    // By buffer: the first access, if it only writes, and whether the second one reads.
    struct First {
      TaskId task = kNone;
      bool only_writes = false, closed = false, candidate = false;
    };
    std::vector<First> firsts(graph_.buffers.size());
    for (TaskId id = 0; id < graph_.TaskCount(); ++id) {
      for (const Operand& x : graph_.Reads(id)) {
        First& first = firsts[x.buffer];
        if (first.task == kNone) {
          first.task = id;
        } else if (first.task != id && !std::exchange(first.closed, true)) {
          first.candidate = first.only_writes;
        }
      }
      for (const Operand& x : graph_.Writes(id)) {
        First& first = firsts[x.buffer];
        if (first.task == kNone) {
          first.task = id;
          first.only_writes = true;
        } else {
          first.closed = true;
        }
      }
    }
    std::vector<BufferId> places;
    for (BufferId id = 0; id < firsts.size(); ++id) {
      if (firsts[id].candidate && !graph_.buffers[id].persistent) places.push_back(id);
    }
    if (places.empty()) return std::nullopt;
    const BufferId buffer = places[Below(places.size())];
    TaskGraph mutant = graph_;
    Task& task = mutant.tasks[firsts[buffer].task];
    const auto writes = mutant.operands.begin() + task.operand_begin + task.read_count;
    for (std::uint16_t i = 0; i < task.write_count; ++i) {
      if (writes[i].buffer == buffer) std::swap(writes[i--], writes[--task.write_count]);
    }
    return mutant;
  }

  MaybeGraph ReadUnwritten() {
    TaskGraph mutant = graph_;
    const TaskId id = AnyTask();
    Buffer buffer;
    buffer.bytes = 1;
    buffer.rank = graph_.tasks[id].rank;
    mutant.buffers.push_back(buffer);
    AddOperand(mutant, id, {.buffer = static_cast<BufferId>(graph_.buffers.size())}, false);
    return mutant;
  }

  // Two tasks write a new buffer. `ordered`: whether a path joins them.
  MaybeGraph ShareBuffer(bool ordered) {
    const ClosureOracle oracle(graph_);
    for (int i = 0; i < kDraws; ++i) {
      const TaskId a = AnyTask();
      const RankId rank = graph_.tasks[a].rank;
      const TaskId b = a + Below(graph_.rank_begin[rank + 1] - a);
      if (a == b || oracle.Precedes(a, b) != ordered) continue;
      TaskGraph mutant = graph_;
      Buffer buffer;
      buffer.bytes = 1;
      buffer.rank = rank;
      mutant.buffers.push_back(buffer);
      const Operand operand{.buffer = static_cast<BufferId>(graph_.buffers.size())};
      AddOperand(mutant, a, operand, true);
      AddOperand(mutant, b, operand, true);
      return mutant;
    }
    return std::nullopt;
  }

  MaybeGraph DropParticipant() {
    const auto id = AnyTaskThat([](const Task& task) { return task.rendezvous != kNone; });
    if (!id.has_value()) return std::nullopt;
    TaskGraph mutant = graph_;
    mutant.shapes.push_back({.op = OpCode::kAdd});
    Task& task = mutant.tasks[*id];
    task.rendezvous = kNone;
    task.kind = TaskKind::kCompute;
    task.shape = static_cast<ShapeId>(graph_.shapes.size());
    return mutant;
  }

  MaybeGraph ExtraParticipant() {
    if (graph_.rendezvous.empty()) return std::nullopt;
    TaskGraph mutant = graph_;
    ++mutant.rendezvous[Below(graph_.rendezvous.size())].participants;
    return mutant;
  }

  MaybeGraph OtherSize() {
    const auto id = AnyTaskThat([this](const Task& task) {
      return task.rendezvous != kNone && graph_.rendezvous[task.rendezvous].participants > 1;
    });
    if (!id.has_value()) return std::nullopt;
    TaskGraph mutant = graph_;
    OpShape shape = graph_.shapes[graph_.tasks[*id].shape];
    ++shape.dims[0];
    mutant.shapes.push_back(shape);
    mutant.tasks[*id].shape = static_cast<ShapeId>(graph_.shapes.size());
    return mutant;
  }

  MaybeGraph SwapRendezvous() {
    // Tasks of one rank that could stand for each other: same operation, size and group.
    std::map<std::tuple<RankId, ShapeId, GroupId>, TaskId> last;
    std::vector<std::pair<TaskId, TaskId>> places;
    for (TaskId id = 0; id < graph_.TaskCount(); ++id) {
      const Task& task = graph_.tasks[id];
      if (task.rendezvous == kNone) continue;
      const Rendezvous& rendezvous = graph_.rendezvous[task.rendezvous];
      if (rendezvous.group == kNone || rendezvous.participants < 2) continue;
      const auto [it, is_new] = last.try_emplace({task.rank, task.shape, rendezvous.group}, id);
      if (!is_new) places.emplace_back(std::exchange(it->second, id), id);
    }
    if (places.empty()) return std::nullopt;
    const auto [a, b] = places[Below(places.size())];
    TaskGraph mutant = graph_;
    std::swap(mutant.tasks[a].rendezvous, mutant.tasks[b].rendezvous);
    return mutant;
  }

  MaybeGraph ForeignBuffer() {
    const auto id = AnyTaskThat(
        [](const Task& task) { return std::uint32_t{task.read_count} + task.write_count > 0; });
    if (!id.has_value()) return std::nullopt;
    for (int i = 0; i < kDraws; ++i) {
      const BufferId buffer = Below(graph_.buffers.size());
      if (graph_.buffers[buffer].rank == graph_.tasks[*id].rank) continue;
      TaskGraph mutant = graph_;
      mutant.operands[graph_.tasks[*id].operand_begin] = {.buffer = buffer};
      return mutant;
    }
    return std::nullopt;
  }

  MaybeGraph UnknownBuffer() {
    const auto id = AnyTaskThat(
        [](const Task& task) { return std::uint32_t{task.read_count} + task.write_count > 0; });
    if (!id.has_value()) return std::nullopt;
    TaskGraph mutant = graph_;
    mutant.operands[graph_.tasks[*id].operand_begin].buffer =
        static_cast<BufferId>(graph_.buffers.size());
    return mutant;
  }

  MaybeGraph EdgeAcrossRanks() {
    for (int i = 0; i < kDraws; ++i) {
      const TaskId source = AnyTask();
      const TaskId target = AnyTask();
      if (graph_.tasks[source].rank == graph_.tasks[target].rank) continue;
      Edges edges = ListEdges(graph_);
      edges.emplace_back(source, target);
      TaskGraph mutant = graph_;
      mutant.edges = FreezeEdges(mutant.TaskCount(), edges);
      return mutant;
    }
    return std::nullopt;
  }

  const TaskGraph& graph_;
  std::mt19937_64& random_;
};

std::string Found(const std::optional<Violation>& violation) {
  return violation.has_value() ? "Verify reports " + violation->message : "Verify finds nothing";
}

void TestEdges(const TaskGraph& graph, const MutationOptions& options, std::mt19937_64& random,
               MutationReport& report) {
  const ClosureOracle oracle(graph);
  const Edges edges = ListEdges(graph);
  const bool all = edges.size() <= options.edges;
  TaskGraph mutant = graph;
  auto& rows = mutant.edges.m_forward.m_rowstart;
  auto& columns = mutant.edges.m_forward.m_column;
  for (std::uint32_t i = 0; i < (all ? edges.size() : options.edges); ++i) {
    const auto index = all ? i : static_cast<std::uint32_t>(random() % edges.size());
    const auto [source, target] = edges[index];
    columns.erase(columns.begin() + index);
    for (TaskId row = source + 1; row < rows.size(); ++row) --rows[row];
    const std::optional<Violation> violation = Verify(mutant);
    columns.insert(columns.begin() + index, target);
    for (TaskId row = source + 1; row < rows.size(); ++row) ++rows[row];

    const bool needed = oracle.IsNeeded(source, target);
    ++report.edges_tried;
    report.edges_needed += needed ? 1 : 0;
    if (needed != violation.has_value()) {
      report.failures.push_back("without the edge from \"" + graph.TaskName(source) + "\" (task " +
                                std::to_string(source) + ") to \"" + graph.TaskName(target) +
                                "\" (task " + std::to_string(target) + "), which is " +
                                (needed ? "needed, " : "not needed, ") + Found(violation));
    }
  }
}

}  // namespace

const char* Name(Mutation mutation) {
  static constexpr std::array<const char*, kMutationCount> kNames = {
      "reverse-edge",     "swap-in-lane",    "drop-write",       "read-unwritten",
      "unordered-writes", "ordered-writes",  "drop-participant", "extra-participant",
      "other-size",       "swap-rendezvous", "foreign-buffer",   "unknown-buffer",
      "edge-across-ranks"};
  return kNames[static_cast<std::size_t>(mutation)];
}

std::optional<Rule> Breaks(Mutation mutation) {
  switch (mutation) {
    case Mutation::kReverseEdge:
      return Rule::kCycle;
    case Mutation::kSwapInLane:
      return Rule::kIssueOrder;
    case Mutation::kDropWrite:
    case Mutation::kReadUnwritten:
      return Rule::kReadBeforeWrite;
    case Mutation::kUnorderedWrites:
      return Rule::kHazard;
    case Mutation::kOrderedWrites:
      return std::nullopt;
    case Mutation::kDropParticipant:
    case Mutation::kExtraParticipant:
    case Mutation::kOtherSize:
      return Rule::kRendezvousIncomplete;
    case Mutation::kSwapRendezvous:
      return Rule::kRendezvousCycle;
    case Mutation::kForeignBuffer:
    case Mutation::kUnknownBuffer:
    case Mutation::kEdgeAcrossRanks:
      return Rule::kStructure;
  }
  return std::nullopt;
}

std::optional<TaskGraph> Mutate(const TaskGraph& graph, Mutation mutation,
                                std::mt19937_64& random) {
  return Mutator(graph, random).Apply(mutation);
}

MutationReport TestMutations(const TaskGraph& graph, const MutationOptions& options) {
  MutationReport report;
  std::mt19937_64 random(options.seed);
  if (const std::optional<Violation> violation = Verify(graph)) {
    report.failures.push_back("unchanged, " + Found(violation));
    return report;
  }
  TestEdges(graph, options, random, report);
  for (int kind = 0; kind < kMutationCount; ++kind) {
    const auto mutation = static_cast<Mutation>(kind);
    const std::optional<Rule> expected = Breaks(mutation);
    for (std::uint32_t i = 0; i < options.mutants; ++i) {
      const std::optional<TaskGraph> mutant = Mutate(graph, mutation, random);
      if (!mutant.has_value()) continue;
      ++report.mutants[static_cast<std::size_t>(kind)];
      const std::optional<Violation> violation = Verify(*mutant);
      const bool right = violation.has_value() == expected.has_value() &&
                         (!violation.has_value() || violation->rule == *expected);
      if (!right) {
        report.failures.push_back(std::string("after ") + Name(mutation) + ", which breaks " +
                                  (expected.has_value() ? Name(*expected) : "nothing") + ", " +
                                  Found(violation));
      }
    }
  }
  return report;
}

}  // namespace twinstep
