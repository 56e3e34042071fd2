#include "traces/activity.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string_view>

#include "sim/cost/graph_costs.h"
#include "sim/graph/ids.h"
#include "traces/imported_names.h"

namespace twinstep {
namespace {

std::size_t Index(OperatorClass x) { return static_cast<std::size_t>(x); }
std::size_t Index(ActivityPart x) { return static_cast<std::size_t>(x); }

// Nothing for kinds that count nowhere.
std::optional<ActivityPart> PartOfKind(std::string_view kind) {
  for (const TaskKind known : {TaskKind::kCompute, TaskKind::kHost}) {
    if (kind == Name(known)) return ActivityPart::kCompute;
  }
  for (const TaskKind known : {TaskKind::kSend, TaskKind::kRecv, TaskKind::kCollective}) {
    if (kind == Name(known)) return ActivityPart::kCommunication;
  }
  if (kind == Name(TaskKind::kH2D) || kind == Name(TaskKind::kD2H) || kind == kPeerCopyKind) {
    return ActivityPart::kCopies;
  }
  return std::nullopt;
}

double Seconds(Picoseconds time) { return static_cast<double>(time) / kPicosecondsPerSecond; }

double MedianSeconds(std::vector<Picoseconds>& times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  if (times.size() % 2 == 1) return Seconds(*middle);
  return (Seconds(*middle) + Seconds(*std::max_element(times.begin(), middle))) / 2;
}

// The intervals of one rank.
struct RankIntervals {
  std::array<std::vector<Interval>, kActivityPartCount> parts;
  std::array<std::vector<Interval>, kOperatorClassCount> classes;
};

class Summarizer {
 public:
  explicit Summarizer(const Trace& trace) : trace_(trace) {
    for (const std::string& kind : trace.kinds()) parts_.push_back(PartOfKind(kind));
    for (const std::string& name : trace.operators()) classes_.push_back(ClassOfOperator(name));
    for (const Trace::Rank& rank : trace.ranks()) {
      weights_.push_back(std::max(1u, rank.class_size()));
      weight_ += weights_.back();
    }
  }

  Activity Run() {
    out_.iteration_s = Seconds(trace_.iteration_ps());
    std::vector<double> time_s(static_cast<std::size_t>(trace_.operators_size()));
    std::vector<std::vector<Picoseconds>> durations(time_s.size());
    std::map<std::pair<std::uint32_t, OperatorClass>, double> phases;
    std::vector<RankIntervals> ranks(weights_.size());
    for (int i = 0; i < trace_.task_size(); ++i) {
      const std::optional<ActivityPart> part = parts_[trace_.kind(i)];
      if (!part) {
        ++out_.unknown;
        continue;
      }
      ++out_.tasks;
      const OperatorClass operator_class = classes_[trace_.op(i)];
      const Interval when{std::clamp<Picoseconds>(trace_.start_ps(i), 0, trace_.iteration_ps()),
                          std::clamp<Picoseconds>(trace_.end_ps(i), 0, trace_.iteration_ps())};
      const Picoseconds duration = std::max<Picoseconds>(0, when.end - when.begin);
      const double share_s = Seconds(duration) * weights_[trace_.rank(i)] / weight_;
      time_s[trace_.op(i)] += share_s;
      durations[trace_.op(i)].push_back(duration);
      phases[{trace_.phase(i), operator_class}] += share_s;
      ClassActivity& of_class = out_.classes[Index(operator_class)];
      ++of_class.tasks;
      of_class.time_s += share_s;
      RankIntervals& rank = ranks[trace_.rank(i)];
      rank.parts[Index(*part)].push_back(when);
      rank.classes[Index(operator_class)].push_back(when);
    }
    for (std::size_t i = 0; i < ranks.size(); ++i) AddRank(i, ranks[i]);
    AddOperators(time_s, durations);
    for (const auto& [key, seconds] : phases) {
      out_.phases.push_back({trace_.phases(static_cast<int>(key.first)), key.second, seconds});
    }
    return std::move(out_);
  }

 private:
  void AddRank(std::size_t rank, RankIntervals& intervals) {
    RankActivity result{trace_.ranks(static_cast<int>(rank)).global_rank(), {}};
    // What comes before communication, and before copies.
    IntervalSet covered;
    std::array<IntervalSet, kActivityPartCount> before;
    for (std::size_t part = 0; part < Index(ActivityPart::kIdle); ++part) {
      before[part] = covered;
      const IntervalSet own(std::move(intervals.parts[part]));
      result.part_ps[part] = own.Length() - own.Overlap(covered);
      covered = covered.Union(own);
    }
    result.part_ps[Index(ActivityPart::kIdle)] = trace_.iteration_ps() - covered.Length();
    const double share = weights_[rank] / weight_;
    for (std::size_t part = 0; part < result.part_ps.size(); ++part) {
      out_.part_s[part] += share * Seconds(result.part_ps[part]);
    }
    out_.ranks.push_back(result);
    for (std::size_t i = 0; i < intervals.classes.size(); ++i) {
      const auto operator_class = static_cast<OperatorClass>(i);
      const ActivityPart part = IsCommunication(operator_class) ? ActivityPart::kCommunication
                                : IsTransfer(operator_class)    ? ActivityPart::kCopies
                                                                : ActivityPart::kCompute;
      const IntervalSet own(std::move(intervals.classes[i]));
      const Picoseconds busy = own.Length();
      out_.classes[i].busy_s += share * Seconds(busy);
      out_.classes[i].exposed_s += share * Seconds(busy - own.Overlap(before[Index(part)]));
    }
  }

  void AddOperators(const std::vector<double>& time_s,
                    std::vector<std::vector<Picoseconds>>& durations) {
    for (std::size_t i = 0; i < durations.size(); ++i) {
      if (durations[i].empty()) continue;
      out_.operators.push_back({.name = trace_.operators(static_cast<int>(i)),
                                .operator_class = classes_[i],
                                .tasks = static_cast<std::int64_t>(durations[i].size()),
                                .time_s = time_s[i],
                                .median_s = MedianSeconds(durations[i])});
    }
    std::sort(out_.operators.begin(), out_.operators.end(),
              [](const OperatorActivity& a, const OperatorActivity& b) {
                return a.time_s != b.time_s ? a.time_s > b.time_s : a.name < b.name;
              });
  }

  const Trace& trace_;
  std::vector<std::optional<ActivityPart>> parts_;  // By kind.
  std::vector<OperatorClass> classes_;              // By operator.
  std::vector<double> weights_;                     // By rank.
  double weight_ = 0;
  Activity out_;
};

}  // namespace

const char* Label(ActivityPart part) {
  switch (part) {
    case ActivityPart::kCompute:
      return "compute";
    case ActivityPart::kCommunication:
      return "communication exposed";
    case ActivityPart::kCopies:
      return "copies exposed";
    case ActivityPart::kIdle:
      return "idle";
  }
  return "";
}

const char* JsonName(ActivityPart part) {
  switch (part) {
    case ActivityPart::kCompute:
      return "compute_s";
    case ActivityPart::kCommunication:
      return "communication_exposed_s";
    case ActivityPart::kCopies:
      return "copies_exposed_s";
    case ActivityPart::kIdle:
      return "idle_s";
  }
  return "";
}

Activity SummarizeActivity(const Trace& trace) { return Summarizer(trace).Run(); }

}  // namespace twinstep
