#include "exec/profile/primitive.h"

#include <set>
#include <string>
#include <tuple>

#include "sim/graph/in_place.h"

namespace twinstep {
namespace {

int Order(const Primitive& x) {
  if (x.group_size > 0) return 2;
  return IsCopy(x.shape.op) ? 1 : 0;
}

auto SortKey(const Primitive& x) {
  return std::make_tuple(Order(x), std::string(Name(x.shape.op)), x.on_host,
                         std::string(Name(x.shape.dtype)), x.shape.flags, x.shape.count,
                         x.group_size, x.shape.dims, x.fusion, x.in_place);
}

}  // namespace

bool Sums(OpCode op) { return op == OpCode::kAllReduce || op == OpCode::kReduceScatter; }

bool operator<(const Primitive& a, const Primitive& b) { return SortKey(a) < SortKey(b); }

std::optional<Primitive> PrimitiveOf(const TaskGraph& graph, TaskId id, const FusedPairs& pairs) {
  const Task& task = graph.tasks[id];
  if (task.kind == TaskKind::kRecv) return std::nullopt;
  Primitive primitive{.shape = WorkShape(graph.shapes[task.shape]),
                      .on_host = task.kind == TaskKind::kHost,
                      .fusion = pairs.Of(id)};
  if (task.rendezvous != kNone) {
    const Group& group = graph.groups[graph.rendezvous[task.rendezvous].group];
    primitive.group_size = static_cast<std::uint32_t>(group.members.size());
    primitive.in_place = primitive.shape.op == OpCode::kAllGather && IsInPlace(graph, id);
  }
  if (task.kind != TaskKind::kCompute && task.kind != TaskKind::kHost &&
      !Sums(primitive.shape.op)) {
    primitive.shape.dtype = Dtype::kUint8;
  }
  return primitive;
}

std::vector<Primitive> PrimitivesOf(const TaskGraph& graph, const FusedPairs& pairs) {
  std::set<Primitive> all;
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    if (const auto primitive = PrimitiveOf(graph, id, pairs)) all.insert(*primitive);
  }
  return {all.begin(), all.end()};
}

}  // namespace twinstep
