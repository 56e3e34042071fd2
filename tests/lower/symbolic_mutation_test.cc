// How sharp the symbolic proof is: in lowered graphs, a computation that reads another buffer of
// the same size is noticed, unless that buffer holds the very same bytes of the same value.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "sim/graph/symbolic.h"
#include "tests/lower/plan_matrix.h"

namespace twinstep {
namespace {

class OperandRecord : public SymbolicObserver {
 public:
  OperandRecord(TaskId task, std::size_t read) : task_(task), read_(read) {}
  void OnOperation(TaskId task, std::span<const SymbolicOperand> reads,
                   std::span<const SymbolicOperand>) override {
    if (task == task_) pieces_ = reads[read_].pieces;
  }
  const SymbolicPieces& pieces() const { return pieces_; }

 private:
  TaskId task_;
  std::size_t read_;
  SymbolicPieces pieces_;
};

bool SameValues(const SymbolicPieces& a, const SymbolicPieces& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const SymbolicPiece& x, const SymbolicPiece& y) {
                      return x.offset == y.offset && x.bytes == y.bytes && x.begin == y.begin &&
                             x.value == y.value;
                    });
}

// Whether what a task makes of its operand `read` comes to nothing: no task reads it, or only tasks
// whose results nobody needs (full recompute reruns a layer's last operations, too).
bool IsDead(const TaskGraph& graph, TaskId id, std::uint32_t read) {
  // A dropout's mask does not depend on the residual.
  const bool first_only =
      graph.shapes[graph.tasks[id].shape].op == OpCode::kDropoutAdd && read == 1;
  for (const Operand& written : graph.Writes(id).first(first_only ? 1 : graph.Writes(id).size())) {
    if (graph.buffers[written.buffer].persistent) return false;
    for (TaskId next = id + 1; next < graph.rank_begin[graph.tasks[id].rank + 1]; ++next) {
      const auto is_same = [&](const Operand& x) { return x.buffer == written.buffer; };
      const auto reads = graph.Reads(next);
      const auto writes = graph.Writes(next);
      const auto at = std::find_if(reads.begin(), reads.end(), is_same);
      if (at != reads.end() &&
          (graph.tasks[next].rendezvous != kNone ||
           !IsDead(graph, next, static_cast<std::uint32_t>(at - reads.begin())))) {
        return false;
      }
      if (std::any_of(writes.begin(), writes.end(), is_same)) break;
    }
  }
  return true;
}

TEST(SymbolicMutationTest, EveryOperandOfALoweredGraphMatters) {
  constexpr int kMutationsPerPlan = 12;
  std::mt19937 random(7);
  int noticed = 0;
  int harmless = 0;
  for (const MatrixCase& test_case : PlanMatrix()) {
    TaskGraph graph = LowerOrDie(test_case.model, test_case.plan, false);
    const Result<SymbolicResult> expected = RunSymbolic(graph);
    ASSERT_TRUE(expected.ok()) << expected.error().message;
    std::vector<std::vector<BufferId>> buffers(graph.ranks.size());
    for (BufferId id = 0; id < graph.buffers.size(); ++id) {
      buffers[graph.buffers[id].rank].push_back(id);
    }
    for (int done = 0; done < kMutationsPerPlan;) {
      const auto id = static_cast<TaskId>(random() % graph.TaskCount());
      const Task& task = graph.tasks[id];
      const OpCode op = graph.shapes[task.shape].op;
      if (task.rendezvous != kNone || task.read_count == 0 || op == OpCode::kCopyD2H ||
          op == OpCode::kCopyH2D || op == OpCode::kCopyOnDevice) {
        continue;
      }
      const auto read = static_cast<std::uint32_t>(random() % task.read_count);
      Operand& operand = graph.operands[task.operand_begin + read];
      const std::vector<BufferId>& candidates = buffers[task.rank];
      const BufferId other = candidates[random() % candidates.size()];
      if (other == operand.buffer ||
          graph.buffers[other].bytes != graph.buffers[operand.buffer].bytes) {
        continue;
      }
      ++done;
      OperandRecord original(id, read);
      ASSERT_TRUE(RunSymbolic(graph, &original).ok());
      const Operand kept = operand;
      operand.buffer = other;
      OperandRecord mutated(id, read);
      const Result<SymbolicResult> result = RunSymbolic(graph, &mutated);
      operand = kept;
      if (!result.ok() || result.value() != expected.value()) {
        ++noticed;
        continue;
      }
      ++harmless;
      EXPECT_TRUE(SameValues(original.pieces(), mutated.pieces()) || IsDead(graph, id, read))
          << test_case.name << ": read " << read << " of " << graph.TaskName(id)
          << " was not missed";
    }
  }
  EXPECT_GT(noticed, 20 * harmless);
  RecordProperty("noticed", noticed);
  RecordProperty("harmless", harmless);
}

}  // namespace
}  // namespace twinstep
