#include "traces/check_trace.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/graph/ids.h"

namespace twinstep {
namespace {

// A number that is there more than once.
template <typename Numbers>
std::optional<std::uint32_t> Repeated(Numbers numbers) {
  std::sort(numbers.begin(), numbers.end());
  const auto first = std::adjacent_find(numbers.begin(), numbers.end());
  if (first == numbers.end()) return std::nullopt;
  return *first;
}

}  // namespace

std::string TraceProblem(const Trace& trace) {
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
  if (events == 0) return "holds no task";
  for (int i = 0; i < events; ++i) {
    if (trace.start_ps(i) >= 0 && trace.start_ps(i) <= trace.end_ps(i) &&
        trace.end_ps(i) <= trace.iteration_ps()) {
      continue;
    }
    return "task " + std::to_string(trace.task(i)) + " runs from " +
           std::to_string(trace.start_ps(i)) + " to " + std::to_string(trace.end_ps(i)) +
           " ps, outside of the iteration's " + std::to_string(trace.iteration_ps()) + " ps";
  }
  if (const auto task = Repeated(trace.task())) {
    return "task " + std::to_string(*task) + " stands in it twice";
  }
  std::vector<std::uint32_t> ranks;
  for (const Trace::Rank& rank : trace.ranks()) ranks.push_back(rank.global_rank());
  if (const auto rank = Repeated(std::move(ranks))) {
    return "rank " + std::to_string(*rank) + " stands in it twice";
  }
  // What only traces with a graph have: all or nothing.
  for (const auto& [name, column] : {std::pair{"shape", &trace.shape()},
                                     std::pair{"dependency_count", &trace.dependency_count()},
                                     std::pair{"rendezvous", &trace.rendezvous()}}) {
    if (!column->empty() && column->size() != events) return wrong_size(name, column->size());
  }
  for (const std::uint32_t shape : trace.shape()) {
    if (shape >= static_cast<std::uint32_t>(trace.shapes_size())) {
      return "column shape holds " + std::to_string(shape) + ", there are " +
             std::to_string(trace.shapes_size());
    }
  }
  const std::uint64_t dependencies = std::accumulate(
      trace.dependency_count().begin(), trace.dependency_count().end(), std::uint64_t{0});
  if (dependencies != static_cast<std::uint64_t>(trace.dependency_size())) {
    return "column dependency has " + std::to_string(trace.dependency_size()) +
           " entries, dependency_count adds up to " + std::to_string(dependencies);
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

}  // namespace twinstep
