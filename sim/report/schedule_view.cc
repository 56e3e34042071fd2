#include "sim/report/schedule_view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <vector>

#include "sim/format.h"
#include "sim/report/pipeline_steps.h"
#include "sim/report/text_table.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

constexpr std::size_t kRankLabelWidth = 8;
// Columns of a forward: below the first a picture shows no labels, the second holds one such as
// F12a.
constexpr double kNarrowForward = 3;
constexpr double kBothShare = 0.15;  // Less of the other direction in a column is not shown.
constexpr double kReadableForward = 5;

struct TimedStep {
  bool backward = false;
  std::uint16_t micro_batch = 0;
  std::size_t chunk = 0;  // Of the device's stages, from 0.
  double begin_s = 0, end_s = 0;
};

struct RankRow {
  std::uint32_t global_rank = 0;
  std::size_t chunks = 1;
  std::vector<TimedStep> steps;
};

RankRow RowOf(const TaskGraph& graph, const Replay& replay, RankId rank) {
  RankRow row;
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
std::vector<RankRow> RowsOf(const TaskGraph& graph, const Replay& replay) {
  std::vector<RankRow> rows;
  std::set<std::uint16_t> seen;
  for (RankId rank = 0; rank < graph.ranks.size(); ++rank) {
    if (seen.insert(graph.ranks[rank].pp).second) rows.push_back(RowOf(graph, replay, rank));
  }
  return rows;
}

std::string LabelOf(const TimedStep& step, std::size_t chunks, std::size_t width) {
  std::string label = StrCat(step.backward ? 'B' : 'F', step.micro_batch);
  if (chunks > 1 && chunks <= 26 && label.size() + 1 <= width) {
    label += static_cast<char>('a' + step.chunk);
  }
  if (label.size() > width) label.resize(1);
  return label;
}

// ANSI background of a cell; forwards blue, backwards green, a shade a chunk.
std::string ColourOf(const TimedStep& step) {
  static constexpr std::array<int, 4> kForward = {25, 31, 61, 68};
  static constexpr std::array<int, 4> kBackward = {22, 28, 64, 70};
  const auto& shades = step.backward ? kBackward : kForward;
  return StrCat("\x1b[97;48;5;", shades[step.chunk % shades.size()], "m");
}

// One row between two times: a label where it fits, '-' behind forwards, '=' behind backwards,
// '.' where the rank does neither.
std::string DrawRow(const RankRow& row, double from_s, double to_s, std::size_t columns,
                    bool colour) {
  const double scale = static_cast<double>(columns) / (to_s - from_s);
  const auto column_of = [&](double t) {
    return static_cast<std::size_t>(
        std::clamp(std::lround((t - from_s) * scale), 0L, static_cast<long>(columns)));
  };
  std::string text;
  std::size_t at = 0;
  for (const TimedStep& step : row.steps) {
    const std::size_t begin = std::max(at, column_of(step.begin_s));
    const std::size_t end = column_of(step.end_s);
    if (end <= begin) continue;
    text.append(begin - at, '.');
    std::string cell = LabelOf(step, row.chunks, end - begin);
    cell.resize(end - begin, step.backward ? '=' : '-');
    text += colour ? ColourOf(step) + cell + "\x1b[0m" : cell;
    at = end;
  }
  return text + std::string(columns - at, '.');
}

// One row of the whole iteration where steps are narrower than a column: what fills most of each, x
// where forwards and backwards alternate.
std::string DrawDenseRow(const RankRow& row, double from_s, double to_s, std::size_t columns) {
  const double width_s = (to_s - from_s) / static_cast<double>(columns);
  std::vector<double> forward_s(columns, 0), backward_s(columns, 0);
  for (const TimedStep& step : row.steps) {
    auto column = static_cast<std::size_t>(std::max(0.0, (step.begin_s - from_s) / width_s));
    for (; column < columns; ++column) {
      const double begin_s = from_s + static_cast<double>(column) * width_s;
      if (begin_s >= step.end_s) break;
      const double share =
          std::min(step.end_s, begin_s + width_s) - std::max(step.begin_s, begin_s);
      (step.backward ? backward_s : forward_s)[column] += std::max(0.0, share);
    }
  }
  std::string text;
  for (std::size_t i = 0; i < columns; ++i) {
    const double busy_s = forward_s[i] + backward_s[i];
    const bool both = std::min(forward_s[i], backward_s[i]) > kBothShare * busy_s;
    text += 2 * busy_s < width_s ? '.' : both ? 'x' : forward_s[i] > backward_s[i] ? 'F' : 'B';
  }
  return text;
}

std::string DrawWindow(const std::vector<RankRow>& rows, double from_s, double to_s,
                       const ScheduleViewOptions& options, bool dense = false) {
  const std::size_t columns = std::max<std::size_t>(options.width, 40) - kRankLabelWidth - 1;
  std::string text;
  for (const RankRow& row : rows) {
    std::string label = StrCat("rank ", row.global_rank);
    label.resize(std::max(kRankLabelWidth, label.size()), ' ');
    text += label + " " +
            (dense ? DrawDenseRow(row, from_s, to_s, columns)
                   : DrawRow(row, from_s, to_s, columns, options.colour)) +
            "\n";
  }
  const std::string left = Seconds(from_s);
  const std::string right = Seconds(to_s);
  text += std::string(kRankLabelWidth + 1, ' ') + left;
  const std::size_t used = left.size() + right.size();
  if (columns > used) text += std::string(columns - used, ' ') + right;
  return text + "\n";
}

double MedianForwardSeconds(const std::vector<RankRow>& rows) {
  std::vector<double> durations;
  for (const RankRow& row : rows) {
    for (const TimedStep& step : row.steps) {
      if (!step.backward) durations.push_back(step.end_s - step.begin_s);
    }
  }
  if (durations.empty()) return 0;
  const auto middle = durations.begin() + static_cast<std::ptrdiff_t>(durations.size() / 2);
  std::nth_element(durations.begin(), middle, durations.end());
  return *middle;
}

std::string BlockName(const std::optional<BlockId>& block) {
  return block ? StrCat("(", block->micro_batch, ",", block->stage, ")") : "-";
}

}  // namespace

