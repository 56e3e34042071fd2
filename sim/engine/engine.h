// Replay of a task graph under contention. Two engines, one interface:
//
//   std::unique_ptr<Engine> engine = MakeFastEngine();        // ours, for search
//   std::unique_ptr<Engine> engine = MakeSimgridEngine();     // independent reference
//   Result<Replay> replay = engine->Run(graph, costs);
//
// Semantics. A task is ready when all its predecessors have ended: its edges', and the task before
// it in its lane (id order; a lane is a FIFO even where that edge is missing). It starts when it is
// ready; tasks of a rendezvous start together when the last of them is ready, and end together
// when the last of them is done (a RECV thus ends with the flow, which belongs to its SEND).
//
// A task is done after its fixed time and then its flows, side by side. Flows share links max-min
// fairly: the rates of all rise together until a link is full (sum of multiplicity x rate =
// capacity) or a flow reaches its own cap. n bytes at constant rate take n x 1e12 / rate,
// rounded to the nearest picosecond.
//
// Interference, by what runs on the same rank from its start to its end, latency included:
// - A COMPUTE task runs at speed 1 / (1 + sensitivity (compute_beside_copy - 1)) while an H2D or
//   D2H runs, at 1 / (1 + sensitivity (compute_beside_collective - 1)) while a collective, SEND or
//   RECV runs, at the product beside both; its flows, if any, at that fraction of their rates.
//   Where copies run D2H only, compute_beside_d2h stands for compute_beside_copy, if it is given.
// - Flows of H2D and D2H progress at 1 / copy_beside_compute, those of collectives, SEND and RECV
//   at 1 / collective_beside_compute of their fair rate while COMPUTE runs, those of H2D and D2H at
//   1 / h2d_beside_host and 1 / d2h_beside_host while a HOST task runs. They keep their share of
//   the link. Where factors of a direction, of both together, or of a cost are given, they stand
//   for these (sim/engine/interference.h).
// - Where some movement has a KernelTurn, a GPU's multiprocessors run one kernel at a time: COMPUTE
//   that takes time (of one with lets_in_ps only that), all of a kWhole movement, the fixed time of
//   a kBegins one. They are served in the order in which they came (of one moment COMPUTE first,
//   then the lowest task), a fused computation as its members. A task that waits for its turn has
//   started, but it neither runs nor interferes. With handoff_ps and meeting_ps a task starts so
//   much after what it waits for in other lanes of its rank has ended, a rendezvous of several
//   ranks after its last member could.
// - With GraphCosts::clocks COMPUTE runs rested_speedup times as fast as long as its rank's boost
//   lasts: time of computing, which it spends while it computes and gets back, boost_per_rest a
//   time, while it neither computes nor communicates. An iteration begins with what is left at its
//   end: it is replayed twice.
//
// Worker threads (GraphCosts::workers), if there are any, serve the lanes of all ranks as the CPU
// backend's do (exec/cpu/lane_scheduler.h; sim/engine/lane_threads.h has the rules). A job is a
// task or all tasks of a rendezvous. A thread takes the first lane of a queue and serves it job
// after job until it must wait: for a predecessor in another lane, or at a rendezvous where it is
// not the last to come (who comes last does the work of all). What a lane waits for puts it at the
// queue's end. A thread that finds no lane looks for one for look_ps, then it sleeps; each lane
// that enters the queue notifies the thread that has been without a job for the shortest time. At
// one moment threads that end jobs come first, in the order of their jobs' lowest tasks. A job
// starts dispatch_ps after the one before it ended on its thread; handoff_ps after its thread was
// notified, if that looked for work, wake_ps if it slept. While k of n threads have jobs, a task
// runs at speed 1 / (1 + (busy_slowdown - 1) (k - 1) / (n - 1)), fixed time and flows alike.
//
// Time is an integer (picoseconds). What happens at one moment happens at once, so no order of
// ties can be seen in the result; inside, ties break by task id. The same input gives the same
// bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "sim/cost/graph_costs.h"
#include "sim/graph/task_graph.h"
#include "sim/result.h"

namespace twinstep {

struct Replay {
  std::vector<Picoseconds> start_ps, end_ps;  // By task. Start = the rendezvous' common start.
  std::vector<Picoseconds> ready_ps;          // When its own predecessors had ended.
  Picoseconds makespan_ps = 0;
  // By rank, at the end: computing at high clocks that is left. Empty without GraphCosts::clocks.
  std::vector<Picoseconds> boost_left_ps;
};

// Whether some rank has boost left for the next iteration.
inline bool BeginsRested(const Replay& replay) {
  return std::ranges::any_of(replay.boost_left_ps, [](Picoseconds left) { return left > 0; });
}

class Engine {
 public:
  virtual ~Engine() = default;
  virtual const char* name() const = 0;
  // A deadlock is an Error (kNo, rule "deadlock") that names rank, lane and rendezvous. Costs or
  // indices that cannot be are errors of kBadInput.
  virtual Result<Replay> Run(const TaskGraph& graph, const GraphCosts& costs) = 0;
};

std::unique_ptr<Engine> MakeFastEngine();
// SimGrid 3.32, one forked child a replay: call it before the process starts threads. Agrees with
// `fast` to some picoseconds for each rate change on a task's way. Null where the binary was built
// with --define simgrid=off.
std::unique_ptr<Engine> MakeSimgridEngine();

}  // namespace twinstep
