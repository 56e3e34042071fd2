// Two traces of any origin, by what their ranks do: a profile of PyTorch against a simulation, or
// two profiles.
//
//   const ActivityComparison comparison = CompareActivities(a, b, 0.1);
//   std::cout << ActivityText(comparison, {});   // traces/activity_text.h
//
// A is what is asked about and B what it is held against: errors are a / b - 1. Traces of one graph
// are better compared task by task (traces/compare.h).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "traces/activity.h"
#include "traces/compare.h"
#include "traces/trace.pb.h"

namespace twinstep {

// Times in seconds of the mean rank.
struct ActivityClassComparison {
  OperatorClass operator_class = OperatorClass::kOther;
  std::int64_t a_tasks = 0, b_tasks = 0;  // Of all ranks.
  TimePair time, busy, exposed;

  TimePair Overlapped() const { return {busy.a_s - exposed.a_s, busy.b_s - exposed.b_s}; }
};

struct ActivityOperatorComparison {
  std::string name;
  OperatorClass operator_class = OperatorClass::kOther;
  std::int64_t a_tasks = 0, b_tasks = 0;
  TimePair time;    // Of the mean rank.
  TimePair median;  // Of one task.
};

struct NamedTime {
  std::string name;
  TimePair time;
};

struct ActivityComparison {
  std::string a_title, b_title;  // "imported", "simulated"; "A", "B" where both are of one origin.
  std::string a_name, b_name;
  Activity a, b;
  TimePair iteration;
  std::array<TimePair, kActivityPartCount> parts{};  // Adds up to `iteration`.
  std::vector<ActivityClassComparison> classes;      // That occur, in the order of the enumeration.
  std::vector<NamedTime> phases;
  std::vector<ActivityOperatorComparison> operators;  // By falling |difference|, then by name.
  // What makes the most of the difference, and idle time: operators where the traces name them
  // alike (for more than half of both their times), else classes of each phase.
  bool largest_are_operators = false;
  std::vector<NamedTime> largest;
  std::optional<Verdict> verdict;  // Of the iteration, where a tolerance is given.

  bool ok() const { return !verdict || verdict->ok; }
};

// Both traces hold what their schema says (traces/check_trace.h). `tolerance` is a fraction.
ActivityComparison CompareActivities(const Trace& a, const Trace& b,
                                     std::optional<double> tolerance, std::size_t largest = 10);

}  // namespace twinstep
