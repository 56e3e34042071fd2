#include "sim/report/schedule_view.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <vector>

#include "sim/report/pipeline_steps.h"
#include "sim/report/text_table.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

ScheduleRow RowOf(const TaskGraph& graph, const Replay& replay, RankId rank) {
  ScheduleRow row;
  row.global_rank = graph.ranks[rank].global_rank;
  const std::vector<PipelineStep> steps = StepsOfRank(graph, rank);
  std::set<std::uint16_t> stages;
  for (const PipelineStep& step : steps) stages.insert(step.block.stage);
  row.chunks = std::max<std::size_t>(stages.size(), 1);
  for (const PipelineStep& step : steps) {
    row.steps.push_back(
        {step.backward, step.block.micro_batch,
         static_cast<std::size_t>(std::distance(stages.begin(), stages.find(step.block.stage))),
         static_cast<double>(replay.start_ps[step.first]) / kPicosecondsPerSecond,
         static_cast<double>(replay.end_ps[step.last]) / kPicosecondsPerSecond});
  }
  return row;
}

// One row a pipeline coordinate: the lowest rank stands for its replicas.
std::vector<ScheduleRow> RowsOf(const TaskGraph& graph, const Replay& replay) {
  std::vector<ScheduleRow> rows;
  std::set<std::uint16_t> seen;
  for (RankId rank = 0; rank < graph.ranks.size(); ++rank) {
    if (seen.insert(graph.ranks[rank].pp).second) rows.push_back(RowOf(graph, replay, rank));
  }
  return rows;
}

std::string BlockName(const std::optional<BlockId>& block) {
  return block ? StrCat("(", block->micro_batch, ",", block->stage, ")") : "-";
}

}  // namespace

std::string DrawSchedule(const TaskGraph& graph, const Replay& replay,
                         const ScheduleViewOptions& options) {
  return DrawScheduleRows(RowsOf(graph, replay),
                          static_cast<double>(replay.makespan_ps) / kPicosecondsPerSecond, options);
}

std::string StepTable(const TaskGraph& graph, const Replay& replay, RankId rank,
                      std::size_t max_steps) {
  const std::vector<PipelineStep> steps = StepsOfRank(graph, rank);
  const std::vector<StepState> states = StatesOfSteps(graph, replay, rank, steps);
  TextTable table({"step", "operation", "offloading", "reloading", "living", "whole on GPU",
                   "reload buffers", "on host"});
  for (const std::size_t column : {1u, 2u, 3u}) table.AlignLeft(column);
  const std::size_t left_out = steps.size() > max_steps ? steps.size() - max_steps : 0;
  const std::size_t head = (steps.size() - left_out + 1) / 2;
  StepState most;
  for (std::size_t k = 0; k < steps.size(); ++k) {
    const StepState& state = states[k];
    most.living = std::max(most.living, state.living);
    most.whole_on_gpu = std::max(most.whole_on_gpu, state.whole_on_gpu);
    most.reload_buffers = std::max(most.reload_buffers, state.reload_buffers);
    most.on_host = std::max(most.on_host, state.on_host);
    if (left_out > 0 && k >= head && k < head + left_out) {
      if (k == head) {
        table.AddRow({"...", StrCat(left_out, " steps"), "", "", "", "", "", ""});
      }
      continue;
    }
    table.AddRow({std::to_string(k), (steps[k].backward ? "B" : "F") + BlockName(steps[k].block),
                  BlockName(state.offloading), BlockName(state.reloading),
                  std::to_string(state.living), std::to_string(state.whole_on_gpu),
                  std::to_string(state.reload_buffers), std::to_string(state.on_host)});
  }
  table.AddRow({"most", "", "", "", std::to_string(most.living), std::to_string(most.whole_on_gpu),
                std::to_string(most.reload_buffers), std::to_string(most.on_host)});
  return StrCat("Activation blocks of rank ", graph.ranks[rank].global_rank,
                " during each step: (micro-batch, stage of the pipeline)\n") +
         table.ToString();
}

}  // namespace twinstep
