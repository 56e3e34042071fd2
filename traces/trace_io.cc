#include "traces/trace_io.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <utility>

namespace twinstep {
namespace {

bool HasSuffix(const std::string& path, const std::string& suffix) {
  return path.size() > suffix.size() &&
         path.compare(path.size() - suffix.size(), suffix.size(), suffix) == 0;
}

Error FileError(const std::string& path, const std::string& what) {
  return Error{.message = path + ": " + what};
}

Error LastFileError(const std::string& path, const std::string& what) {
  return FileError(path, what + ": " + std::strerror(errno));
}

// The first column that does not fit, or an empty string.
std::string FirstBadColumn(const Trace& trace) {
  const int events = trace.task_size();
  const auto wrong_size = [events](const char* name, int size) {
    return std::string("column ") + name + " has " + std::to_string(size) + " entries, task has " +
           std::to_string(events);
  };
  for (const auto& [name, column] :
       {std::pair{"ready_ps", &trace.ready_ps()}, std::pair{"start_ps", &trace.start_ps()},
        std::pair{"end_ps", &trace.end_ps()}, std::pair{"bytes", &trace.bytes()}}) {
    if (column->size() != events) return wrong_size(name, column->size());
  }
  for (const auto& [name, column] :
       {std::pair{"micro_batch", &trace.micro_batch()}, std::pair{"stage", &trace.stage()},
        std::pair{"block", &trace.block()}, std::pair{"chunk", &trace.chunk()}}) {
    if (column->size() != events) return wrong_size(name, column->size());
  }
  for (const auto& [name, column, limit] :
       {std::tuple{"rank", &trace.rank(), trace.ranks_size()},
        std::tuple{"lane", &trace.lane(), trace.lanes_size()},
        std::tuple{"kind", &trace.kind(), trace.kinds_size()},
        std::tuple{"phase", &trace.phase(), trace.phases_size()},
        std::tuple{"op", &trace.op(), trace.operators_size()}}) {
    if (column->size() != events) return wrong_size(name, column->size());
    const auto bad = std::find_if(column->begin(), column->end(), [limit = limit](std::uint32_t x) {
      return x >= static_cast<std::uint32_t>(limit);
    });
    if (bad != column->end()) {
      return std::string("column ") + name + " holds " + std::to_string(*bad) + ", there are " +
             std::to_string(limit);
    }
  }
  for (const Trace::MemoryCurve& curve : trace.memory()) {
    if (curve.time_ps_size() != curve.live_bytes_size()) return "a memory curve is incomplete";
    if (curve.rank() >= static_cast<std::uint32_t>(trace.ranks_size())) {
      return "a memory curve is of rank " + std::to_string(curve.rank());
    }
    if (curve.pool() >= kPoolCount) {
      return "a memory curve is of pool " + std::to_string(curve.pool());
    }
  }
  return "";
}

}  // namespace

Status CheckTraceName(const std::string& path) {
  if (HasSuffix(path, ".json") || HasSuffix(path, ".pb")) return Unit{};
  return FileError(path, "a trace file ends in .json (Chrome, Perfetto) or .pb (Twinstep)");
}

Status WriteTrace(const Trace& trace, const ChromeJsonOptions& options, const std::string& path) {
  if (Status known = CheckTraceName(path); !known.ok()) return known;
  std::ofstream out(path, std::ios::binary);
  if (!out) return LastFileError(path, "cannot write");
  if (HasSuffix(path, ".json")) {
    WriteChromeJson(trace, options, out);
  } else if (!trace.SerializeToOstream(&out)) {
    // Protobuf refuses messages above 2 GiB.
    return FileError(path, "cannot write a trace of " + std::to_string(trace.task_size()) +
                               " events as one protobuf message");
  }
  out.close();
  if (!out) return LastFileError(path, "cannot write");
  return Unit{};
}

Result<Trace> ReadTrace(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return LastFileError(path, "cannot read");
  Trace trace;
  if (!trace.ParseFromIstream(&in)) return FileError(path, "is not a Twinstep trace");
  if (const std::string bad = FirstBadColumn(trace); !bad.empty()) return FileError(path, bad);
  return trace;
}

}  // namespace twinstep
