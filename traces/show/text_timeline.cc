#include "traces/show/text_timeline.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <vector>

#include "sim/cost/graph_costs.h"
#include "sim/format.h"
#include "sim/printable.h"
#include "sim/report/schedule_rows.h"
#include "sim/str_cat.h"
#include "traces/breakdown.h"
#include "traces/show/schedule_of_trace.h"
#include "traces/show/timeline.h"

namespace twinstep {
namespace {

constexpr std::size_t kLeastWidth = 60;
constexpr std::size_t kLeastRankWidth = 9, kLeastLaneWidth = 9, kMostLaneWidth = 17;
constexpr std::size_t kShareWidth = 6;  // " 100 %"

// What a column of a lane can show.
struct Glyph {
  char letter;
  const char* name;
  int colour;  // ANSI background, of 256.
};
// In the order of a Timeline's time classes, then what computation is told apart by.
constexpr std::array<Glyph, 12> kGlyphs = {{{'K', "compute", 110},
                                            {'R', "recompute", 227},
                                            {'O', "optimizer", 72},
                                            {'T', "TP", 180},
                                            {'C', "CP", 144},
                                            {'P', "PP", 173},
                                            {'D', "DP", 175},
                                            {'M', "copies", 248},
                                            {'X', "other", 252},
                                            {'N', "communication", 175},
                                            {'F', "forward", 74},
                                            {'B', "backward", 214}}};
constexpr std::size_t kForward = 10, kBackward = 11;

// By time class, but computation by direction where there is one.
std::size_t GlyphOf(const Trace& trace, const Timeline& timeline, int event) {
  const std::uint8_t time_class = timeline.time_classes[static_cast<std::size_t>(event)];
  if (time_class != static_cast<std::uint8_t>(TimeClass::kCompute)) return time_class;
  const std::string& phase = trace.phases(static_cast<int>(trace.phase(event)));
  if (phase == Name(Phase::kForward)) return kForward;
  return phase == Name(Phase::kBackward) ? kBackward : time_class;
}

class Picture {
 public:
  Picture(const Trace& trace, const TextTimelineOptions& options)
      : trace_(trace),
        options_(options),
        timeline_(ArrangeRows(trace)),
        from_ps_(static_cast<double>(options.from_ps)),
        to_ps_(static_cast<double>(options.to_ps > 0 ? options.to_ps : trace.iteration_ps())),
        rank_width_(RankWidth()),
        lane_width_(LaneWidth()),
        columns_(std::max(options.width, kLeastWidth) - rank_width_ - lane_width_ - kShareWidth -
                 1),
        column_ps_((to_ps_ - from_ps_) / static_cast<double>(columns_)) {}

  std::string Draw() {
    std::string rows;
    std::int64_t last_rank = -1;
    for (std::size_t i = 0; i < timeline_.rows.size(); ++i) {
      const TimelineRow& row = timeline_.rows[i];
      if (!Shows(row.rank)) continue;
      const bool is_new = row.rank != last_rank;
      if (is_new && last_rank >= 0) rows += MemoryOf(static_cast<std::uint32_t>(last_rank));
      last_rank = row.rank;
      rows += DrawLane(row, is_new ? RankLabel(RankOf(row.rank)) : "");
    }
    if (last_rank >= 0) rows += MemoryOf(static_cast<std::uint32_t>(last_rank));
    return Legend() + rows + Axis();
  }

  std::string Schedule() const {
    const std::vector<ScheduleRow> steps = ScheduleOf(trace_, timeline_, options_.shows_rank);
    if (steps.empty()) return "";
    return "\n" + DrawScheduleRows(
                      steps, static_cast<double>(trace_.iteration_ps()) / kPicosecondsPerSecond,
                      {.width = std::max(options_.width, kLeastWidth), .colour = options_.colour});
  }

 private:
  const Trace::Rank& RankOf(std::uint32_t rank) const {
    return trace_.ranks(static_cast<int>(rank));
  }
  bool Shows(std::uint32_t rank) const {
    return !options_.shows_rank || options_.shows_rank(RankOf(rank).global_rank());
  }

