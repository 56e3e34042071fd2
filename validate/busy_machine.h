// Whether the machine did other work while a step ran, as the step's own times show it: tasks of
// one operator take alike, and where some take far longer than the others, something was in their
// way.
//
//   std::optional<BusyMachine> busy = LookForOtherWork(simulated, executed);
//   if (busy) warnings.push_back(busy->Text());
#pragma once

#include <optional>
#include <string>

#include "traces/trace.pb.h"

namespace twinstep {

struct BusyMachine {
  double median_error = 0;  // Of a task of computation, simulated / executed - 1;
  double sum_error = 0;     // of all together.
  double excess = 0;  // Of their executed time, what is beyond the median task of the same kind.

  std::string Text() const;
};

// Of two traces of one graph, task by task. Nothing where tasks of computation are regular: a
// simulation that is wrong about an operator is wrong about all of its tasks.
std::optional<BusyMachine> LookForOtherWork(const Trace& simulated, const Trace& executed);

}  // namespace twinstep
