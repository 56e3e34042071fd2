#include "traces/work_replay.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <unordered_map>
#include <utility>

#include "sim/cost/graph_costs.h"
#include "sim/format.h"
#include "sim/str_cat.h"
#include "traces/add_names.h"
#include "traces/imported_names.h"
#include "traces/operator_class.h"

namespace twinstep {
namespace {

// About a month.
constexpr double kLongest_ps = 3e18;
// Later than this a replay does not go; what is added to it stays in 64 bits.
constexpr std::int64_t kLatest_ps = 4'000'000'000'000'000'000;

struct Event {
  std::int64_t ready_ps = 0, start_ps = 0, end_ps = 0;
};

// When each task runs if it begins as soon as all that it waits for has ended.
class LongestPath {
 public:
  LongestPath(const WorkGraph& work, const std::vector<std::int64_t>& duration_ps)
      : work_(work),
        duration_ps_(duration_ps),
        next_in_queue_(work.tasks.size(), kNone),
        pending_(work.tasks.size(), 0),
        first_edge_(work.tasks.size() + 1, 0),
        meetings_(work.rendezvous.size()),
        events_(work.tasks.size(), Event{0, 0, kNotDone}) {}

  Result<std::vector<Event>> Run() {
    Prepare();
    for (std::uint32_t i = static_cast<std::uint32_t>(work_.tasks.size()); i-- > 0;) {
      if (pending_[i] == 0) released_.push_back(i);
    }
    while (!released_.empty()) {
      const std::uint32_t task = released_.back();
      released_.pop_back();
      Arrive(task);
    }
    if (is_too_long_) return Error{.message = "the replay lasts more than a month"};
    for (std::uint32_t i = 0; i < work_.tasks.size(); ++i) {
      if (events_[i].end_ps == kNotDone) return Deadlock();
    }
    return std::move(events_);
  }

 private:
  static constexpr std::int64_t kNotDone = -1;

  struct Meeting {
    std::vector<std::uint32_t> members;
    std::uint32_t arrived = 0;
    std::int64_t ready_ps = 0, duration_ps = 0;
  };

  void Prepare() {
    std::unordered_map<std::uint64_t, std::uint32_t> last_of_queue;
    for (std::uint32_t i = 0; i < work_.tasks.size(); ++i) {
      const WorkTask& task = work_.tasks[i];
      const auto [last, is_first] =
          last_of_queue.try_emplace(std::uint64_t{task.rank} << 32 | task.queue, i);
      if (!is_first) {
        next_in_queue_[last->second] = i;
        ++pending_[i];
        last->second = i;
      }
      if (task.rendezvous != kNone) meetings_[task.rendezvous].members.push_back(i);
    }
    for (const auto& [from, to] : work_.edges) ++first_edge_[from + 1];
    for (std::size_t i = 1; i < first_edge_.size(); ++i) first_edge_[i] += first_edge_[i - 1];
    std::vector<std::uint32_t> at(first_edge_.begin(), std::prev(first_edge_.end()));
    successors_.resize(work_.edges.size());
    for (const auto& [from, to] : work_.edges) {
      successors_[at[from]++] = to;
      ++pending_[to];
    }
  }

  void Arrive(std::uint32_t i) {
    const WorkTask& task = work_.tasks[i];
    const std::int64_t duration_ps = task.gap_ps + duration_ps_[i];
    if (task.rendezvous == kNone) {
      Finish(i, events_[i].ready_ps, duration_ps);
      return;
    }
    Meeting& meeting = meetings_[task.rendezvous];
    meeting.ready_ps = std::max(meeting.ready_ps, events_[i].ready_ps);
    meeting.duration_ps = std::max(meeting.duration_ps, duration_ps);
    if (++meeting.arrived < meeting.members.size()) return;
    for (const std::uint32_t member : meeting.members) {
      Finish(member, meeting.ready_ps, meeting.duration_ps);
    }
  }

  // `duration_ps`: with the gap before it.
  void Finish(std::uint32_t i, std::int64_t ready_ps, std::int64_t duration_ps) {
    Event& event = events_[i];
    event.start_ps = ready_ps + work_.tasks[i].gap_ps;
    event.end_ps = ready_ps + duration_ps;
    if (event.end_ps > kLatest_ps) {
      is_too_long_ = true;
      event.start_ps = event.end_ps = kLatest_ps;
    }
    for (std::uint32_t k = first_edge_[i]; k < first_edge_[i + 1]; ++k) {
      Release(successors_[k], event.end_ps);
    }
    const std::uint32_t next = next_in_queue_[i];
    if (next == kNone) return;
    // A lead does not reach before the start.
    Release(next, std::max(event.start_ps, event.end_ps - work_.tasks[next].lead_ps));
  }

  void Release(std::uint32_t task, std::int64_t at_ps) {
    events_[task].ready_ps = std::max(events_[task].ready_ps, at_ps);
    if (--pending_[task] == 0) released_.push_back(task);
  }

  std::string Describe(std::uint32_t i) const {
    const WorkTask& task = work_.tasks[i];
    std::string text = StrCat(ShortOperatorName(work_.operators[task.op]), " of rank ",
                              work_.ranks[task.rank], " in ", work_.lanes[task.lane]);
    if (task.start_ps >= 0)
      text += StrCat(", traced at ",
                     Seconds(static_cast<double>(task.start_ps) / kPicosecondsPerSecond));
    return text;
  }

