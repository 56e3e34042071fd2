#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/engine/check_costs.h"
#include "sim/engine/deadlock.h"
#include "sim/engine/engine.h"
#include "sim/engine/simgrid_replay.h"
#include "sim/engine/topology.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

Error Internal(const std::string& what) {
  return Error{.code = ExitCode::kInternal, .message = "simgrid engine: " + what};
}

bool WriteAll(int file, const void* data, std::size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t done = write(file, next, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    next += done;
    bytes -= static_cast<std::size_t>(done);
  }
  return true;
}

bool ReadAll(int file, void* data, std::size_t bytes) {
  char* next = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t done = read(file, next, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    next += done;
    bytes -= static_cast<std::size_t>(done);
  }
  return true;
}

template <typename T>
bool WriteVector(int file, const std::vector<T>& values) {
  return WriteAll(file, values.data(), values.size() * sizeof(T));
}

template <typename T>
bool ReadVector(int file, std::size_t count, std::vector<T>& values) {
  values.resize(count);
  return ReadAll(file, values.data(), count * sizeof(T));
}

class SimgridEngine : public Engine {
 public:
  const char* name() const override { return "simgrid"; }

  Result<Replay> Run(const TaskGraph& graph, const GraphCosts& costs) override {
    Result<Replay> replay = RunOnce(graph, costs);
    if (!replay.ok() || !BeginsRested(replay.value())) return replay;
    // The iteration before ended as this one does.
    GraphCosts again = costs;
    again.clocks.left_ps = std::move(replay).value().boost_left_ps;
    return RunOnce(graph, again);
  }

 private:
  static Result<Replay> RunOnce(const TaskGraph& graph, const GraphCosts& costs) {
    const Result<Topology> topology = BuildTopology(graph, costs);
    if (!topology.ok()) return topology.error();
    if (Status status = CheckCosts(costs); !status.ok()) return status.error();
    const Result<std::vector<std::uint32_t>> scales = LinkScales(costs);
    if (!scales.ok()) return scales.error();
    Result<std::vector<std::uint32_t>> pending = CountPredecessors(graph, topology.value());
    if (!pending.ok()) return pending.error();

    int ends[2];
    if (pipe(ends) != 0) return Internal(StrCat("pipe: ", std::strerror(errno)));
    // The child has a copy of what stands in the buffers, and must not write it again.
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child < 0) {
      const Error error = Internal(StrCat("fork: ", std::strerror(errno)));
      close(ends[0]);
      close(ends[1]);
      return error;
    }
    if (child == 0) {
      close(ends[0]);
      const SimgridRecord record = ReplayInSimgrid(graph, costs, topology.value(),
                                                   std::move(pending).value(), scales.value());
      const bool written =
          WriteVector(ends[1], record.start_ps) && WriteVector(ends[1], record.end_ps) &&
          WriteVector(ends[1], record.ready_ps) && WriteVector(ends[1], record.pending) &&
          WriteVector(ends[1], record.boost_left_ps);
      // Neither destructors nor exit handlers: they belong to the parent.
      _exit(written ? 0 : 1);
    }
    close(ends[1]);
    SimgridRecord record;
    const std::size_t n = graph.tasks.size();
    const bool complete =
        ReadVector(ends[0], n, record.start_ps) && ReadVector(ends[0], n, record.end_ps) &&
        ReadVector(ends[0], n, record.ready_ps) && ReadVector(ends[0], n, record.pending) &&
        ReadVector(ends[0], graph.ranks.size(), record.boost_left_ps);
    close(ends[0]);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (!complete || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      return Internal(StrCat("the replay's process ended early, wait status ", status));
    }
    return Finish(graph, topology.value(), std::move(record));
  }

  static Result<Replay> Finish(const TaskGraph& graph, const Topology& topology,
                               SimgridRecord record) {
    Picoseconds makespan = 0;
    for (const Picoseconds end : record.end_ps) {
      if (end == kNotDone) return DeadlockError(graph, topology, record.pending, record.end_ps);
      makespan = std::max(makespan, end);
    }
    return Replay{.start_ps = std::move(record.start_ps),
                  .end_ps = std::move(record.end_ps),
                  .ready_ps = std::move(record.ready_ps),
                  .makespan_ps = makespan,
                  .boost_left_ps = std::move(record.boost_left_ps)};
  }
};

}  // namespace

std::unique_ptr<Engine> MakeSimgridEngine() { return std::make_unique<SimgridEngine>(); }

}  // namespace twinstep