  static std::string RankLabel(const Trace::Rank& rank) {
    return StrCat("rank ", rank.global_rank());
  }
  // Of the longest label and a space.
  std::size_t RankWidth() const {
    std::size_t width = kLeastRankWidth;
    for (const Trace::Rank& rank : trace_.ranks()) {
      width = std::max(width, RankLabel(rank).size() + 1);
    }
    return width;
  }

  // Of the longest lane's name and a space, within limits.
  std::size_t LaneWidth() const {
    std::size_t width = kLeastLaneWidth;
    for (const TimelineRow& row : timeline_.rows) {
      width = std::max(width, TextColumns(trace_.lanes(static_cast<int>(row.lane))) + 1);
    }
    return std::min(width, kMostLaneWidth);
  }

  // Visits the columns that [begin, end) reaches, with the picoseconds in each.
  template <typename Visit>
  void ForEachColumn(std::int64_t begin_ps, std::int64_t end_ps, const Visit& visit) const {
    const double begin = std::max(static_cast<double>(begin_ps), from_ps_);
    const double end = std::min(static_cast<double>(end_ps), to_ps_);
    if (end <= begin) return;
    for (auto i = static_cast<std::size_t>((begin - from_ps_) / column_ps_); i < columns_; ++i) {
      const double left = from_ps_ + static_cast<double>(i) * column_ps_;
      if (left >= end) return;
      visit(i, std::min(left + column_ps_, end) - std::max(left, begin));
    }
  }

  std::string DrawLane(const TimelineRow& row, const std::string& rank) {
    std::vector<std::array<double, kGlyphs.size()>> busy(columns_);
    double total = 0;
    for (std::size_t i = row.begin; i < row.end; ++i) {
      const int event = timeline_.events[i];
      const std::size_t glyph = GlyphOf(trace_, timeline_, event);
      ForEachColumn(trace_.start_ps(event), trace_.end_ps(event),
                    [&](std::size_t column, double time_ps) {
                      busy[column][glyph] += time_ps;
                      total += time_ps;
                    });
    }
    std::string cells;
    for (const auto& column : busy) cells += Cell(column);
    const std::string share = Fixed(100 * total / (to_ps_ - from_ps_), 0) + " %";
    return Labels(rank, trace_.lanes(static_cast<int>(row.lane))) + cells +
           std::string(kShareWidth - std::min(kShareWidth, share.size()), ' ') + share + "\n";
  }

  std::string Cell(const std::array<double, kGlyphs.size()>& busy) {
    const auto most = std::max_element(busy.begin(), busy.end());
    double total = 0;
    for (const double time_ps : busy) total += time_ps;
    if (total <= 0) return ".";
    const auto glyph = static_cast<std::size_t>(most - busy.begin());
    used_[glyph] = true;
    const char letter = kGlyphs[glyph].letter;
    const bool full = 2 * total >= column_ps_;
    const std::string cell(1, full ? letter : static_cast<char>(std::tolower(letter)));
    if (!options_.colour || !full) return cell;
    return StrCat("\x1b[30;48;5;", kGlyphs[glyph].colour, "m", cell, "\x1b[0m");
  }

  // Most live bytes of each column in tenths of the peak.
  std::string MemoryOf(std::uint32_t rank) const {
    std::string text;
    for (const Trace::MemoryCurve& curve : trace_.memory()) {
      if (curve.rank() != rank || curve.time_ps_size() == 0) continue;
      std::vector<std::int64_t> most(columns_, 0);
      std::int64_t peak = 0;
      for (int i = 0; i < curve.time_ps_size(); ++i) {
        peak = std::max(peak, curve.live_bytes(i));
        const std::int64_t end =
            i + 1 < curve.time_ps_size() ? curve.time_ps(i + 1) : trace_.iteration_ps();
        ForEachColumn(curve.time_ps(i), end, [&](std::size_t column, double) {
          most[column] = std::max(most[column], curve.live_bytes(i));
        });
      }
      if (peak <= 0) continue;
      std::string cells;
      for (const std::int64_t bytes : most) {
        const double share = static_cast<double>(bytes) / static_cast<double>(peak);
        cells += bytes == peak ? '#' : static_cast<char>('0' + static_cast<int>(10 * share));
      }
      const bool is_pinned = curve.pool() == static_cast<std::uint32_t>(Pool::kPinnedHost);
      const std::string label = StrCat(is_pinned ? "pinned" : Name(static_cast<Pool>(curve.pool())),
                                       " ", Bytes(static_cast<double>(peak)));
      const std::size_t width = rank_width_ + lane_width_ - 1;
      text += std::string(width - std::min(width, label.size()), ' ') + label + " " + cells + "\n";
    }
    return text;
  }

