#include "sim/report/schedule_rows.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/format.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

constexpr std::size_t kRankLabelWidth = 8;
constexpr std::size_t kLeastWidth = 40;
// Columns of a forward: below the first a picture shows no labels, the second holds one such as
// F12a.
constexpr double kNarrowForward = 3;
constexpr double kBothShare = 0.15;  // Less of the other direction in a column is not shown.
constexpr double kReadableForward = 5;

// Of a picture, without the labels of its rows.
std::size_t ColumnsOf(const ScheduleViewOptions& options) {
  return std::max(options.width, kLeastWidth) - kRankLabelWidth - 1;
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
std::string DrawRow(const ScheduleRow& row, double from_s, double to_s, std::size_t columns,
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
std::string DrawDenseRow(const ScheduleRow& row, double from_s, double to_s, std::size_t columns) {
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

std::string DrawWindow(const std::vector<ScheduleRow>& rows, double from_s, double to_s,
                       const ScheduleViewOptions& options, bool dense = false) {
  const std::size_t columns = ColumnsOf(options);
  std::string text;
  for (const ScheduleRow& row : rows) {
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

double MedianForwardSeconds(const std::vector<ScheduleRow>& rows) {
  std::vector<double> durations;
  for (const ScheduleRow& row : rows) {
    for (const TimedStep& step : row.steps) {
      if (!step.backward) durations.push_back(step.end_s - step.begin_s);
    }
  }
  if (durations.empty()) return 0;
  const auto middle = durations.begin() + static_cast<std::ptrdiff_t>(durations.size() / 2);
  std::nth_element(durations.begin(), middle, durations.end());
  return *middle;
}

}  // namespace

std::string DrawScheduleRows(const std::vector<ScheduleRow>& rows, double end_s,
                             const ScheduleViewOptions& options) {
  if (end_s <= 0) return "";
  double first_s = end_s, last_s = 0;  // Of the pipeline, without gathers and optimizer.
  bool chunks = false;
  for (const ScheduleRow& row : rows) {
    chunks |= row.chunks > 1;
    for (const TimedStep& step : row.steps) {
      first_s = std::min(first_s, step.begin_s);
      last_s = std::max(last_s, step.end_s);
    }
  }
  const double forward_s = MedianForwardSeconds(rows);
  const double columns = static_cast<double>(ColumnsOf(options));
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

}  // namespace twinstep
