#include "sim/graph/symbolic_run.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/graph/symbolic_memory.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

Error BadGraph(std::string text) {
  Error error;
  error.message = "symbolic: " + std::move(text);
  return error;
}

std::optional<Error> CheckStructure(const TaskGraph& graph) {
  if (graph.IsFolded())
    return BadGraph("the graph is folded; only unfolded graphs have all shards");
  if (graph.rank_begin.size() != graph.ranks.size() + 1 ||
      graph.rank_begin.back() != graph.tasks.size()) {
    return BadGraph("the graph's rank ranges do not cover its tasks");
  }
  const auto outside = [&](const Operand& x) {
    if (x.buffer >= graph.buffers.size() || x.slice >= graph.slices.size()) return true;
    if (x.slice == 0) return false;
    const Slice& slice = graph.slices[x.slice];
    return slice.offset < 0 || slice.bytes < 0 ||
           slice.offset + slice.bytes > graph.buffers[x.buffer].bytes;
  };
  for (RankId rank = 0; rank < graph.ranks.size(); ++rank) {
    for (TaskId id = graph.rank_begin[rank]; id < graph.rank_begin[rank + 1]; ++id) {
      const Task& task = graph.tasks[id];
      if (task.rank != rank)
        return BadGraph(StrCat("task ", id, " lies in rank ", rank, "'s range"));
      if (task.shape >= graph.shapes.size() ||
          std::size_t{task.operand_begin} + task.read_count + task.write_count >
              graph.operands.size() ||
          (task.rendezvous != kNone && task.rendezvous >= graph.rendezvous.size())) {
        return BadGraph(StrCat("task ", id, " has a shape, operand or rendezvous out of range"));
      }
      for (std::uint32_t i = 0; i < std::uint32_t{task.read_count} + task.write_count; ++i) {
        if (outside(graph.operands[task.operand_begin + i])) {
          return BadGraph(StrCat("operand ", i, " of task ", id, " lies outside its buffer"));
        }
      }
    }
  }
  for (const TensorInfo& tensor : graph.tensors) {
    if (tensor.buffer >= graph.buffers.size() || tensor.shard_count == 0 ||
        tensor.axis_count == 0 || tensor.cp_count == 0) {
      return BadGraph(StrCat("a tensor entry of ", Name(tensor.kind), " is out of range"));
    }
  }
  return std::nullopt;
}

class Machine {
 public:
  Machine(const TaskGraph& graph, SymbolicObserver* observer)
      : graph_(graph), observer_(observer), memory_(graph.buffers.size()) {}

  Result<SymbolicResult> Run();

 private:
  void CountUses();
  void FindWaste(const std::vector<TensorPlace>& places);
  // Drops what lies behind the last tensor of a chunk of model states (or of this rank's shard of
  // it): waste, in which a buffer that chunks share may hold another's rest. Returns where it
  // begins.
  std::int64_t CropWaste(TaskId id, bool whole_chunk, const Operand& x,
                         SymbolicPieces& pieces) const;
  void LoadTensors(const std::vector<TensorPlace>& places);
  std::optional<Error> IndexRendezvous();
  // Runs a rank until it ends or waits.
  bool Advance(RankId rank);
  bool Execute(TaskId id);
  bool Compute(TaskId id);
  bool Copy(TaskId id);
  bool Meet(RendezvousId id);
  bool SendReceive(TaskId first, TaskId second);
  bool Collective(const Rendezvous& rendezvous, std::span<TaskId> members);
  bool ReduceMembers(std::span<const TaskId> members, SymbolicOperand& sum);
  // In group order; false where the ranks are not the group's.
  bool SortByGroup(const Rendezvous& rendezvous, std::span<TaskId> members);

  void Load(const Operand& x, SymbolicOperand& out) const;
  void Store(const Operand& x, const SymbolicPieces& pieces);
  void ReleaseOperands(TaskId id);
  // Records the error of a task; `operand` counts reads first. Always false.
  bool Fail(TaskId id, std::uint32_t operand, const std::string& text);

