#include "traces/chakra/chakra_trace.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/files/write_file.h"
#include "sim/format.h"
#include "sim/graph/op.h"
#include "sim/str_cat.h"
#include "traces/chakra/chakra_attributes.h"
#include "traces/check_trace.h"

namespace twinstep {
namespace {

constexpr std::int64_t kPicosecondsPerMicrosecond = 1'000'000;
// What is written here, in the words of the tools that write Chakra traces.
constexpr char kSchema[] = "0.0.4";

void AddInteger(const char* name, std::int64_t value, chakra::Node* node) {
  chakra::Attribute* attribute = node->add_attr();
  attribute->set_name(name);
  attribute->set_int64_val(value);
}
// Source, destination and tag are of this type with other producers.
void AddInteger32(const char* name, std::uint32_t value, chakra::Node* node) {
  chakra::Attribute* attribute = node->add_attr();
  attribute->set_name(name);
  attribute->set_int32_val(static_cast<std::int32_t>(value));
}
void AddText(const char* name, const std::string& value, chakra::Node* node) {
  chakra::Attribute* attribute = node->add_attr();
  attribute->set_name(name);
  attribute->set_string_val(value);
}
void AddBool(const char* name, bool value, chakra::Node* node) {
  chakra::Attribute* attribute = node->add_attr();
  attribute->set_name(name);
  attribute->set_bool_val(value);
}

chakra::NodeType TypeOf(TaskKind kind) {
  switch (kind) {
    case TaskKind::kCompute:
    case TaskKind::kHost:
      return chakra::COMP_NODE;
    case TaskKind::kH2D:
      return chakra::MEM_LOAD_NODE;
    case TaskKind::kD2H:
      return chakra::MEM_STORE_NODE;
    case TaskKind::kSend:
      return chakra::COMM_SEND_NODE;
    case TaskKind::kRecv:
      return chakra::COMM_RECV_NODE;
    case TaskKind::kCollective:
      return chakra::COMM_COLL_NODE;
  }
  return chakra::INVALID_NODE;
}

chakra::CollectiveType CollectiveOf(OpCode op) {
  if (op == OpCode::kAllGather) return chakra::ALL_GATHER;
  if (op == OpCode::kReduceScatter) return chakra::REDUCE_SCATTER;
  return chakra::ALL_REDUCE;
}

class Writer {
 public:
  Writer(const TaskGraph& graph, const Trace& trace) : graph_(graph), trace_(trace) {
    event_of_.assign(graph.tasks.size(), -1);
    for (int i = 0; i < trace.task_size(); ++i) event_of_[trace.task(i)] = i;
    partners_.assign(graph.rendezvous.size(), {kNone, kNone});
    for (TaskId id = 0; id < graph.TaskCount(); ++id) {
      const Task& task = graph.tasks[id];
      if (task.kind == TaskKind::kSend) partners_[task.rendezvous][0] = task.rank;
      if (task.kind == TaskKind::kRecv) partners_[task.rendezvous][1] = task.rank;
    }
  }

  void WriteRank(RankId rank, std::ostream& out) {
    Append(Metadata(rank == 0), &out);
    // Predecessors by task; a ring shift's second half has its id behind all tasks.
    const TaskId begin = graph_.rank_begin[rank], end = graph_.rank_begin[rank + 1];
    std::vector<std::vector<TaskId>> predecessors(end - begin);
    std::array<TaskId, kLaneCount> last_of_lane;
    last_of_lane.fill(kNone);
    for (TaskId id = begin; id < end; ++id) {
      for (const TaskId next : graph_.Successors(id)) predecessors[next - begin].push_back(id);
      TaskId& last = last_of_lane[static_cast<std::size_t>(graph_.tasks[id].lane)];
      std::vector<TaskId>& own = predecessors[id - begin];
      if (last != kNone && std::find(own.begin(), own.end(), last) == own.end()) {
        own.push_back(last);
      }
      last = id;
    }
    std::map<TaskId, std::uint64_t> second_half;
    for (TaskId id = begin; id < end; ++id) {
      if (IsRingShift(id)) second_half.try_emplace(id, end - begin + second_half.size());
    }
    for (TaskId id = begin; id < end; ++id) {
      chakra::Node node = NodeOf(id);
      node.set_id(id - begin);
      for (const TaskId before : predecessors[id - begin]) {
        node.add_data_deps(before - begin);
        const auto half = second_half.find(before);
        if (half != second_half.end()) node.add_data_deps(half->second);
      }
      Append(node, &out);
      const auto half = second_half.find(id);
      if (half != second_half.end()) Append(SecondHalf(id, node, half->second), &out);
    }
  }

