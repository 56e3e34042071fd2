#include "sim/graph/graph_loader.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/graph/graph_columns.h"

namespace twinstep {
namespace {

using StringColumn = google::protobuf::RepeatedPtrField<std::string>;

std::string Number(std::uint64_t value) { return std::to_string(value); }

// An entry of a column, for messages.
struct Where {
  const char* column;
  std::size_t index;
  std::string Text() const { return std::string(column) + "[" + Number(index) + "]"; }
};

// The file's enumerators in ours, by name.
struct NameMap {
  const StringColumn* names = nullptr;
  std::vector<std::optional<std::uint8_t>> ours;
};

// A name from a file, fit for a message.
std::string Printable(std::string name) {
  for (char& c : name) {
    if (c < ' ' || c > '~') c = '?';
  }
  return name;
}

template <typename E>
NameMap MapNames(const StringColumn& names, int count) {
  NameMap map{.names = &names, .ours = {}};
  for (const std::string& name : names) {
    std::optional<std::uint8_t> value;
    for (int i = 0; i < count; ++i) {
      if (name == Name(static_cast<E>(i))) value = static_cast<std::uint8_t>(i);
    }
    map.ours.push_back(value);
  }
  return map;
}

// Fills a graph from columns; keeps the first fault that it meets.
class Loader {
 public:
  explicit Loader(TaskGraphFile& file) : file_(file) {
    const TaskGraphFile::Names& names = file.names();
    pools_ = MapNames<Pool>(names.pools(), kPoolCount);
    dtypes_ = MapNames<Dtype>(names.dtypes(), kDtypeCount);
    roles_ = MapNames<Role>(names.roles(), kRoleCount);
    kinds_ = MapNames<TaskKind>(names.kinds(), kTaskKindCount);
    lanes_ = MapNames<Lane>(names.lanes(), kLaneCount);
    phases_ = MapNames<Phase>(names.phases(), kPhaseCount);
    operators_ = MapNames<OpCode>(names.operators(), kOpCodeCount);
    tensors_ = MapNames<TensorKind>(names.tensors(), kTensorKindCount);
  }

  // What is wrong with the file, if anything; then the graph is of no use.
  std::optional<std::string> Load(TaskGraph& graph);

 private:
  bool Fail(const std::string& what) {
    if (!fault_.has_value()) fault_ = what;
    return false;
  }

  // Sets the objects' field from the column. The first column of a table says how many there are.
  template <typename Object>
  auto LoadInto(std::vector<Object>& objects) {
    objects.clear();
    return [this, &objects, is_first = true](const char* name, const auto& column, auto field,
                                             Coding coding = Coding::kPlain) mutable {
      const auto size = static_cast<std::size_t>(column.size());
      if (std::exchange(is_first, false)) objects.resize(size);
      if (size != objects.size()) {
        Fail(std::string(name) + " has " + Number(size) + " entries, its table has " +
             Number(objects.size()));
        return;
      }
      for (std::size_t i = 0; i < size; ++i) {
        auto& out = std::invoke(field, objects[i]);
        if (!Decode({name, i}, column.Get(static_cast<int>(i)), coding, out)) return;
      }
    };
  }