  // Names that are alike differ at their ends: what is too much is left out in the middle, but no
  // part of a character.
  static std::string Shortened(const std::string& text, std::size_t width) {
    const std::size_t columns = TextColumns(text);
    if (columns <= width) return text;
    const std::size_t begin = (width - 2) / 2, end = columns - (width - 2 - begin);
    return StrCat(FirstColumns(text, begin), "..",
                  std::string_view(text).substr(FirstColumns(text, end).size()));
  }
  static std::string Padded(const std::string& text, std::size_t width) {
    return StrCat(text, std::string(width - std::min(width, TextColumns(text)), ' '));
  }
  std::string Labels(const std::string& rank, const std::string& lane) const {
    return Padded(rank, rank_width_) +
           Padded(Shortened(PrintableLine(lane), lane_width_ - 1), lane_width_);
  }

  // Words in lines of the picture's width.
  std::string Wrapped(std::string_view text) const {
    const std::size_t width = std::max(options_.width, kLeastWidth);
    std::string lines;
    while (text.size() > width) {
      const std::size_t space = text.rfind(' ', width);
      if (space == std::string_view::npos) break;
      lines.append(text.substr(0, space)).append("\n");
      text.remove_prefix(space + 1);
    }
    return lines.append(text).append("\n");
  }

  std::string Legend() const {
    std::string text;
    for (std::size_t k = 0; k < kGlyphs.size(); ++k) {
      const std::size_t i = (kForward + k) % kGlyphs.size();  // Directions first.
      if (used_[i]) text += StrCat(kGlyphs[i].letter, " ", kGlyphs[i].name, ", ");
    }
    text += "small: less than half busy, . idle";
    if (trace_.memory_size() > 0) text += "; live memory in tenths of its peak #";
    return Wrapped(text);
  }

  std::string Axis() const {
    const std::string left = Seconds(from_ps_ / kPicosecondsPerSecond);
    const std::string right = Seconds(to_ps_ / kPicosecondsPerSecond);
    const std::size_t used = std::min(columns_, left.size() + right.size());
    return std::string(rank_width_ + lane_width_, ' ') + left + std::string(columns_ - used, ' ') +
           right + "\n";
  }

  const Trace& trace_;
  const TextTimelineOptions& options_;
  const Timeline timeline_;
  const double from_ps_, to_ps_;
  const std::size_t rank_width_, lane_width_;
  const std::size_t columns_;
  const double column_ps_;
  std::array<bool, kGlyphs.size()> used_{};
};

// A simulated rank stands for all that are equal to it.
std::string StandsFor(const Trace& trace) {
  std::int64_t ranks = 0;
  for (const Trace::Rank& rank : trace.ranks()) ranks += std::max(1u, rank.class_size());
  if (ranks == trace.ranks_size()) return "";
  return StrCat(trace.ranks_size() == 1 ? ", which stands for " : ", which stand for ",
                Count(ranks));
}

}  // namespace

std::string TextTimeline(const Trace& trace, const TextTimelineOptions& options) {
  std::string text =
      StrCat(PrintableLine(trace.name()), trace.name().empty() ? "" : ": ",
             Seconds(static_cast<double>(trace.iteration_ps()) / kPicosecondsPerSecond), ", ",
             CountOf(trace.task_size(), "task"), " of ", CountOf(trace.ranks_size(), "rank"),
             StandsFor(trace), "\n");
  if (trace.iteration_ps() <= options.from_ps) return text;  // Nothing runs by then.
  Picture picture(trace, options);
  text += picture.Draw();
  const bool whole = options.from_ps == 0 && options.to_ps == 0;
  return whole ? text + picture.Schedule() : text;
}

}  // namespace twinstep