  const TaskGraph& graph_;
  SymbolicObserver* observer_;
  SymbolicMemory memory_;
  // By rank and chunk: elements up to the last tensor, of the chunk and of the rank's shard.
  struct UsedElements {
    std::int64_t chunk = 0, shard = 0;
  };
  std::map<std::pair<RankId, std::uint16_t>, UsedElements> used_elements_;
  std::vector<std::uint32_t> uses_;  // By buffer: operands of tasks that have not run yet.
  std::vector<TaskId> next_;         // By rank.
  std::vector<RankId> runnable_;
  // Tasks of a rendezvous that have arrived: [begin, begin + arrived) of waiting_.
  std::vector<std::uint32_t> waiting_begin_, arrived_;
  std::vector<TaskId> waiting_;
  std::vector<std::uint32_t> position_;  // By global rank: place in the group at hand.
  std::vector<SymbolicOperand> reads_, writes_;
  std::optional<Error> error_;
};

bool Machine::Fail(TaskId id, std::uint32_t operand, const std::string& text) {
  const Task& task = graph_.tasks[id];
  Error error;
  error.code = ExitCode::kNo;
  error.rule = "symbolic";
  error.rank = graph_.ranks[task.rank].global_rank;
  std::string where;
  if (operand < std::uint32_t{task.read_count} + task.write_count) {
    const Operand& x = graph_.operands[task.operand_begin + operand];
    const bool read = operand < task.read_count;
    where = StrCat(read ? "read " : "write ", read ? operand : operand - task.read_count, " (",
                   Name(graph_.buffers[x.buffer].role), " buffer ", x.buffer, ") ");
  } else if (operand != kNone) {
    where = StrCat("operand ", operand, " ");
  }
  error.message = StrCat("symbolic: task ", id, " (", graph_.TaskName(id), "): ", where, text);
  error_ = std::move(error);
  return false;
}

void Machine::CountUses() {
  uses_.assign(graph_.buffers.size(), 0);
  for (const Task& task : graph_.tasks) {
    const std::uint32_t end = task.operand_begin + task.read_count + task.write_count;
    for (std::uint32_t i = task.operand_begin; i < end; ++i) ++uses_[graph_.operands[i].buffer];
  }
}

void Machine::LoadTensors(const std::vector<TensorPlace>& places) {
  SymbolicPieces pieces;
  for (std::size_t i = 0; i < graph_.tensors.size(); ++i) {
    const TensorInfo& tensor = graph_.tensors[i];
    const TensorPlace& place = places[i];
    if (place.bytes == 0 || tensor.state == StateKind::kGradient ||
        tensor.kind == TensorKind::kLoss) {
      continue;
    }
    pieces.assign(1, {0, place.bytes, place.begin, place.total, InitialValue(tensor)});
    memory_.Write(tensor.buffer, place.offset, place.bytes, pieces);
  }
}

std::optional<Error> Machine::IndexRendezvous() {
  waiting_begin_.assign(graph_.rendezvous.size() + 1, 0);
  for (const Task& task : graph_.tasks) {
    if (task.rendezvous != kNone) ++waiting_begin_[task.rendezvous + 1];
  }
  for (RendezvousId id = 0; id < graph_.rendezvous.size(); ++id) {
    if (waiting_begin_[id + 1] != graph_.rendezvous[id].participants) {
      return BadGraph(StrCat("rendezvous ", id, " joins ", waiting_begin_[id + 1], " tasks where ",
                             graph_.rendezvous[id].participants, " take part"));
    }
    waiting_begin_[id + 1] += waiting_begin_[id];
  }
  waiting_.assign(waiting_begin_.back(), kNone);
  arrived_.assign(graph_.rendezvous.size(), 0);
  return std::nullopt;
}

void Machine::Load(const Operand& x, SymbolicOperand& out) const {
  const std::int64_t offset = x.slice == 0 ? 0 : graph_.slices[x.slice].offset;
  out.bytes = graph_.OperandBytes(x);
  out.pieces.clear();
  memory_.Read(x.buffer, offset, out.bytes, out.pieces);
}

