#include "sim/graph/symbolic.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "sim/str_cat.h"

namespace twinstep {
namespace {

// Operations whose results are sums of the field; every other result is a hash of its inputs.
bool IsSum(OpCode op) {
  return op == OpCode::kAdd || op == OpCode::kAccumulate || op == OpCode::kGradNorm;
}

std::size_t WeightRead(const OpShape& adam) {
  return (adam.flags & kMasterIsParameter) != 0 ? 3 : 1;
}

std::uint64_t PlaceKey(BufferId buffer, std::int64_t offset) {
  return field::Hash({buffer, static_cast<std::uint64_t>(offset)});
}

// Finds the tensor that lies at a byte of a buffer.
class TensorIndex {
 public:
  explicit TensorIndex(const TaskGraph& graph) : graph_(graph), places_(PlaceTensors(graph)) {
    for (std::uint32_t i = 0; i < places_.size(); ++i) {
      if (places_[i].bytes > 0) at_[PlaceKey(graph.tensors[i].buffer, places_[i].offset)] = i;
    }
  }
  const TensorInfo* Find(BufferId buffer, std::int64_t offset) const {
    const auto it = at_.find(PlaceKey(buffer, offset));
    return it == at_.end() ? nullptr : &graph_.tensors[it->second];
  }

 private:
  const TaskGraph& graph_;
  std::vector<TensorPlace> places_;
  std::unordered_map<std::uint64_t, std::uint32_t> at_;
};

std::uint64_t TensorKey(const TensorInfo& tensor) {
  return field::Hash({static_cast<std::uint64_t>(tensor.kind), LogicalBlock(tensor)});
}

std::int64_t OffsetOf(const TaskGraph& graph, const Operand& x) {
  return x.slice == 0 ? 0 : graph.slices[x.slice].offset;
}

// What the plain plan computes: every value, and what each micro-batch adds to each gradient.
class PlainRecord : public SymbolicObserver {
 public:
  struct Addend {
    std::uint32_t micro_batch;
    std::uint64_t v;
  };
  struct Gradient {
    std::uint64_t v = 0;
    const std::vector<Addend>* addends = nullptr;
  };

  explicit PlainRecord(const TaskGraph& plain) : plain_(plain), index_(plain) {}

  bool Knows(std::uint64_t v) const { return values_.contains(v); }
  const Gradient* GradientOf(const TensorInfo& tensor) const {
    const auto it = gradients_.find(TensorKey(tensor));
    return it == gradients_.end() ? nullptr : &it->second;
  }

  void OnOperation(TaskId id, std::span<const SymbolicOperand> reads,
                   std::span<const SymbolicOperand> writes) override {
    for (const auto& operands : {reads, std::span<const SymbolicOperand>(writes)}) {
      for (const SymbolicOperand& operand : operands) {
        for (const SymbolicPiece& piece : operand.pieces) values_.insert(piece.value.v);
      }
    }
    const Task& task = plain_.tasks[id];
    const OpShape& shape = plain_.shapes[task.shape];
    for (std::size_t i = FirstGradient(shape); i < writes.size(); ++i) {
      std::uint64_t v = writes[i].pieces[0].value.v;
      const std::size_t previous = PreviousGradient(shape, i);
      if (previous != kNone) v = field::Subtract(v, reads[previous].pieces[0].value.v);
      const Operand& x = plain_.Writes(id)[i];
      addends_[PlaceKey(x.buffer, OffsetOf(plain_, x))].push_back({task.micro_batch, v});
    }
    if (shape.op != OpCode::kAdam) return;
    const std::size_t weight = WeightRead(shape);
    const Operand& weights = plain_.Reads(id)[weight];
    const Operand& gradients = plain_.Reads(id)[0];
    for (std::size_t i = 0; i < reads[weight].pieces.size(); ++i) {
      const TensorInfo* tensor =
          index_.Find(weights.buffer, OffsetOf(plain_, weights) + reads[weight].pieces[i].offset);
      if (tensor == nullptr) continue;
      const SymbolicPiece& piece = reads[0].pieces[i];
      const std::uint64_t place =
          PlaceKey(gradients.buffer, OffsetOf(plain_, gradients) + piece.offset);
      gradients_[TensorKey(*tensor)] = {piece.value.v, &addends_[place]};
    }
  }

