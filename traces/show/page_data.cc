#include "traces/show/page_data.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/graph/ids.h"
#include "sim/str_cat.h"
#include "traces/check_trace.h"
#include "traces/show/columns.h"
#include "traces/show/dependencies.h"
#include "traces/show/timeline.h"

namespace twinstep {
namespace {

using nlohmann::ordered_json;

const char* OriginName(Trace::Origin origin) {
  switch (origin) {
    case Trace::SIMULATED:
      return "simulated";
    case Trace::EXECUTED:
      return "executed";
    case Trace::IMPORTED:
      return "imported";
    default:
      return "trace";
  }
}

// Columns of which most entries are near the one before.
class Distances {
 public:
  explicit Distances(ColumnWriter* out) : out_(out) {}
  void Add(std::int64_t value) {
    out_->AddSigned(value - last_);
    last_ = value;
  }

 private:
  ColumnWriter* out_;
  std::int64_t last_ = 0;
};

void AddTimes(const Trace& trace, const Timeline& timeline, ColumnWriter* out) {
  for (const TimelineRow& row : timeline.rows) {
    Distances starts(out);
    for (std::size_t i = row.begin; i < row.end; ++i) {
      starts.Add(trace.start_ps(timeline.events[i]));
    }
  }
  for (const int event : timeline.events) {
    out->Add(static_cast<std::uint64_t>(trace.end_ps(event) - trace.start_ps(event)));
  }
  for (const int event : timeline.events) {
    out->AddSigned(trace.start_ps(event) - trace.ready_ps(event));
  }
}

void AddTags(const Trace& trace, const Timeline& timeline, ColumnWriter* out) {
  for (const auto* column :
       {&trace.micro_batch(), &trace.stage(), &trace.block(), &trace.chunk()}) {
    for (const int event : timeline.events) {
      const std::uint32_t tag = column->Get(event);
      out->Add(tag == kNoTag ? 0 : std::uint64_t{tag} + 1);
    }
  }
}

void AddEvents(const Trace& trace, const Timeline& timeline, ColumnWriter* out) {
  AddTimes(trace, timeline, out);
  Distances tasks(out);
  for (const int event : timeline.events) tasks.Add(trace.task(event));
  for (const auto* column : {&trace.kind(), &trace.phase(), &trace.op()}) {
    for (const int event : timeline.events) out->Add(column->Get(event));
  }
  for (const int event : timeline.events) {
    out->Add(timeline.time_classes[static_cast<std::size_t>(event)]);
  }
  for (const int event : timeline.events) {
    const bool has_shape =
        !trace.shape().empty() && !trace.shapes(static_cast<int>(trace.shape(event))).empty();
    out->Add(has_shape ? std::uint64_t{trace.shape(event)} + 1 : 0);
  }
  AddTags(trace, timeline, out);
  for (const int event : timeline.events) {
    out->Add(static_cast<std::uint64_t>(std::max<std::int64_t>(trace.bytes(event), 0)));
  }
}

void AddGraph(const Trace& trace, const Timeline& timeline, const Dependencies& dependencies,
              ColumnWriter* out) {
  for (std::size_t place = 0; place < timeline.events.size(); ++place) {
    out->Add(dependencies.Before(place).size());
  }
  for (std::size_t place = 0; place < timeline.events.size(); ++place) {
    for (const std::uint32_t before : dependencies.Before(place)) {
      out->AddSigned(std::int64_t{before} - static_cast<std::int64_t>(place));
    }
  }
  Distances rendezvous(out);
  for (const int event : timeline.events) rendezvous.Add(trace.rendezvous(event));
}

void AddMemory(const Trace& trace, ColumnWriter* out) {
  for (const Trace::MemoryCurve& curve : trace.memory()) {
    Distances times(out), bytes(out);
    for (const std::int64_t time_ps : curve.time_ps()) times.Add(time_ps);
    for (const std::int64_t live_bytes : curve.live_bytes()) bytes.Add(live_bytes);
  }
}

std::vector<std::string> Texts(const google::protobuf::RepeatedPtrField<std::string>& names) {
  return {names.begin(), names.end()};
}

ordered_json MetaOf(const Trace& trace, const Timeline& timeline) {
  ordered_json meta = {{"name", trace.name()},
                       {"origin", OriginName(trace.origin())},
                       {"iteration", trace.iteration_ps()},
                       {"events", trace.task_size()},
                       {"lanes", Texts(trace.lanes())},
                       {"kinds", Texts(trace.kinds())},
                       {"phases", Texts(trace.phases())},
                       {"operators", Texts(trace.operators())},
                       {"shapes", Texts(trace.shapes())},
                       {"ranks", ordered_json::array()},
                       {"rows", ordered_json::array()},
                       {"memory", ordered_json::array()}};
  for (const Trace::Rank& rank : trace.ranks()) {
    meta["ranks"].push_back({{"rank", rank.global_rank()},
                             {"tp", rank.tp()},
                             {"cp", rank.cp()},
                             {"dp", rank.dp()},
                             {"pp", rank.pp()},
                             {"ranks", rank.class_size()}});
  }
  for (const TimelineRow& row : timeline.rows) {
    meta["rows"].push_back({row.rank, row.lane, row.end - row.begin});
  }
  for (const Trace::MemoryCurve& curve : trace.memory()) {
    meta["memory"].push_back({{"rank", curve.rank()},
                              {"pool", Name(static_cast<Pool>(curve.pool()))},
                              {"points", curve.time_ps_size()}});
  }
  return meta;
}

}  // namespace

Result<PageTrace> ToPageTrace(const Trace& trace) {
  if (const std::string bad = TraceProblem(trace); !bad.empty()) return Error{.message = bad};
  const Timeline timeline = ArrangeRows(trace);
  const Result<std::optional<Dependencies>> graph = Dependencies::Of(trace, timeline);
  if (!graph.ok()) return graph.error();
  const std::optional<Dependencies>& dependencies = graph.value();

  PageTrace page{.meta = MetaOf(trace, timeline), .columns = {}};
  ColumnWriter columns;
  AddEvents(trace, timeline, &columns);
  const std::vector<std::uint32_t> critical =
      dependencies ? CriticalEvents(trace, timeline, *dependencies) : std::vector<std::uint32_t>();
  page.meta["critical"] = critical.size();
  Distances path(&columns);
  for (const std::uint32_t place : critical) path.Add(place);
  page.meta["graph"] = dependencies.has_value();
  if (dependencies) AddGraph(trace, timeline, *dependencies, &columns);
  AddMemory(trace, &columns);
  page.columns = columns.ToBase64();
  return page;
}

}  // namespace twinstep