  bool Decode(Where, bool value, Coding, bool& out) {
    out = value;
    return true;
  }
  bool Decode(Where, std::int64_t value, Coding, std::int64_t& out) {
    out = value;
    return true;
  }
  bool Decode(Where, std::uint32_t value, Coding coding, std::uint32_t& out) {
    out = coding == Coding::kPlusOne ? value - 1 : value;  // 0 becomes kNone.
    return true;
  }
  bool Decode(Where where, std::uint32_t value, Coding coding, std::uint16_t& out) {
    if (value > std::numeric_limits<std::uint16_t>::max()) {
      return Fail(where.Text() + " is " + Number(value) + ", more than 16 bits");
    }
    out = static_cast<std::uint16_t>(coding == Coding::kPlusOne ? value - 1 : value);
    return true;
  }
  bool Decode(Where where, std::uint32_t value, Coding, ShardAxis& out) {
    return DecodeUnnamed(where, value, kShardAxisCount, out);
  }
  bool Decode(Where where, std::uint32_t value, Coding, StateKind& out) {
    return DecodeUnnamed(where, value, kStateKindCount, out);
  }
  bool Decode(Where where, std::uint32_t value, Coding, Pool& out) {
    return DecodeNamed(where, value, pools_, out);
  }
  bool Decode(Where where, std::uint32_t value, Coding, Dtype& out) {
    return DecodeNamed(where, value, dtypes_, out);
  }
  bool Decode(Where where, std::uint32_t value, Coding, Role& out) {
    return DecodeNamed(where, value, roles_, out);
  }
  bool Decode(Where where, std::uint32_t value, Coding, TaskKind& out) {
    return DecodeNamed(where, value, kinds_, out);
  }
  bool Decode(Where where, std::uint32_t value, Coding, Lane& out) {
    return DecodeNamed(where, value, lanes_, out);
  }
  bool Decode(Where where, std::uint32_t value, Coding, Phase& out) {
    return DecodeNamed(where, value, phases_, out);
  }
  bool Decode(Where where, std::uint32_t value, Coding, OpCode& out) {
    return DecodeNamed(where, value, operators_, out);
  }
  bool Decode(Where where, std::uint32_t value, Coding, TensorKind& out) {
    return DecodeNamed(where, value, tensors_, out);
  }

  template <typename E>
  bool DecodeUnnamed(Where where, std::uint32_t value, int count, E& out) {
    if (value >= static_cast<std::uint32_t>(count)) {
      return Fail(where.Text() + " is " + Number(value) + ", there are " + std::to_string(count));
    }
    out = static_cast<E>(value);
    return true;
  }

  template <typename E>
  bool DecodeNamed(Where where, std::uint32_t value, const NameMap& map, E& out) {
    if (value >= map.ours.size()) {
      return Fail(where.Text() + " is " + Number(value) + ", the file names " +
                  Number(map.ours.size()));
    }
    if (!map.ours[value].has_value()) {
      return Fail(where.Text() + " is \"" + Printable(map.names->Get(static_cast<int>(value))) +
                  "\", which is not known here");
    }
    out = static_cast<E>(*map.ours[value]);
    return true;
  }

  void LoadDims(TaskGraph& graph) {
    const auto& dims = file_.shapes().dims();
    constexpr std::size_t kDims = std::tuple_size_v<decltype(OpShape::dims)>;
    if (static_cast<std::size_t>(dims.size()) != graph.shapes.size() * kDims) {
      Fail("shapes.dims has " + std::to_string(dims.size()) + " entries for " +
           Number(graph.shapes.size()) + " shapes");
      return;
    }
    auto next = dims.begin();
    for (OpShape& shape : graph.shapes) {
      for (std::int64_t& dim : shape.dims) dim = *next++;
    }
  }

  void LoadRankRanges(TaskGraph& graph) {
    const auto& counts = file_.ranks().task_count();
    if (static_cast<std::size_t>(counts.size()) != graph.ranks.size()) {
      Fail("ranks.task_count has " + std::to_string(counts.size()) + " entries for " +
           Number(graph.ranks.size()) + " ranks");
      return;
    }
    std::uint64_t begin = 0;
    graph.rank_begin = {0};
    for (RankId rank = 0; rank < graph.ranks.size(); ++rank) {
      const std::uint64_t end = begin + counts.Get(static_cast<int>(rank));
      if (end > graph.tasks.size()) break;
      for (; begin < end; ++begin) graph.tasks[begin].rank = rank;
      graph.rank_begin.push_back(static_cast<std::uint32_t>(end));
    }
    if (graph.rank_begin.size() != graph.ranks.size() + 1 || begin != graph.tasks.size()) {
      Fail("ranks.task_count does not add up to the " + Number(graph.tasks.size()) + " tasks");
    }
  }