 private:
  const TaskGraph& plain_;
  TensorIndex index_;
  std::unordered_set<std::uint64_t> values_;
  std::unordered_map<std::uint64_t, std::vector<Addend>> addends_;  // By place of the gradient.
  std::unordered_map<std::uint64_t, Gradient> gradients_;           // By tensor.
};

// " ; it lacks micro-batches 4..7", where a run of micro-batches explains the difference.
std::string ExplainGradient(std::uint64_t found, const PlainRecord::Gradient& expected) {
  // Prefix sums of the addends: a run [i, j) sums to prefix[j] - prefix[i].
  const std::vector<PlainRecord::Addend>& addends = *expected.addends;
  const std::uint64_t lacking = field::Subtract(expected.v, found);
  std::unordered_map<std::uint64_t, std::size_t> before;
  std::uint64_t prefix = 0;
  for (std::size_t end = 0; end <= addends.size(); ++end) {
    for (const bool lacks : {true, false}) {
      const auto it =
          before.find(lacks ? field::Subtract(prefix, lacking) : field::Add(prefix, lacking));
      if (it == before.end()) continue;
      std::string text = StrCat(lacks ? "; it lacks" : "; it counts twice", " micro-batch ",
                                addends[it->second].micro_batch);
      if (end - it->second > 1) text += StrCat(" to ", addends[end - 1].micro_batch);
      return text;
    }
    before.emplace(prefix, end);
    if (end < addends.size()) prefix = field::Add(prefix, addends[end].v);
  }
  return "";
}

// Finds the first task that reads, computes or updates what the plain plan does not.
class FirstDifference : public SymbolicObserver {
 public:
  FirstDifference(const TaskGraph& graph, const PlainRecord& plain)
      : graph_(graph), index_(graph), plain_(plain) {}

  const std::optional<Error>& error() const { return error_; }

  void OnOperation(TaskId id, std::span<const SymbolicOperand> reads,
                   std::span<const SymbolicOperand> writes) override {
    if (error_.has_value()) return;
    const OpShape& shape = graph_.shapes[graph_.tasks[id].shape];
    if (shape.op == OpCode::kAdam) return CheckGradients(id, reads);
    if (IsSum(shape.op)) return;
    // Gradients that are added to are sums of some of the micro-batches, which the plain plan may
    // never hold.
    const std::size_t hashes = std::min(FirstGradient(shape), writes.size());
    std::size_t inputs = reads.size();
    for (std::size_t i = hashes; i < writes.size(); ++i) {
      inputs = std::min(inputs, PreviousGradient(shape, i));
    }
    for (std::size_t i = 0; i < inputs; ++i) {
      if (Differs(reads[i])) return Report(id, i, "reads a value that the plain plan never has");
    }
    for (std::size_t i = 0; i < hashes; ++i) {
      if (Differs(writes[i])) {
        return Report(id, reads.size() + i, "computes a value that the plain plan never has");
      }
    }
  }

 private:
  bool Differs(const SymbolicOperand& operand) const {
    return std::any_of(operand.pieces.begin(), operand.pieces.end(), [&](const auto& piece) {
      return piece.value.partial == PartialAxis::kComplete && !plain_.Knows(piece.value.v);
    });
  }