std::string DrawSchedule(const TaskGraph& graph, const Replay& replay,
                         const ScheduleViewOptions& options) {
  const double end_s = static_cast<double>(replay.makespan_ps) / kPicosecondsPerSecond;
  if (end_s <= 0) return "";
  const std::vector<RankRow> rows = RowsOf(graph, replay);
  double first_s = end_s, last_s = 0;  // Of the pipeline, without gathers and optimizer.
  bool chunks = false;
  for (const RankRow& row : rows) {
    chunks |= row.chunks > 1;
    for (const TimedStep& step : row.steps) {
      first_s = std::min(first_s, step.begin_s);
      last_s = std::max(last_s, step.end_s);
    }
  }
  const double forward_s = MedianForwardSeconds(rows);
  const double columns = static_cast<double>(options.width - kRankLabelWidth - 1);
  const bool dense = forward_s * columns < kNarrowForward * end_s;

  std::string text = "Schedule: F3 forward, B3 backward of micro-batch 3, . neither";
  if (dense) text += ", x both";
  if (chunks) text += "; a, b ... stages of a device";
  text += "\n" + DrawWindow(rows, 0, end_s, options, dense);
  const double detail_s = forward_s * columns / kReadableForward;
  if (forward_s > 0 && dense && detail_s < last_s - first_s) {
    text += "\nIts beginning\n" + DrawWindow(rows, first_s, first_s + detail_s, options);
    text += "\nIts end\n" + DrawWindow(rows, last_s - detail_s, last_s, options);
  }
  return text;
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
                " during each step: (micro-batch, stage)\n") +
         table.ToString();
}

}  // namespace twinstep
