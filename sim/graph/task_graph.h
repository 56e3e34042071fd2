// The task graph: one training iteration as a program. It names every buffer, so that it can be
// verified, placed in memory, replayed on a hardware model and executed.
//
// Tasks are stored rank by rank, each rank's in issue order: ids of rank r are
// [rank_begin[r], rank_begin[r + 1]), and issue order is a topological order of the rank.
// Edges (RAW, WAR, WAW on buffers, explicit ordering, and lane order) lie in a Boost.Graph
// compressed_sparse_row_graph; rendezvous join SEND with RECV and the tasks of a collective
// across ranks and are not edges.
//
//   TaskGraph graph = Lower(model, cluster, plan).value();
//   for (TaskId id = 0; id < graph.tasks.size(); ++id) {
//     const Task& task = graph.tasks[id];
//     std::puts(Name(graph.shapes[task.shape].op));
//     for (const Operand& x : graph.Reads(id)) total += graph.OperandBytes(x);
//     for (TaskId next : graph.Successors(id)) ...
//   }
#pragma once

#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/graph/ids.h"
#include "sim/graph/op.h"

namespace twinstep {

// A contiguous allocation: the unit of hazards and of placement.
struct Buffer {
  std::int64_t bytes = 0;
  RankId rank = 0;
  Pool pool = Pool::kGpu;
  Dtype dtype = Dtype::kBf16;
  Role role = Role::kTransient;
  // Holds a value when the iteration starts and after it ends (weights, optimizer state, input):
  // reading it needs no earlier write, and its bytes are never shared.
  bool persistent = false;
};

// A byte range of a buffer.
struct Slice {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  bool operator==(const Slice&) const = default;
};

// What a task reads or writes: a whole buffer (slice 0) or a slice of it. Hazards are tracked by
// whole buffers.
struct Operand {
  BufferId buffer = kNone;
  SliceId slice = 0;
  bool operator==(const Operand&) const = default;
};

struct Task {
  ShapeId shape = 0;
  RankId rank = 0;
  std::uint32_t operand_begin = 0;  // Into TaskGraph::operands: reads, then writes.
  std::uint16_t read_count = 0;
  std::uint16_t write_count = 0;
  RendezvousId rendezvous = kNone;
  TaskKind kind = TaskKind::kCompute;
  Lane lane = Lane::kCompute;
  Phase phase = Phase::kForward;
  std::uint8_t reserved = 0;
  // Tags; kNoTag where they do not apply.
  std::uint16_t micro_batch = kNoTag;
  std::uint16_t stage = kNoTag;  // Global stage, 0 .. p v - 1.
  std::uint16_t block = kNoTag;  // Layer 0 .. L-1; L = head, L + 1 = embedding.
  std::uint16_t chunk = kNoTag;  // Parameter chunk.
};
static_assert(sizeof(Task) == 32);

// A represented rank: itself in an unfolded graph, else the representative of its class.
struct RankInfo {
  std::uint32_t global_rank = 0;
  std::uint16_t tp = 0, cp = 0, dp = 0, pp = 0;  // Coordinates.
  std::uint32_t class_size = 1;                  // Global ranks it stands for.
};

// Ranks of a communicator, by global rank, in group order. `placement` groups equal ones: two
// groups with the same placement cost the same.
struct Group {
  std::vector<std::uint32_t> members;
};

// Tasks that start together: a SEND with its RECV, or one task a member of a collective. In a
// folded graph only representatives take part; `participants` says how many tasks join.
struct Rendezvous {
  GroupId group = kNone;
  std::uint32_t participants = 0;
};

// Which logical tensor a persistent byte range holds: initialisation, checkpoints and the
// symbolic interpreter need it.
enum class TensorKind : std::uint8_t {
  kTokens,  // Input ids of a micro-batch.
  kLabels,
  kTokenEmbedding,
  kPositionEmbedding,
  kNorm1Weight,
  kNorm1Bias,
  kQkvWeight,  // [ (heads + 2 kv_heads) d, h ], rows in the order q, k, v.
  kQkvBias,
  kOutWeight,  // [ h, heads d ]
  kOutBias,
  kNorm2Weight,
  kNorm2Bias,
  kUpWeight,  // MLP in: [ ffn, h ], gated models [ 2 ffn, h ] (gate rows, then up rows).
  kUpBias,
  kDownWeight,  // [ h, ffn ]
  kDownBias,
  kFinalNormWeight,
  kFinalNormBias,
  kHeadWeight,  // [ V, h ]
  kLoss,        // fp64, one a micro-batch: its share of the batch's mean loss.
};
inline constexpr int kTensorKindCount = static_cast<int>(TensorKind::kLoss) + 1;
const char* Name(TensorKind kind);

// How a rank's piece relates to the logical tensor.
enum class ShardAxis : std::uint8_t {
  kWhole,    // Not split.
  kRows,     // Output rows split over tensor parallel (QKV: each of q, k, v split by heads;
             // gated up: gate and up halves each split).
  kColumns,  // Input columns split over tensor parallel.
};
inline constexpr int kShardAxisCount = static_cast<int>(ShardAxis::kColumns) + 1;

enum class StateKind : std::uint8_t { kParameter, kGradient, kMaster, kMoment1, kMoment2, kData };
inline constexpr int kStateKindCount = static_cast<int>(StateKind::kData) + 1;

// One logical tensor's place in a persistent buffer. Chunks hold several tensors one after the
// other; with ZeRO this rank holds the shard_index-th of shard_count equal parts of the chunk.
// A buffer as large as the whole chunk (parameters, ZeRO 1 and 2) holds the shard at its place in
// the chunk, the rest is stale at the iteration's ends; a smaller buffer holds just the shard.
// `slice` is the tensor's range inside the *whole* chunk.
struct TensorInfo {
  BufferId buffer = kNone;
  Slice slice;  // Of the whole chunk, in bytes of this state's dtype.
  TensorKind kind = TensorKind::kTokens;
  StateKind state = StateKind::kParameter;
  ShardAxis axis = ShardAxis::kWhole;  // Tensor-parallel split.
  std::uint16_t axis_index = 0, axis_count = 1;
  std::uint16_t block = kNoTag;  // Layer.
  std::uint16_t chunk = kNoTag;
  std::uint32_t shard_index = 0, shard_count = 1;  // ZeRO shard of the chunk in `buffer`.
  // For kData: global micro-batch = dp rank * m + micro_batch, and context-parallel piece.
  std::uint32_t micro_batch = 0;
  std::uint16_t cp_index = 0, cp_count = 1;
  std::int64_t rows = 0, columns = 0;  // Local shape.
};

using EdgeGraph =
    boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, boost::no_property,
                                       boost::no_property, std::uint32_t, std::uint32_t>;

struct TaskGraph {
  std::vector<Task> tasks;
  std::vector<std::uint32_t> rank_begin;  // ranks + 1 entries.
  std::vector<Operand> operands;
  std::vector<Buffer> buffers;
  std::vector<Slice> slices{Slice{}};  // [0] stands for "the whole buffer".
  std::vector<OpShape> shapes;
  std::vector<RankInfo> ranks;
  std::vector<Group> groups;
  std::vector<Rendezvous> rendezvous;
  std::vector<TensorInfo> tensors;
  EdgeGraph edges;