void Machine::Store(const Operand& x, const SymbolicPieces& pieces) {
  const std::int64_t offset = x.slice == 0 ? 0 : graph_.slices[x.slice].offset;
  memory_.Write(x.buffer, offset, graph_.OperandBytes(x), pieces);
}

void Machine::ReleaseOperands(TaskId id) {
  const Task& task = graph_.tasks[id];
  const std::uint32_t end = task.operand_begin + task.read_count + task.write_count;
  for (std::uint32_t i = task.operand_begin; i < end; ++i) {
    const BufferId buffer = graph_.operands[i].buffer;
    if (--uses_[buffer] == 0 && !graph_.buffers[buffer].persistent) memory_.Release(buffer);
  }
}

bool Machine::Compute(TaskId id) {
  const std::span<const Operand> reads = graph_.Reads(id);
  const std::span<const Operand> writes = graph_.Writes(id);
  if (reads_.size() < reads.size()) reads_.resize(reads.size());
  if (writes_.size() < writes.size()) writes_.resize(writes.size());
  for (std::size_t i = 0; i < reads.size(); ++i) Load(reads[i], reads_[i]);
  for (std::size_t i = 0; i < writes.size(); ++i) {
    writes_[i].bytes = graph_.OperandBytes(writes[i]);
    writes_[i].pieces.clear();
  }
  const std::span<const SymbolicOperand> in(reads_.data(), reads.size());
  const std::span<SymbolicOperand> out(writes_.data(), writes.size());
  SymbolicFault fault;
  const Task& task = graph_.tasks[id];
  if (!ApplySymbolic(graph_.shapes[task.shape], task.block, in, out, fault)) {
    return Fail(id, fault.operand, fault.text);
  }
  for (std::size_t i = 0; i < writes.size(); ++i) Store(writes[i], writes_[i].pieces);
  if (observer_ != nullptr) observer_->OnOperation(id, in, out);
  return true;
}

void Machine::FindWaste(const std::vector<TensorPlace>& places) {
  for (std::size_t i = 0; i < graph_.tensors.size(); ++i) {
    const TensorInfo& tensor = graph_.tensors[i];
    if (tensor.state != StateKind::kMoment1 || tensor.chunk == kNoTag) continue;
    const Buffer& buffer = graph_.buffers[tensor.buffer];
    UsedElements& used = used_elements_[{buffer.rank, tensor.chunk}];
    const std::int64_t element = DtypeBytes(buffer.dtype);
    used.chunk = std::max(used.chunk, (tensor.slice.offset + tensor.slice.bytes) / element);
    if (places[i].bytes == 0) continue;
    used.shard = std::max(used.shard, (places[i].offset + places[i].bytes) / element);
  }
}

std::int64_t Machine::CropWaste(TaskId id, bool whole_chunk, const Operand& x,
                                SymbolicPieces& pieces) const {
  const Task& task = graph_.tasks[id];
  const Buffer& buffer = graph_.buffers[x.buffer];
  const bool states = buffer.role == Role::kParameter || buffer.role == Role::kGradient ||
                      buffer.role == Role::kCommunication;
  const auto used = used_elements_.find({task.rank, task.chunk});
  if (used == used_elements_.end() || !states) return graph_.OperandBytes(x);
  const std::int64_t bytes =
      (whole_chunk ? used->second.chunk : used->second.shard) * DtypeBytes(buffer.dtype);
  std::erase_if(pieces, [bytes](const SymbolicPiece& piece) { return piece.offset >= bytes; });
  return bytes;
}