  void LoadGroups(TaskGraph& graph) {
    const auto& members = file_.groups().member();
    std::uint64_t begin = 0;
    for (const std::uint32_t count : file_.groups().member_count()) {
      const std::uint64_t end = begin + count;
      if (end > static_cast<std::uint64_t>(members.size())) {
        begin = end;
        break;
      }
      graph.groups.push_back({.members = {members.begin() + static_cast<std::ptrdiff_t>(begin),
                                          members.begin() + static_cast<std::ptrdiff_t>(end)}});
      begin = end;
    }
    if (begin != static_cast<std::uint64_t>(members.size())) {
      Fail("groups.member_count does not add up to the " + std::to_string(members.size()) +
           " members");
    }
  }

  void LoadEdges(TaskGraph& graph) {
    const auto& counts = file_.tasks().edge_count();
    const auto& distances = file_.edge_distance();
    if (static_cast<std::size_t>(counts.size()) != graph.tasks.size()) {
      Fail("tasks.edge_count has " + std::to_string(counts.size()) + " entries for " +
           Number(graph.tasks.size()) + " tasks");
      return;
    }
    auto& rows = graph.edges.m_forward.m_rowstart;
    auto& columns = graph.edges.m_forward.m_column;
    rows.assign(1, 0);
    rows.reserve(graph.tasks.size() + 1);
    columns.reserve(static_cast<std::size_t>(distances.size()));
    std::uint64_t edge = 0;
    for (TaskId id = 0; id < graph.tasks.size(); ++id) {
      const std::uint64_t end = edge + counts.Get(static_cast<int>(id));
      if (end > static_cast<std::uint64_t>(distances.size())) break;
      for (; edge < end; ++edge) {
        const std::int64_t distance = distances.Get(static_cast<int>(edge));
        const std::int64_t lowest = -std::int64_t{id};
        if (distance < lowest || distance - lowest >= std::ssize(graph.tasks)) {
          Fail(Where{"edge_distance", edge}.Text() + " is " + std::to_string(distance) +
               ", from task " + Number(id) + " out of the " + Number(graph.tasks.size()) +
               " tasks");
          return;
        }
        columns.push_back(static_cast<TaskId>(distance - lowest));
      }
      rows.push_back(static_cast<std::uint32_t>(end));
    }
    if (rows.size() != graph.tasks.size() + 1 ||
        edge != static_cast<std::uint64_t>(distances.size())) {
      Fail("tasks.edge_count does not add up to the " + std::to_string(distances.size()) +
           " edges");
    }
  }

  TaskGraphFile& file_;
  NameMap pools_, dtypes_, roles_, kinds_, lanes_, phases_, operators_, tensors_;
  std::optional<std::string> fault_;
};

// After the class, as the type of LoadInto must be known.
std::optional<std::string> Loader::Load(TaskGraph& graph) {
  VisitRanks(*file_.mutable_ranks(), LoadInto(graph.ranks));
  VisitTasks(*file_.mutable_tasks(), LoadInto(graph.tasks));
  VisitOperands(*file_.mutable_operands(), LoadInto(graph.operands));
  VisitBuffers(*file_.mutable_buffers(), LoadInto(graph.buffers));
  VisitSlices(*file_.mutable_slices(), LoadInto(graph.slices));
  VisitShapes(*file_.mutable_shapes(), LoadInto(graph.shapes));
  VisitRendezvous(*file_.mutable_rendezvous(), LoadInto(graph.rendezvous));
  VisitTensors(*file_.mutable_tensors(), LoadInto(graph.tensors));
  graph.rank_class.assign(file_.rank_class().begin(), file_.rank_class().end());
  if (!fault_.has_value()) LoadDims(graph);
  if (!fault_.has_value()) LoadRankRanges(graph);
  if (!fault_.has_value()) LoadGroups(graph);
  if (!fault_.has_value()) LoadEdges(graph);
  return fault_;
}

}  // namespace

std::optional<std::string> LoadGraph(TaskGraphFile& file, TaskGraph& graph) {
  return Loader(file).Load(graph);
}

}  // namespace twinstep