  // Class (index into `ranks`) of every global rank; in an unfolded graph the identity.
  std::vector<std::uint32_t> rank_class;

  std::span<const Operand> Reads(TaskId id) const {
    const Task& task = tasks[id];
    return {operands.data() + task.operand_begin, task.read_count};
  }
  std::span<const Operand> Writes(TaskId id) const {
    const Task& task = tasks[id];
    return {operands.data() + task.operand_begin + task.read_count, task.write_count};
  }
  std::int64_t OperandBytes(const Operand& x) const {
    return x.slice == 0 ? buffers[x.buffer].bytes : slices[x.slice].bytes;
  }
  // Targets of a task's out-edges.
  std::span<const std::uint32_t> Successors(TaskId id) const {
    const auto begin = edges.m_forward.m_rowstart[id];
    const auto end = edges.m_forward.m_rowstart[id + 1];
    return {edges.m_forward.m_column.data() + begin, end - begin};
  }
  std::uint32_t TaskCount() const { return static_cast<std::uint32_t>(tasks.size()); }
  std::uint32_t EdgeCount() const {
    return static_cast<std::uint32_t>(edges.m_forward.m_column.size());
  }
  bool IsFolded() const { return ranks.size() != rank_class.size(); }

  // "r3 compute gemm_forward mb2 stage1 block5", for reports, errors and traces.
  std::string TaskName(TaskId id) const;
};

// Flat edge list -> compressed sparse rows, sorted by (source, target), duplicates removed.
EdgeGraph FreezeEdges(std::uint32_t task_count, std::span<const std::pair<TaskId, TaskId>> edges);

}  // namespace twinstep