bool Machine::Copy(TaskId id) {
  const Task& task = graph_.tasks[id];
  if (task.read_count != 1 || task.write_count != 1) {
    return Fail(id, kNone, "copies other than one operand to one");
  }
  const Operand& from = graph_.Reads(id)[0];
  const Operand& to = graph_.Writes(id)[0];
  const std::int64_t bytes = graph_.shapes[task.shape].dims[0];
  if (bytes < 0 || bytes > graph_.OperandBytes(from) || bytes > graph_.OperandBytes(to)) {
    return Fail(id, kNone,
                StrCat("copies ", bytes, " bytes from ", graph_.OperandBytes(from), " to ",
                       graph_.OperandBytes(to)));
  }
  const auto offset = [this](const Operand& x) {
    return x.slice == 0 ? 0 : graph_.slices[x.slice].offset;
  };
  SymbolicPieces pieces;
  memory_.Read(from.buffer, offset(from), bytes, pieces);
  const std::int64_t used = CropWaste(id, /*whole_chunk=*/false, from, pieces);
  if (pieces.empty() && used > 0) return Fail(id, 0, "holds bytes that nothing wrote");
  memory_.Write(to.buffer, offset(to), bytes, pieces);
  return true;
}

bool Machine::Execute(TaskId id) {
  switch (graph_.shapes[graph_.tasks[id].shape].op) {
    case OpCode::kCopyOnDevice:
    case OpCode::kCopyH2D:
    case OpCode::kCopyD2H:
      if (!Copy(id)) return false;
      break;
    default:
      if (!Compute(id)) return false;
  }
  ReleaseOperands(id);
  return true;
}

bool Machine::SendReceive(TaskId first, TaskId second) {
  const auto op = [this](TaskId id) { return graph_.shapes[graph_.tasks[id].shape].op; };
  const TaskId send = op(first) == OpCode::kSend ? first : second;
  const TaskId receive = send == first ? second : first;
  if (op(send) != OpCode::kSend || op(receive) != OpCode::kRecv ||
      graph_.tasks[send].read_count != 1 || graph_.tasks[receive].write_count != 1) {
    return Fail(first, kNone, StrCat("does not pair with ", graph_.TaskName(second)));
  }
  SymbolicOperand sent;
  Load(graph_.Reads(send)[0], sent);
  if (sent.pieces.empty()) return Fail(send, 0, DescribePieces(sent));
  const Operand& target = graph_.Writes(receive)[0];
  if (graph_.OperandBytes(target) != sent.bytes) {
    return Fail(
        receive, 0,
        StrCat("has ", graph_.OperandBytes(target), " bytes where ", sent.bytes, " are sent"));
  }
  Store(target, sent.pieces);
  return true;
}

bool Machine::SortByGroup(const Rendezvous& rendezvous, std::span<TaskId> members) {
  if (rendezvous.group >= graph_.groups.size()) return false;
  const std::vector<std::uint32_t>& order = graph_.groups[rendezvous.group].members;
  if (order.size() != members.size()) return false;
  position_.resize(graph_.ranks.size(), kNone);
  const auto global_rank = [this](TaskId id) {
    return graph_.ranks[graph_.tasks[id].rank].global_rank;
  };
  bool right = true;
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    if (order[i] < position_.size()) position_[order[i]] = i;
  }
  for (const TaskId id : members) {
    right = right && global_rank(id) < position_.size() && position_[global_rank(id)] != kNone;
  }
  if (right) {
    std::sort(members.begin(), members.end(), [&](TaskId a, TaskId b) {
      return position_[global_rank(a)] < position_[global_rank(b)];
    });
  }
  for (const std::uint32_t rank : order) {
    if (rank < position_.size()) position_[rank] = kNone;
  }
  return right;
}