  // {"0": [0, 1], ...}: the ranks of each group, as astra-sim takes them.
  std::string Groups() const {
    nlohmann::ordered_json json = nlohmann::ordered_json::object();
    for (std::size_t i = 0; i < graph_.groups.size(); ++i) {
      json[std::to_string(i)] = graph_.groups[i].members;
    }
    return json.dump(1) + "\n";
  }

 private:
  template <typename Message>
  static void Append(const Message& message, std::ostream* out) {
    const std::string bytes = message.SerializeAsString();
    std::uint64_t size = bytes.size();
    do {
      out->put(static_cast<char>((size & 0x7f) | (size > 0x7f ? 0x80 : 0)));
      size >>= 7;
    } while (size > 0);
    out->write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

  OpCode OpOf(TaskId id) const { return graph_.shapes[graph_.tasks[id].shape].op; }
  bool IsRingShift(TaskId id) const { return OpOf(id) == OpCode::kRingShift; }
  std::uint32_t GlobalRank(RankId rank) const { return graph_.ranks[rank].global_rank; }

  // The first file has the columns that are lists, of all ranks in the trace's order.
  chakra::GlobalMetadata Metadata(bool with_lists) const {
    chakra::GlobalMetadata metadata;
    metadata.set_version(kSchema);
    Trace header = trace_;
    for (auto* column : {header.mutable_task(), header.mutable_rank(), header.mutable_lane(),
                         header.mutable_kind(), header.mutable_phase(), header.mutable_op(),
                         header.mutable_micro_batch(), header.mutable_stage(),
                         header.mutable_block(), header.mutable_chunk()}) {
      column->Clear();
    }
    for (auto* column : {header.mutable_ready_ps(), header.mutable_start_ps(),
                         header.mutable_end_ps(), header.mutable_bytes()}) {
      column->Clear();
    }
    if (!with_lists) {
      header.clear_shape();
      header.clear_dependency_count();
      header.clear_dependency();
      header.clear_rendezvous();
      header.clear_memory();
    }
    chakra::Attribute* attribute = metadata.add_attr();
    attribute->set_name(kTraceAttribute);
    attribute->set_bytes_val(header.SerializeAsString());
    return metadata;
  }

  chakra::Node NodeOf(TaskId id) const {
    const Task& task = graph_.tasks[id];
    const OpShape& shape = graph_.shapes[task.shape];
    const int event = event_of_[id];
    chakra::Node node;
    node.set_name(graph_.TaskName(id));
    node.set_type(IsRingShift(id) ? chakra::COMM_SEND_NODE : TypeOf(task.kind));
    const std::int64_t start_ps = trace_.start_ps(event), end_ps = trace_.end_ps(event);
    node.set_start_time_micros(static_cast<std::uint64_t>(start_ps / kPicosecondsPerMicrosecond));
    std::int64_t duration =
        (end_ps - start_ps + kPicosecondsPerMicrosecond / 2) / kPicosecondsPerMicrosecond;
    if (end_ps > start_ps) duration = std::max<std::int64_t>(duration, 1);
    node.set_duration_micros(static_cast<std::uint64_t>(duration));
    AddBool("is_cpu_op", task.kind == TaskKind::kHost, &node);
    switch (node.type()) {
      case chakra::COMP_NODE:
        AddInteger("num_ops", static_cast<std::int64_t>(Flops(shape)), &node);
        AddInteger("tensor_size", static_cast<std::int64_t>(MemoryBytes(shape)), &node);
        break;
      case chakra::MEM_LOAD_NODE:
      case chakra::MEM_STORE_NODE:
        AddInteger("tensor_size", shape.dims[0], &node);
        break;
      case chakra::COMM_COLL_NODE:
        AddInteger("comm_type", CollectiveOf(shape.op), &node);
        AddInteger("comm_size", shape.dims[0], &node);
        if (graph_.rendezvous[task.rendezvous].group != kNone) {
          AddText("pg_name", std::to_string(graph_.rendezvous[task.rendezvous].group), &node);
        }
        break;
      default:
        AddMessage(id, &node);
    }
    AddInteger(kTaskAttribute, id, &node);
    AddText(kOperatorAttribute, Name(shape.op), &node);
    AddText(kLaneAttribute, Name(task.lane), &node);
    AddText(kKindAttribute, Name(task.kind), &node);
    AddText(kPhaseAttribute, Name(task.phase), &node);
    AddInteger(kReadyAttribute, trace_.ready_ps(event), &node);
    AddInteger(kStartAttribute, start_ps, &node);
    AddInteger(kEndAttribute, end_ps, &node);
    for (const auto& [name, value] : {std::pair{kMicroBatchAttribute, trace_.micro_batch(event)},
                                      std::pair{kStageAttribute, trace_.stage(event)},
                                      std::pair{kBlockAttribute, trace_.block(event)},
                                      std::pair{kChunkAttribute, trace_.chunk(event)}}) {
      if (value != kNoTag) AddInteger(name, value, &node);
    }
    if (trace_.bytes(event) != 0) AddInteger(kBytesAttribute, trace_.bytes(event), &node);
    return node;
  }

  // Of a message, or of the sending half of a ring shift.
  void AddMessage(TaskId id, chakra::Node* node) const {
    const Task& task = graph_.tasks[id];
    AddInteger("comm_size", graph_.shapes[task.shape].dims[0], node);
    std::uint32_t source = 0, destination = 0;
    if (IsRingShift(id)) {
      source = GlobalRank(task.rank);
      destination = Neighbour(id, 1);
    } else {
      source = GlobalRank(partners_[task.rendezvous][0]);
      destination = GlobalRank(partners_[task.rendezvous][1]);
    }
    AddInteger32("comm_src", source, node);
    AddInteger32("comm_dst", destination, node);
    AddInteger32("comm_tag", task.rendezvous, node);
  }

  // The member of a ring shift's group `step` places after the task's own rank.
  std::uint32_t Neighbour(TaskId id, std::size_t step) const {
    const Task& task = graph_.tasks[id];
    const std::uint32_t own = GlobalRank(task.rank);
    const GroupId group = graph_.rendezvous[task.rendezvous].group;
    if (group == kNone) return own;
    const std::vector<std::uint32_t>& members = graph_.groups[group].members;
    const auto at = std::find(members.begin(), members.end(), own);
    if (at == members.end()) return own;
    return members[(static_cast<std::size_t>(at - members.begin()) + step) % members.size()];
  }

  chakra::Node SecondHalf(TaskId id, const chakra::Node& first, std::uint64_t node_id) const {
    const Task& task = graph_.tasks[id];
    chakra::Node node;
    node.set_id(node_id);
    node.set_name(first.name() + " (receives)");
    node.set_type(chakra::COMM_RECV_NODE);
    *node.mutable_data_deps() = first.data_deps();
    node.set_start_time_micros(first.start_time_micros());
    node.set_duration_micros(first.duration_micros());
    AddBool("is_cpu_op", false, &node);
    AddInteger("comm_size", graph_.shapes[task.shape].dims[0], &node);
    const GroupId group = graph_.rendezvous[task.rendezvous].group;
    const std::size_t members = group == kNone ? 1 : graph_.groups[group].members.size();
    AddInteger32("comm_src", Neighbour(id, members - 1), &node);
    AddInteger32("comm_dst", GlobalRank(task.rank), &node);
    AddInteger32("comm_tag", task.rendezvous, &node);
    AddInteger(kSecondHalfAttribute, id, &node);
    AddText(kLaneAttribute, StrCat(Name(task.lane), " receives"), &node);
    AddInteger(kStartAttribute, trace_.start_ps(event_of_[id]), &node);
    AddInteger(kEndAttribute, trace_.end_ps(event_of_[id]), &node);
    return node;
  }

  const TaskGraph& graph_;
  const Trace& trace_;
  std::vector<int> event_of_;                    // By task.
  std::vector<std::array<RankId, 2>> partners_;  // By rendezvous of a message: who sends, receives.
};

// Events of a trace before they are put in order.
struct Event {
  std::uint32_t task = 0, rank = 0, lane = 0, kind = 0, phase = 0, op = 0;
  std::int64_t ready_ps = 0, start_ps = 0, end_ps = 0, bytes = 0;
  std::uint32_t micro_batch = kNoTag, stage = kNoTag, block = kNoTag, chunk = kNoTag;
};

using NameTable = google::protobuf::RepeatedPtrField<std::string>;

std::optional<std::uint32_t> IndexOf(const NameTable& names,
                                     const std::optional<std::string>& name) {
  if (!name) return std::nullopt;
  const auto at = std::find(names.begin(), names.end(), *name);
  if (at == names.end()) return std::nullopt;
  return static_cast<std::uint32_t>(at - names.begin());
}

std::optional<Event> EventOf(const Trace& header, std::uint32_t rank, const chakra::Node& node) {
  const auto task = IntegerAttribute(node, kTaskAttribute);
  const auto lane = IndexOf(header.lanes(), TextAttribute(node, kLaneAttribute));
  const auto kind = IndexOf(header.kinds(), TextAttribute(node, kKindAttribute));
  const auto phase = IndexOf(header.phases(), TextAttribute(node, kPhaseAttribute));
  const auto op = IndexOf(header.operators(), TextAttribute(node, kOperatorAttribute));
  const auto ready = IntegerAttribute(node, kReadyAttribute);
  const auto start = IntegerAttribute(node, kStartAttribute);
  const auto end = IntegerAttribute(node, kEndAttribute);
  if (!task || *task < 0 || *task >= kNone || !lane || !kind || !phase || !op || !ready || !start ||
      !end) {
    return std::nullopt;
  }
  const auto tag = [&node](const char* name) {
    return static_cast<std::uint32_t>(
        std::clamp<std::int64_t>(IntegerAttribute(node, name).value_or(kNoTag), 0, kNone));
  };
  return Event{.task = static_cast<std::uint32_t>(*task),
               .rank = rank,
               .lane = *lane,
               .kind = *kind,
               .phase = *phase,
               .op = *op,
               .ready_ps = *ready,
               .start_ps = *start,
               .end_ps = *end,
               .bytes = IntegerAttribute(node, kBytesAttribute).value_or(0),
               .micro_batch = tag(kMicroBatchAttribute),
               .stage = tag(kStageAttribute),
               .block = tag(kBlockAttribute),
               .chunk = tag(kChunkAttribute)};
}

const chakra::Attribute* TraceHeader(const ChakraFile& file) {
  for (const chakra::Attribute& attribute : file.metadata.attr()) {
    if (attribute.name() == kTraceAttribute) return &attribute;
  }
  return nullptr;
}

}  // namespace

bool IsChakraName(const std::string& path) { return path.ends_with(".et"); }

std::string ChakraFileName(const std::string& path, std::uint32_t rank) {
  return StrCat(path.substr(0, path.size() - std::strlen(".et")), ".", rank, ".et");
}

std::string ChakraGroupsName(const std::string& path) {
  return path.substr(0, path.size() - std::strlen(".et")) + ".groups.json";
}

Status CheckChakraFiles(const std::string& path, std::int64_t ranks) {
  const auto file = [&path](std::int64_t rank) {
    return ChakraFileName(path, static_cast<std::uint32_t>(rank));
  };
  std::error_code error;
  std::int64_t end = ranks;
  while (std::filesystem::exists(file(end), error)) ++end;
  if (end == ranks) return Unit{};
  const std::string more = end == ranks + 1 ? " is" : StrCat(" and ", end - ranks - 1, " more are");
  return Error{.message = StrCat(path, ": ", file(ranks), more, " of a trace of more than ",
                                 CountOf(ranks, "rank"),
                                 ", and would be read as of this one: "
                                 "name another file, or remove ",
                                 end == ranks + 1 ? "it" : "them")};
}

Status WriteChakra(const TaskGraph& graph, const Trace& trace, const std::string& path) {
  if (graph.IsFolded()) {
    return Error{.message = StrCat(path, ": a Chakra trace has a file for every rank, and ",
                                   graph.ranks.size(), " ranks stand for ", graph.rank_class.size(),
                                   " (--all-ranks)")};
  }
  Writer writer(graph, trace);
  for (RankId rank = 0; rank < graph.ranks.size(); ++rank) {
    const Status written = WriteFile(ChakraFileName(path, graph.ranks[rank].global_rank),
                                     [&](std::ostream& out) -> Status {
                                       writer.WriteRank(rank, out);
                                       return Unit{};
                                     });
    if (!written.ok()) return written;
  }
  return WriteFile(ChakraGroupsName(path), [&](std::ostream& out) -> Status {
    out << writer.Groups();
    return Unit{};
  });
}

Result<std::optional<Trace>> OwnTraceOf(std::span<const ChakraFile> files) {
  const chakra::Attribute* header = files.empty() ? nullptr : TraceHeader(files[0]);
  if (header == nullptr) return std::optional<Trace>();
  Trace trace;
  if (!trace.ParseFromString(header->bytes_val()) || trace.task_size() > 0) {
    return Error{.message = StrCat(files[0].path, ": the attribute ", kTraceAttribute,
                                   " is no trace without events")};
  }
  std::map<std::int64_t, std::uint32_t> rank_of;
  for (int i = 0; i < trace.ranks_size(); ++i) {
    rank_of[trace.ranks(i).global_rank()] = static_cast<std::uint32_t>(i);
  }
  if (files.size() != rank_of.size()) {
    return Error{.message = StrCat(files[0].path, ": is of a trace of ", rank_of.size(),
                                   " ranks, and ", files.size(), " files are given")};
  }
  std::vector<Event> events;
  for (const ChakraFile& file : files) {
    const auto rank = rank_of.extract(file.rank);
    if (rank.empty()) {
      return Error{.message = StrCat(file.path, ": the trace has no rank ", file.rank,
                                     ", or another file is of it")};
    }
    for (const chakra::Node& node : file.nodes) {
      if (FindAttribute(node, kSecondHalfAttribute) != nullptr) continue;
      const std::optional<Event> event = EventOf(trace, rank.mapped(), node);
      if (!event) {
        return Error{.message = StrCat(file.path, ": node ", node.id(),
                                       " lacks an attribute of ours, or has one of no sense")};
      }
      events.push_back(*event);
    }
  }
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::tie(a.rank, a.start_ps, a.task) < std::tie(b.rank, b.start_ps, b.task);
  });
  for (const Event& event : events) {
    trace.add_task(event.task);
    trace.add_rank(event.rank);
    trace.add_lane(event.lane);
    trace.add_kind(event.kind);
    trace.add_phase(event.phase);
    trace.add_op(event.op);
    trace.add_ready_ps(event.ready_ps);
    trace.add_start_ps(event.start_ps);
    trace.add_end_ps(event.end_ps);
    trace.add_micro_batch(event.micro_batch);
    trace.add_stage(event.stage);
    trace.add_block(event.block);
    trace.add_chunk(event.chunk);
    trace.add_bytes(event.bytes);
  }
  if (const std::string bad = TraceProblem(trace); !bad.empty()) {
    return Error{.message = StrCat(files[0].path, ": ", bad)};
  }
  return std::optional<Trace>(std::move(trace));
}

}  // namespace twinstep
