#include <memory>
#include <utility>

#include "sim/engine/cost_table.h"
#include "sim/engine/engine.h"
#include "sim/engine/event_replay.h"
#include "sim/engine/longest_path.h"
#include "sim/engine/topology.h"

namespace twinstep {
namespace {

class FastEngine : public Engine {
 public:
  const char* name() const override { return "fast"; }

  Result<Replay> Run(const TaskGraph& graph, const GraphCosts& costs) override {
    const Result<Topology> topology = BuildTopology(graph, costs);
    if (!topology.ok()) return topology.error();
    Result<CostTable> table = BuildCostTable(graph, costs);
    if (!table.ok()) return table.error();
    if (table.value().IsLongestPath()) {
      return ReplayLongestPath(graph, costs, table.value(), topology.value());
    }
    Result<Replay> replay = ReplayEvents(graph, costs, table.value(), topology.value());
    if (!replay.ok() || !BeginsRested(replay.value())) return replay;
    // The iteration before ended as this one does.
    table.value().clocks.left_ps = std::move(replay).value().boost_left_ps;
    return ReplayEvents(graph, costs, table.value(), topology.value());
  }
};

}  // namespace

std::unique_ptr<Engine> MakeFastEngine() { return std::make_unique<FastEngine>(); }

}  // namespace twinstep