bool Machine::ReduceMembers(std::span<const TaskId> members, SymbolicOperand& sum) {
  SymbolicFault fault;
  const std::span<const SymbolicOperand> parts(reads_.data(), members.size());
  sum.bytes = parts[0].bytes;
  if (!SumSymbolic(parts, sum, fault)) {
    return fault.operand == kNone ? Fail(members[0], kNone, fault.text)
                                  : Fail(members[fault.operand], 0, fault.text);
  }
  // Where each member brings one addend of as many as there are members, name those that lack.
  for (std::size_t k = 0; k < sum.pieces.size(); ++k) {
    if (sum.pieces[k].value.partial == PartialAxis::kComplete) continue;
    std::vector<std::uint32_t> holder(members.size(), kNone);
    bool comparable = true, equal = true;
    for (std::uint32_t i = 0; i < members.size(); ++i) {
      const SymbolicValue& value = parts[i].pieces[k].value;
      comparable =
          comparable && value.part_index < members.size() && value.part_count == members.size();
      equal = equal && value.part_index == parts[0].pieces[k].value.part_index;
    }
    if (!comparable || equal) continue;
    std::uint32_t repeated = 0;
    for (std::uint32_t i = 0; i < members.size(); ++i) {
      std::uint32_t& slot = holder[parts[i].pieces[k].value.part_index];
      if (slot != kNone) repeated = i;
      slot = i;
    }
    const auto lacking = std::find(holder.begin(), holder.end(), kNone) - holder.begin();
    return Fail(members[repeated], 0,
                StrCat("brings ", DescribePartial(parts[repeated].pieces[k].value),
                       " again; the sum lacks partial ", lacking, " of ", members.size()));
  }
  return true;
}

bool Machine::Collective(const Rendezvous& rendezvous, std::span<TaskId> members) {
  if (!SortByGroup(rendezvous, members)) {
    return Fail(members[0], kNone, "meets ranks that are not its group's");
  }
  const OpCode op = graph_.shapes[graph_.tasks[members[0]].shape].op;
  if (reads_.size() < members.size()) reads_.resize(members.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    const Task& task = graph_.tasks[members[i]];
    if (graph_.shapes[task.shape].op != op) {
      return Fail(members[i], kNone, StrCat("meets ", graph_.TaskName(members[0])));
    }
    if (task.read_count != 1 || task.write_count != 1) {
      return Fail(members[i], kNone, "is a collective of other than one operand each way");
    }
    Load(graph_.Reads(members[i])[0], reads_[i]);
    if (op == OpCode::kReduceScatter) {
      CropWaste(members[i], /*whole_chunk=*/true, graph_.Reads(members[i])[0], reads_[i].pieces);
    }
    if (reads_[i].bytes != reads_[0].bytes) {
      return Fail(members[i], 0,
                  StrCat("has ", reads_[i].bytes, " bytes where ", graph_.TaskName(members[0]),
                         " has ", reads_[0].bytes));
    }
  }
  const auto size = static_cast<std::int64_t>(members.size());
  const std::int64_t in_bytes = reads_[0].bytes;
  const std::int64_t out_bytes = op == OpCode::kAllGather       ? in_bytes * size
                                 : op == OpCode::kReduceScatter ? in_bytes / size
                                                                : in_bytes;
  for (const TaskId id : members) {
    const std::int64_t bytes = graph_.OperandBytes(graph_.Writes(id)[0]);
    if (bytes != out_bytes || (op == OpCode::kReduceScatter && in_bytes % size != 0)) {
      return Fail(
          id, 1,
          StrCat("has ", bytes, " bytes where ", members.size(), " members make ", out_bytes));
    }
  }

  SymbolicOperand result;
  switch (op) {
    case OpCode::kAllReduce:
    case OpCode::kReduceScatter:
      if (!ReduceMembers(members, result)) return false;
      break;
    case OpCode::kAllGather:
      for (std::int64_t i = 0; i < size; ++i) {
        for (SymbolicPiece piece : reads_[static_cast<std::size_t>(i)].pieces) {
          piece.offset += i * in_bytes;
          AppendMerged(result.pieces, piece);
        }
      }
      if (result.pieces.empty()) return Fail(members[0], 0, "holds bytes that nothing wrote");
      break;
    case OpCode::kRingShift:
      break;
    default:
      return Fail(members[0], kNone, "is no collective");
  }
  SymbolicPieces shard;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const SymbolicPieces* pieces = &result.pieces;
    if (op == OpCode::kRingShift) {
      pieces = &reads_[(i + members.size() - 1) % members.size()].pieces;
    } else if (op == OpCode::kReduceScatter) {
      shard.clear();
      const std::int64_t begin = static_cast<std::int64_t>(i) * out_bytes;
      for (SymbolicPiece piece : result.pieces) {
        const std::int64_t front = std::max<std::int64_t>(0, begin - piece.offset);
        const std::int64_t back = std::max<std::int64_t>(0, piece.end_offset() - begin - out_bytes);
        if (front + back >= piece.bytes) continue;
        piece.begin += front;
        piece.bytes -= front + back;
        piece.offset += front - begin;
        shard.push_back(piece);
      }
      pieces = &shard;
    }
    Store(graph_.Writes(members[i])[0], *pieces);
  }
  return true;
}

