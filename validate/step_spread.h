// What the steps of one training took, held against one simulation. The busy time of collectives
// above all, which mostly wait for the GPU that is ahead, differs from step to step: a step's own
// value is chance, and the median of all steps is judged.
//
//   const StepSpread spread = SpreadOfSteps(graph, executions, comparison);
//   comparison.verdicts = JudgeMedians(spread, comparison, tolerances);
//   std::cout << SpreadText(spread, comparison);    // validate/step_spread_report.h
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "exec/runtime/executor.h"
#include "sim/graph/task_graph.h"
#include "traces/breakdown.h"
#include "traces/compare.h"

namespace twinstep {

// One time as simulated and in every step, of which there is one at least.
struct StepTimes {
  double simulated_s = 0;
  std::vector<double> step_s = {};

  double Least() const;
  double Median() const;  // Of an even number the lower of the two.
  double Most() const;
  TimePair Judged() const { return {simulated_s, Median()}; }
};

struct StepSpread {
  struct Kind {
    std::string name;
    StepTimes busy;  // Over all ranks.
  };
  StepTimes iteration;
  std::vector<Kind> kinds;  // As of the comparison.
  // Mean of the ranks. Medians do not add up to the iteration: each may be another step's.
  std::array<StepTimes, kExposedClasses.size()> exposed;
};

// Which of `steps`, one at least, is the middle one by time: of an even number the shorter of the
// two, of equal ones the first.
std::size_t MedianStep(std::span<const Execution> steps);

// Of `steps`, one at least, of a graph that is not folded; `comparison` is of one of them.
StepSpread SpreadOfSteps(const TaskGraph& graph, std::span<const Execution> steps,
                         const TraceComparison& comparison);

// Judge (traces/compare.h) of the medians; memory, which steps hardly differ in, is the
// comparison's.
std::vector<Verdict> JudgeMedians(const StepSpread& spread, const TraceComparison& comparison,
                                  const Tolerances& tolerances);

}  // namespace twinstep
