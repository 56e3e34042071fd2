// Replay of a task graph under contention. Two engines, one interface:
//
//   std::unique_ptr<Engine> engine = MakeFastEngine();        // ours, for search
//   std::unique_ptr<Engine> engine = MakeSimgridEngine();     // independent reference
//   Result<Replay> replay = engine->Run(graph, costs);
//
// Semantics: a task is ready when all its predecessors (edges, lane order included) have ended.
// A rendezvous starts when its last task is ready; all its tasks start and, each after its own
// fixed time and flows, end; a collective's tasks end together, with the last flow. Flows share
// links max-min fairly. While a rank computes and copies or communicates at once, each slows by
// the interference factors. Time is an integer (picoseconds); ties break by task id.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/cost/graph_costs.h"
#include "sim/graph/task_graph.h"
#include "sim/result.h"

namespace twinstep {

struct Replay {
  std::vector<Picoseconds> start_ps, end_ps;  // By task. Start = the rendezvous' common start.
  std::vector<Picoseconds> ready_ps;          // When the task alone could have started.
  Picoseconds makespan_ps = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;
  virtual const char* name() const = 0;
  // A deadlock is an Error (kNo, rule "deadlock") that names rank, lane and rendezvous.
  virtual Result<Replay> Run(const TaskGraph& graph, const GraphCosts& costs) = 0;
};

std::unique_ptr<Engine> MakeFastEngine();
// Null where the binary was built with --define simgrid=off.
std::unique_ptr<Engine> MakeSimgridEngine();

}  // namespace twinstep