  void Report(TaskId id, std::size_t operand, const std::string& text) {
    const Task& task = graph_.tasks[id];
    const Operand& x = graph_.operands[task.operand_begin + operand];
    Error error;
    error.code = ExitCode::kNo;
    error.rule = "symbolic";
    error.rank = graph_.ranks[task.rank].global_rank;
    const bool read = operand < task.read_count;
    error.message =
        StrCat("symbolic: task ", id, " (", graph_.TaskName(id), "): ", read ? "read " : "write ",
               read ? operand : operand - task.read_count, " (",
               Name(graph_.buffers[x.buffer].role), " buffer ", x.buffer, ") ", text);
    error_ = std::move(error);
  }

  void CheckGradients(TaskId id, std::span<const SymbolicOperand> reads) {
    const std::size_t weight = WeightRead(graph_.shapes[graph_.tasks[id].shape]);
    const Operand& weights = graph_.Reads(id)[weight];
    for (std::size_t i = 0; i < reads[weight].pieces.size(); ++i) {
      const TensorInfo* tensor =
          index_.Find(weights.buffer, OffsetOf(graph_, weights) + reads[weight].pieces[i].offset);
      if (tensor == nullptr) continue;
      const PlainRecord::Gradient* expected = plain_.GradientOf(*tensor);
      const SymbolicTensor named{LogicalBlock(*tensor), tensor->kind, StateKind::kGradient, 0};
      if (expected == nullptr) {
        return Report(id, weight,
                      StrCat("updates ", Name(tensor->kind), ", which the plain plan does not"));
      }
      const std::uint64_t found = reads[0].pieces[i].value.v;
      if (found == expected->v) continue;
      return Report(id, 0,
                    StrCat("reads a ", Describe(named), " that is not the plain plan's",
                           ExplainGradient(found, *expected)));
    }
    for (std::size_t i = 1; i < reads.size(); ++i) {
      if (Differs(reads[i])) return Report(id, i, "reads a value that the plain plan never has");
    }
  }

  const TaskGraph& graph_;
  TensorIndex index_;
  const PlainRecord& plain_;
  std::optional<Error> error_;
};

Error Unequal(std::string text) {
  Error error;
  error.code = ExitCode::kNo;
  error.rule = "symbolic";
  error.message = "symbolic: " + std::move(text);
  return error;
}

// Differences that no task shows: what is computed rightly but kept or counted wrongly.
Error CompareResults(const SymbolicResult& found, const SymbolicResult& expected) {
  for (std::size_t i = 0; i < std::min(found.tensors.size(), expected.tensors.size()); ++i) {
    if (found.tensors[i] == expected.tensors[i]) continue;
    SymbolicTensor same_key = found.tensors[i];
    same_key.hash = expected.tensors[i].hash;
    if (same_key == expected.tensors[i]) {
      return Unequal(StrCat("the ", Describe(same_key), " is not the plain plan's"));
    }
    return Unequal(StrCat("the graph holds the ", Describe(found.tensors[i]),
                          " where the plain plan holds the ", Describe(expected.tensors[i])));
  }
  if (found.tensors.size() != expected.tensors.size()) {
    return Unequal(StrCat("the graph holds ", found.tensors.size(),
                          " weights and optimizer states, the plain plan ",
                          expected.tensors.size()));
  }
  return Unequal("the loss is not the plain plan's");
}

}  // namespace

Status ProveEqual(const TaskGraph& graph, const TaskGraph& plain) {
  const Result<SymbolicResult> expected = RunSymbolic(plain);
  if (!expected.ok()) {
    Error error = expected.error();
    error.message = "the plain plan: " + error.message;
    return error;
  }
  const Result<SymbolicResult> found = RunSymbolic(graph);
  if (found.ok() && found.value() == expected.value()) return Unit{};

  // Once more, to name the first task that went wrong: an error that a later task met may be a
  // consequence of it.
  PlainRecord record(plain);
  FirstDifference difference(graph, record);
  if (RunSymbolic(plain, &record).ok()) {
    const Result<SymbolicResult> again = RunSymbolic(graph, &difference);
    if (difference.error().has_value()) return *difference.error();
    if (!again.ok()) return again.error();
  }
  return CompareResults(found.value(), expected.value());
}

}  // namespace twinstep