bool Machine::Meet(RendezvousId id) {
  const std::span<TaskId> members(waiting_.data() + waiting_begin_[id], arrived_[id]);
  const OpCode op = graph_.shapes[graph_.tasks[members[0]].shape].op;
  const bool point_to_point = op == OpCode::kSend || op == OpCode::kRecv;
  if (point_to_point && members.size() != 2) {
    return Fail(members[0], kNone, StrCat("meets ", members.size() - 1, " tasks"));
  }
  const bool done = point_to_point ? SendReceive(members[0], members[1])
                                   : Collective(graph_.rendezvous[id], members);
  if (!done) return false;
  for (const TaskId member : members) ReleaseOperands(member);
  return true;
}

bool Machine::Advance(RankId rank) {
  while (next_[rank] < graph_.rank_begin[rank + 1]) {
    const TaskId id = next_[rank];
    const RendezvousId rendezvous = graph_.tasks[id].rendezvous;
    if (rendezvous == kNone) {
      if (!Execute(id)) return false;
      ++next_[rank];
      continue;
    }
    waiting_[waiting_begin_[rendezvous] + arrived_[rendezvous]++] = id;
    if (arrived_[rendezvous] < graph_.rendezvous[rendezvous].participants) return true;
    if (!Meet(rendezvous)) return false;
    for (std::uint32_t i = 0; i < arrived_[rendezvous]; ++i) {
      const RankId member = graph_.tasks[waiting_[waiting_begin_[rendezvous] + i]].rank;
      ++next_[member];
      if (member != rank) runnable_.push_back(member);
    }
  }
  return true;
}

Result<SymbolicResult> Machine::Run() {
  const std::vector<TensorPlace> places = PlaceTensors(graph_);
  CountUses();
  FindWaste(places);
  LoadTensors(places);
  if (std::optional<Error> error = IndexRendezvous()) return *std::move(error);
  next_.assign(graph_.rank_begin.begin(), graph_.rank_begin.end() - 1);
  for (RankId rank = static_cast<RankId>(graph_.ranks.size()); rank > 0; --rank) {
    runnable_.push_back(rank - 1);
  }
  while (!runnable_.empty()) {
    const RankId rank = runnable_.back();
    runnable_.pop_back();
    if (!Advance(rank)) return *std::move(error_);
  }
  for (RankId rank = 0; rank < graph_.ranks.size(); ++rank) {
    if (next_[rank] == graph_.rank_begin[rank + 1]) continue;
    const TaskId id = next_[rank];
    const RendezvousId rendezvous = graph_.tasks[id].rendezvous;
    Fail(id, kNone,
         StrCat("waits in rendezvous ", rendezvous, ", which ", arrived_[rendezvous], " of ",
                graph_.rendezvous[rendezvous].participants, " tasks reached"));
    return *std::move(error_);
  }
  return CollectTensors(graph_, places, memory_);
}

}  // namespace

Result<SymbolicResult> RunSymbolic(const TaskGraph& graph, SymbolicObserver* observer) {
  if (std::optional<Error> error = CheckStructure(graph)) return *std::move(error);
  return Machine(graph, observer).Run();
}

}  // namespace twinstep
