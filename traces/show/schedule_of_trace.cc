#include "traces/show/schedule_of_trace.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "sim/cost/graph_costs.h"
#include "sim/graph/ids.h"
#include "traces/breakdown.h"

namespace twinstep {
namespace {

struct Step {
  std::uint32_t stage = 0;
  TimedStep time;
};

bool Computes(const Timeline& timeline, int event) {
  const auto time_class =
      static_cast<TimeClass>(timeline.time_classes[static_cast<std::size_t>(event)]);
  return time_class == TimeClass::kCompute || time_class == TimeClass::kRecompute;
}

// Runs of computation of one micro-batch in one stage and direction; recomputation belongs to the
// backward.
std::vector<Step> StepsOf(const Trace& trace, const Timeline& timeline, const TimelineRow& row) {
  std::vector<Step> steps;
  for (std::size_t i = row.begin; i < row.end; ++i) {
    const int event = timeline.events[i];
    const std::uint32_t micro_batch = trace.micro_batch(event), stage = trace.stage(event);
    if (!Computes(timeline, event) || micro_batch >= kNoTag || stage >= kNoTag) continue;
    const std::string& phase = trace.phases(static_cast<int>(trace.phase(event)));
    const bool backward = phase != Name(Phase::kForward);
    const bool goes_on = !steps.empty() && steps.back().stage == stage &&
                         steps.back().time.micro_batch == micro_batch &&
                         steps.back().time.backward == backward;
    if (!goes_on) {
      steps.push_back(
          {stage,
           {.backward = backward,
            .micro_batch = static_cast<std::uint16_t>(micro_batch),
            .begin_s = static_cast<double>(trace.start_ps(event)) / kPicosecondsPerSecond}});
    }
    steps.back().time.end_s = static_cast<double>(trace.end_ps(event)) / kPicosecondsPerSecond;
  }
  return steps;
}

ScheduleRow RowOf(std::uint32_t global_rank, const std::vector<Step>& steps) {
  std::set<std::uint32_t> stages;
  for (const Step& step : steps) stages.insert(step.stage);
  ScheduleRow row{.global_rank = global_rank, .chunks = stages.size(), .steps = {}};
  for (const Step& step : steps) {
    row.steps.push_back(step.time);
    row.steps.back().chunk =
        static_cast<std::size_t>(std::distance(stages.begin(), stages.find(step.stage)));
  }
  return row;
}

}  // namespace

std::vector<ScheduleRow> ScheduleOf(const Trace& trace, const Timeline& timeline,
                                    const std::function<bool(std::uint32_t)>& shows_rank) {
  std::map<std::uint32_t, ScheduleRow> row_of_stage;  // By pipeline coordinate.
  for (const TimelineRow& row : timeline.rows) {
    const Trace::Rank& rank = trace.ranks(static_cast<int>(row.rank));
    if (shows_rank && !shows_rank(rank.global_rank())) continue;
    const auto known = row_of_stage.find(rank.pp());
    if (known != row_of_stage.end() && known->second.global_rank <= rank.global_rank()) continue;
    const std::vector<Step> steps = StepsOf(trace, timeline, row);
    if (!steps.empty()) row_of_stage[rank.pp()] = RowOf(rank.global_rank(), steps);
  }
  std::vector<ScheduleRow> rows;
  if (row_of_stage.size() < 2) return rows;
  for (auto& [stage, row] : row_of_stage) rows.push_back(std::move(row));
  return rows;
}

}  // namespace twinstep
