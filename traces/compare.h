// Two traces of one graph, task by task: what one says of the other.
//
//   Result<TraceComparison> comparison = CompareTraces(simulated, executed, {});
//   if (!comparison.ok()) return comparison.error();       // Not of the same graph, and why.
//   std::printf("%+.1f %%\n", 100 * comparison.value().iteration.Error());
//   std::cout << ComparisonText(comparison.value());       // traces/compare_text.h
//
// A is the prediction and B what it is held against: errors are a / b - 1. Busy time of a set of
// tasks is the sum of their durations (end - start; a lane runs one at a time), over all ranks.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/graph/ids.h"
#include "sim/result.h"
#include "traces/breakdown.h"
#include "traces/trace.pb.h"

namespace twinstep {

struct TimePair {
  double a_s = 0, b_s = 0;

  double Difference() const { return a_s - b_s; }
  // a / b - 1; nothing where b is 0 and a is not.
  std::optional<double> Error() const;
};

// Where a task's time in A comes from, if A is simulated.
enum class Evidence : std::uint8_t {
  kMeasured,      // A profile has this operator, inside of the range that was measured.
  kExtrapolated,  // The profile has it, but not there, or measured on another machine.
  kModelled,      // A formula of the hardware's constants.
};
inline constexpr int kEvidenceCount = 3;
const char* Name(Evidence evidence);

// Tasks that have a kind, lane, phase or operator in common.
struct GroupComparison {
  std::string name;
  std::int64_t tasks = 0;
  TimePair busy;
  // Of the tasks that take time in B, the middle error.
  std::optional<double> median_task_error = {};
  std::array<std::int64_t, kEvidenceCount> evidence{};  // Tasks; all 0 where it is not known.
};

// Both sides add up to their iteration.
struct RankComparison {
  std::uint32_t global_rank = 0;
  Breakdown a, b;
};

// Most live bytes of a pool, of the rank where A and B differ most.
struct MemoryComparison {
  Pool pool = Pool::kGpu;
  std::uint32_t global_rank = 0;
  std::int64_t a_bytes = 0, b_bytes = 0;
};

struct TaskComparison {
  TaskId task = 0;
  std::string name;
  TimePair time;
};

// What must not differ by more, as a fraction; nothing: it is not judged.
struct Tolerances {
  std::optional<double> iteration = {};
  std::optional<double> kind_busy = {};  // Busy time of each kind that has 1 % of all busy time.
  // Exposed time of communication and copies, each where it is 5 % of B's iteration.
  std::optional<double> exposed = {};
  std::optional<double> memory = {};  // High-water of each pool.
};

struct Verdict {
  std::string what;
  std::optional<double> error;
  double tolerance = 0;
  bool ok = false;
};

struct CompareOptions {
  Tolerances tolerances = {};
  std::size_t largest = 10;                 // How many tasks are listed.
  std::span<const Evidence> evidence = {};  // By task; empty: not known.
};

struct TraceComparison {
  std::string a_title, b_title;  // "simulated", "executed"; "A", "B" where both are of one origin.
  std::string a_name, b_name;
  std::int64_t tasks = 0;
  TimePair iteration;
  std::array<TimePair, kTimeClassCount> mean_breakdown{};  // Adds up to `iteration`.
  std::vector<RankComparison> ranks;
  // Only those that have tasks, in the order of the enumerations; operators by falling
  // |difference|.
  std::vector<GroupComparison> kinds, lanes, phases, operators;
  std::vector<MemoryComparison> memory;  // Pools that both traces have curves of.
  std::vector<TaskComparison> largest;   // Tasks by falling |difference|, then by id.
  std::vector<Verdict> verdicts;

  bool ok() const;  // No verdict is bad.
};

// What the tolerances say of a comparison's iteration, kinds, mean_breakdown and memory.
std::vector<Verdict> Judge(const TraceComparison& comparison, const Tolerances& tolerances);

// An Error (kBadInput) where the traces are not of one graph (traces/same_graph.h), or `evidence`
// is not of as many tasks.
Result<TraceComparison> CompareTraces(const Trace& a, const Trace& b,
                                      const CompareOptions& options);

}  // namespace twinstep