  // The importers' edges lead forwards, so it is a meeting that not all come to.
  Error Deadlock() const {
    for (const Meeting& meeting : meetings_) {
      if (meeting.arrived == 0 || meeting.arrived == meeting.members.size()) continue;
      const auto come = std::find_if(meeting.members.begin(), meeting.members.end(),
                                     [this](std::uint32_t i) { return pending_[i] == 0; });
      const auto missing = std::find_if(meeting.members.begin(), meeting.members.end(),
                                        [this](std::uint32_t i) { return pending_[i] > 0; });
      return Error{.message =
                       StrCat("the ranks wait for each other in a circle: ", Describe(*come),
                              " meets ", Describe(*missing), ", which does not begin before")};
    }
    return Error{.message = "its tasks wait for each other in a circle"};
  }

  const WorkGraph& work_;
  const std::vector<std::int64_t>& duration_ps_;
  std::vector<std::uint32_t> next_in_queue_, pending_;  // By task.
  std::vector<std::uint32_t> first_edge_, successors_;  // Rows of successors.
  std::vector<Meeting> meetings_;
  std::vector<Event> events_;
  std::vector<std::uint32_t> released_;
  bool is_too_long_ = false;
};

// The visible tasks with these times. Ids are positions among the visible tasks.
Trace BuildWorkTrace(const WorkGraph& work, const std::vector<Event>& events,
                     std::int64_t iteration_ps, Trace::Origin origin) {
  Trace trace;
  trace.set_origin(origin);
  trace.set_name(work.name);
  trace.set_iteration_ps(iteration_ps);
  for (const std::string& lane : work.lanes) trace.add_lanes(lane);
  for (const std::string& name : work.operators) trace.add_operators(name);
  AddNames<TaskKind>(kTaskKindCount, trace.mutable_kinds());
  trace.add_kinds(kPeerCopyKind);
  std::vector<bool> is_peer_copy;
  for (const std::string& name : work.operators) {
    is_peer_copy.push_back(ClassOfOperator(name) == OperatorClass::kPeerCopy);
  }
  AddImportedPhases(trace.mutable_phases());
  for (const std::uint32_t number : work.ranks) {
    Trace::Rank* rank = trace.add_ranks();
    rank->set_global_rank(number);
    rank->set_class_size(1);
  }
  std::vector<std::uint32_t> id(work.tasks.size(), 0), order;
  for (std::uint32_t i = 0; i < work.tasks.size(); ++i) {
    if (work.tasks[i].hidden) continue;
    id[i] = static_cast<std::uint32_t>(order.size());
    order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const WorkTask &x = work.tasks[a], &y = work.tasks[b];
    return x.rank != y.rank ? x.rank < y.rank : events[a].start_ps < events[b].start_ps;
  });
  for (const std::uint32_t i : order) {
    const WorkTask& task = work.tasks[i];
    trace.add_task(id[i]);
    trace.add_rank(task.rank);
    trace.add_lane(task.lane);
    trace.add_kind(is_peer_copy[task.op] ? kTaskKindCount : static_cast<std::uint32_t>(task.kind));
    trace.add_phase(ImportedPhaseIndex(task.phase));
    trace.add_op(task.op);
    trace.add_ready_ps(events[i].ready_ps);
    trace.add_start_ps(events[i].start_ps);
    trace.add_end_ps(events[i].end_ps);
    trace.add_micro_batch(kNoTag);
    trace.add_stage(kNoTag);
    trace.add_block(kNoTag);
    trace.add_chunk(kNoTag);
    trace.add_bytes(task.bytes);
  }
  return trace;
}

}  // namespace

Result<WorkReplay> ReplayWork(const WorkGraph& work, std::span<const double> factor) {
  std::vector<std::int64_t> duration_ps;
  for (std::size_t i = 0; i < work.tasks.size(); ++i) {
    const WorkTask& task = work.tasks[i];
    const double scaled = static_cast<double>(task.duration_ps) * (factor.empty() ? 1 : factor[i]);
    if (!(static_cast<double>(task.gap_ps) + scaled <= kLongest_ps)) {
      return Error{.message = StrCat("a task lasts more than a month: ", work.operators[task.op],
                                     " of rank ", work.ranks[task.rank])};
    }
    duration_ps.push_back(std::llround(scaled));
  }
  Result<std::vector<Event>> events = LongestPath(work, duration_ps).Run();
  if (!events.ok()) return events.error();
  WorkReplay run;
  for (const Event& event : events.value())
    run.makespan_ps = std::max(run.makespan_ps, event.end_ps);
  for (const Event& event : events.value()) run.start_ps.push_back(event.start_ps);
  run.trace = BuildWorkTrace(work, events.value(), run.makespan_ps, Trace::SIMULATED);
  return run;
}

Trace TracedWork(const WorkGraph& work) {
  std::vector<Event> events;
  for (const WorkTask& task : work.tasks) {
    events.push_back({task.start_ps, task.start_ps, task.start_ps + task.duration_ps});
  }
  return BuildWorkTrace(work, events, work.iteration_ps, Trace::IMPORTED);
}

}  // namespace twinstep
