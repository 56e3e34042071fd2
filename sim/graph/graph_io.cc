#include "sim/graph/graph_io.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

#include "sim/files/write_file.h"
#include "sim/graph/graph_columns.h"
#include "sim/graph/graph_loader.h"
#include "sim/graph/structure.h"
#include "sim/graph/task_graph.pb.h"

namespace twinstep {
namespace {

constexpr std::uint32_t kVersion = 1;

using StringColumn = google::protobuf::RepeatedPtrField<std::string>;

std::string Number(std::uint64_t value) { return std::to_string(value); }

// Appends the objects' field to the column.
template <typename Object>
auto SaveFrom(const std::vector<Object>& objects) {
  return [&objects](const char*, auto& column, auto field, Coding coding = Coding::kPlain) {
    column.Reserve(static_cast<int>(objects.size()));
    for (const Object& object : objects) {
      const auto& value = std::invoke(field, object);
      using T = std::remove_cvref_t<decltype(value)>;
      if constexpr (std::is_enum_v<T>) {
        column.AddAlreadyReserved(static_cast<std::uint32_t>(value));
      } else {
        column.AddAlreadyReserved(coding == Coding::kPlusOne ? static_cast<T>(value + 1) : value);
      }
    }
  };
}

template <typename E>
void SaveNames(int count, StringColumn& names) {
  for (int i = 0; i < count; ++i) names.Add(Name(static_cast<E>(i)));
}

void SaveEdges(const TaskGraph& graph, TaskGraphFile& file) {
  auto& counts = *file.mutable_tasks()->mutable_edge_count();
  auto& distances = *file.mutable_edge_distance();
  counts.Reserve(static_cast<int>(graph.TaskCount()));
  distances.Reserve(static_cast<int>(graph.EdgeCount()));
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    counts.Add(static_cast<std::uint32_t>(graph.Successors(id).size()));
    for (const TaskId next : graph.Successors(id)) {
      distances.Add(std::int64_t{next} - std::int64_t{id});
    }
  }
}

Error BadInput(std::string_view name, const std::string& what) {
  return {.code = ExitCode::kBadInput, .message = std::string(name) + ": " + what};
}

std::string SystemError() { return std::strerror(errno); }

}  // namespace

Result<std::string> SerializeGraph(const TaskGraph& graph) {
  if (const std::optional<Violation> bad = CheckStructure(graph)) {
    return Error{.code = ExitCode::kInternal,
                 .message = "a task graph to be written breaks a rule: " + bad->message};
  }
  constexpr std::size_t kLimit = std::numeric_limits<int>::max();  // Protobuf's, of all sizes.
  const Error too_large{.code = ExitCode::kInternal,
                        .message = "a task graph of " + Number(graph.tasks.size()) +
                                   " tasks is too large for a protobuf file (2 GiB)"};
  if (std::max({graph.tasks.size(), graph.operands.size(), graph.buffers.size(),
                std::size_t{graph.EdgeCount()}}) > kLimit) {
    return too_large;
  }
  TaskGraphFile file;
  file.set_version(kVersion);
  TaskGraphFile::Names& names = *file.mutable_names();
  SaveNames<Pool>(kPoolCount, *names.mutable_pools());
  SaveNames<Dtype>(kDtypeCount, *names.mutable_dtypes());
  SaveNames<Role>(kRoleCount, *names.mutable_roles());
  SaveNames<TaskKind>(kTaskKindCount, *names.mutable_kinds());
  SaveNames<Lane>(kLaneCount, *names.mutable_lanes());
  SaveNames<Phase>(kPhaseCount, *names.mutable_phases());
  SaveNames<OpCode>(kOpCodeCount, *names.mutable_operators());
  SaveNames<TensorKind>(kTensorKindCount, *names.mutable_tensors());
  VisitRanks(*file.mutable_ranks(), SaveFrom(graph.ranks));
  VisitTasks(*file.mutable_tasks(), SaveFrom(graph.tasks));
  VisitOperands(*file.mutable_operands(), SaveFrom(graph.operands));
  VisitBuffers(*file.mutable_buffers(), SaveFrom(graph.buffers));
  VisitSlices(*file.mutable_slices(), SaveFrom(graph.slices));
  VisitShapes(*file.mutable_shapes(), SaveFrom(graph.shapes));
  VisitRendezvous(*file.mutable_rendezvous(), SaveFrom(graph.rendezvous));
  VisitTensors(*file.mutable_tensors(), SaveFrom(graph.tensors));
  file.mutable_rank_class()->Add(graph.rank_class.begin(), graph.rank_class.end());
  for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    file.mutable_ranks()->add_task_count(graph.rank_begin[rank + 1] - graph.rank_begin[rank]);
  }
  for (const OpShape& shape : graph.shapes) {
    file.mutable_shapes()->mutable_dims()->Add(shape.dims.begin(), shape.dims.end());
  }
  for (const Group& group : graph.groups) {
    file.mutable_groups()->add_member_count(static_cast<std::uint32_t>(group.members.size()));
    file.mutable_groups()->mutable_member()->Add(group.members.begin(), group.members.end());
  }
  SaveEdges(graph, file);
  file.set_complete(true);
  if (file.ByteSizeLong() > kLimit) return too_large;
  return file.SerializeAsString();
}

Result<TaskGraph> ParseGraph(std::string_view bytes, std::string_view name) {
  TaskGraphFile file;
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()) ||
      !file.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return BadInput(name, "not a task graph, or cut short");
  }
  if (file.version() != kVersion) {
    return BadInput(name, "field version is " + Number(file.version()) + "; this program reads " +
                              Number(kVersion));
  }
  if (!file.complete()) return BadInput(name, "field complete is missing: the file was cut short");
  TaskGraph graph;
  if (const std::optional<std::string> fault = LoadGraph(file, graph)) {
    return BadInput(name, "field " + *fault);
  }
  if (const std::optional<Violation> bad = CheckStructure(graph)) {
    return BadInput(name, "breaks rule " + bad->message);
  }
  return graph;
}

Status WriteGraph(const TaskGraph& graph, const std::string& path) {
  Result<std::string> bytes = SerializeGraph(graph);
  if (!bytes.ok()) return bytes.error();
  return WriteFile(path, [&bytes](std::ostream& out) -> Status {
    out << bytes.value();
    return Unit{};
  });
}

Result<TaskGraph> ReadGraph(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return BadInput(path, "cannot read: " + SystemError());
  const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (in.bad()) return BadInput(path, "cannot read: " + SystemError());
  return ParseGraph(bytes, path);
}

}  // namespace twinstep
