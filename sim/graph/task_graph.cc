#include "sim/graph/task_graph.h"

#include <algorithm>
#include <array>
#include <utility>

namespace twinstep {

const char* Name(TensorKind kind) {
  static constexpr std::array<const char*, kTensorKindCount> kNames = {"tokens",
                                                                       "labels",
                                                                       "token_embedding",
                                                                       "position_embedding",
                                                                       "norm1_weight",
                                                                       "norm1_bias",
                                                                       "qkv_weight",
                                                                       "qkv_bias",
                                                                       "out_weight",
                                                                       "out_bias",
                                                                       "norm2_weight",
                                                                       "norm2_bias",
                                                                       "up_weight",
                                                                       "up_bias",
                                                                       "down_weight",
                                                                       "down_bias",
                                                                       "final_norm_weight",
                                                                       "final_norm_bias",
                                                                       "head_weight",
                                                                       "loss"};
  const auto index = static_cast<std::size_t>(kind);
  return index < kNames.size() ? kNames[index] : "invalid";
}

std::string TaskGraph::TaskName(TaskId id) const {
  const Task& task = tasks[id];
  std::string name = "r" + std::to_string(ranks[task.rank].global_rank) + " " + Name(task.lane) +
                     " " + Name(shapes[task.shape].op);
  const auto tag = [&name](const char* label, std::uint16_t value) {
    if (value != kNoTag) name += std::string(" ") + label + std::to_string(value);
  };
  tag("mb", task.micro_batch);
  tag("stage", task.stage);
  tag("block", task.block);
  tag("chunk", task.chunk);
  return name;
}

EdgeGraph FreezeEdges(std::uint32_t task_count, std::span<const std::pair<TaskId, TaskId>> edges) {
  // Two counting sorts (by target, then stably by source) beat a comparison sort by far on
  // millions of edges, and lowering hands them over nearly sorted by target.
  std::vector<std::uint32_t> row(task_count + 1, 0);
  for (const auto& edge : edges) ++row[edge.first + 1];
  for (std::uint32_t i = 0; i < task_count; ++i) row[i + 1] += row[i];
  std::vector<std::uint32_t> column(edges.size());
  std::vector<std::uint32_t> next(row.begin(), row.end() - 1);
  for (const auto& edge : edges) column[next[edge.first]++] = edge.second;
  std::uint32_t kept = 0;
  std::uint32_t begin = 0;
  for (std::uint32_t source = 0; source < task_count; ++source) {
    const std::uint32_t end = row[source + 1];
    std::uint32_t* first = column.data() + begin;
    std::uint32_t* last = column.data() + end;
    if (!std::is_sorted(first, last)) std::sort(first, last);
    const std::uint32_t row_start = kept;
    for (const std::uint32_t* it = first; it != last; ++it) {
      if (kept == row_start || column[kept - 1] != *it) column[kept++] = *it;
    }
    begin = end;
    row[source + 1] = kept;
  }
  column.resize(kept);
  EdgeGraph graph;
  graph.m_forward.m_rowstart.assign(row.begin(), row.end());
  graph.m_forward.m_column = std::move(column);
  return graph;
}

}  // namespace twinstep
