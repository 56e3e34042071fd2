#include "traces/kineto/kineto_work.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/graph/ids.h"
#include "sim/str_cat.h"
#include "traces/kineto/kineto_import.h"
#include "traces/kineto/kineto_phase.h"
#include "traces/operator_class.h"

namespace twinstep {
namespace {

constexpr std::int64_t kPicosecondsPerNanosecond = 1000;
// How far clocks of host and device may be apart.
constexpr std::int64_t kClockTolerance_ns = 5'000;
// A kernel that starts so much later than its stream and its launch allow waited for something; if
// another stream ended something within this time before, for that.
constexpr std::int64_t kUnexplained_ns = 3'000;

TaskKind KindOf(OperatorClass operator_class) {
  if (IsCommunication(operator_class)) return TaskKind::kCollective;
  if (operator_class == OperatorClass::kH2D) return TaskKind::kH2D;
  if (operator_class == OperatorClass::kD2H || operator_class == OperatorClass::kPeerCopy) {
    return TaskKind::kD2H;
  }
  return TaskKind::kCompute;
}

bool IsSynchronize(std::string_view name) {
  return name.find("Synchronize") != std::string_view::npos;
}

// One rank, before its tasks are put in the order of their starts.
class RankBuilder {
 public:
  RankBuilder(const KinetoTrace& file, const KinetoWindow& window) : file_(file), window_(window) {}

  struct Draft {
    std::int64_t start_ns = 0, end_ns = 0;  // On the file's clock.
    std::uint32_t event = kNoIndex;         // Into KinetoTrace::device; kNoIndex: of the host.
    std::vector<std::uint32_t> after;       // Drafts.
  };

  const std::vector<Draft>& drafts() const { return drafts_; }
  std::int64_t inferred() const { return inferred_; }
  // How often the host waits for the device.
  std::int64_t waits() const { return waits_; }

  void Run() {
    for (const std::uint32_t event : window_.device) {
      // What reaches over the end of a step is cut there, as in the trace.
      const DeviceEvent& device = file_.device[event];
      draft_of_[event] = static_cast<std::uint32_t>(drafts_.size());
      const std::int64_t start = std::clamp(device.start_ns, window_.start_ns, window_.end_ns);
      const std::int64_t end = std::clamp(device.end_ns, window_.start_ns, window_.end_ns);
      drafts_.push_back({start, end, event, {}});
      streams_[device.stream].push_back(event);
    }
    FindLatency();
    AddHost();
    AddStreamWaits();
    InferWaits();
    AddEnd();
  }

 private:
  struct Point {
    std::int64_t time_ns = 0;
    std::uint32_t call = kNoIndex;
    bool waits = false;  // For the device.
  };

  const HostSpan& Launch(std::uint32_t event) const {
    return file_.calls[file_.device[event].call].span;
  }

  // The least time from a launch to its kernel's start.
  void FindLatency() {
    latency_ns_ = INT64_MAX;
    for (const std::uint32_t event : window_.device) {
      if (file_.device[event].call == kNoIndex) continue;
      latency_ns_ = std::min(latency_ns_, file_.device[event].start_ns - Launch(event).start_ns);
    }
    if (latency_ns_ == INT64_MAX) latency_ns_ = 0;
    latency_ns_ = std::max<std::int64_t>(latency_ns_, 0);
  }

  std::vector<Point> HostPoints() {
    std::set<std::uint32_t> launches;
    for (const std::uint32_t event : window_.device) {
      if (file_.device[event].call != kNoIndex) launches.insert(file_.device[event].call);
    }
    std::int64_t first_ns = INT64_MAX, last_ns = 0;
    std::vector<Point> points;
    for (const std::uint32_t call : launches) {
      const HostSpan& span = file_.calls[call].span;
      first_ns = std::min(first_ns, span.start_ns);
      last_ns = std::max(last_ns, span.start_ns);
      points.push_back({span.start_ns, call, false});
    }
    if (!window_.step) last_ns = window_.end_ns;
    for (std::uint32_t call = 0; call < file_.calls.size(); ++call) {
      const HostSpan& span = file_.calls[call].span;
      if (IsSynchronize(file_.names[span.name]) && span.start_ns >= first_ns &&
          span.start_ns <= last_ns) {
        points.push_back({span.start_ns, call, true});
      }
    }
    // A copy that returned after it was done has waited for it.
    for (const std::uint32_t event : window_.device) {
      const DeviceEvent& device = file_.device[event];
      if (device.kind != DeviceKind::kMemcpy || device.call == kNoIndex) continue;
      if (Launch(event).end_ns < device.end_ns) continue;
      points.push_back({Launch(event).start_ns, device.call, true});
    }
    std::sort(points.begin(), points.end(), [](const Point& a, const Point& b) {
      return std::tuple(a.time_ns, a.call, a.waits) < std::tuple(b.time_ns, b.call, b.waits);
    });
    // Who launches while another thread waits shows that the wait does not hold the launches up.
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (!points[i].waits) continue;
      const std::int64_t end_ns = file_.calls[points[i].call].span.end_ns;
      for (std::size_t k = i + 1; k < points.size() && points[k].time_ns < end_ns; ++k) {
        if (!points[k].waits) points[i].call = kNoIndex;
      }
    }
    std::erase_if(points, [](const Point& point) { return point.call == kNoIndex; });
    return points;
  }

  // The last event of each stream that was launched before and has ended by then.
  std::vector<std::uint32_t> DoneBy(const HostSpan& call) const {
    std::vector<std::uint32_t> done;
    for (const auto& [stream, events] : streams_) {
      std::uint32_t last = kNoIndex;
      for (const std::uint32_t event : events) {
        if (file_.device[event].start_ns > call.end_ns + kClockTolerance_ns) break;
        if (file_.device[event].end_ns > call.end_ns + kClockTolerance_ns) continue;
        if (file_.device[event].call != kNoIndex && Launch(event).start_ns > call.start_ns)
          continue;
        last = event;
      }
      if (last != kNoIndex) done.push_back(last);
    }
    return done;
  }

  std::uint32_t AddHostTask(std::int64_t start_ns, std::int64_t end_ns) {
    const auto id = static_cast<std::uint32_t>(drafts_.size());
    drafts_.push_back({start_ns, std::max(start_ns, end_ns), kNoIndex, {}});
    host_end_ns_ = drafts_.back().end_ns;
    return id;
  }

  // The host's time, later by the least latency: a launch is then the moment when its kernel could
  // have started.
  void AddHost() {
    std::unordered_map<std::uint32_t, std::uint32_t> draft_of_call;
    host_end_ns_ = window_.start_ns;
    for (const Point& point : HostPoints()) {
      const HostSpan& span = file_.calls[point.call].span;
      const std::int64_t time_ns = std::max(host_end_ns_, point.time_ns + latency_ns_);
      const std::uint32_t before = AddHostTask(host_end_ns_, time_ns);
      if (!point.waits) {
        draft_of_call[point.call] = before;
        continue;
      }
      std::int64_t done_ns = time_ns;
      std::vector<std::uint32_t> after;
      for (const std::uint32_t event : DoneBy(span)) {
        after.push_back(draft_of_[event]);
        done_ns = std::max(done_ns, drafts_[draft_of_[event]].end_ns);
      }
      const std::uint32_t resume =
          AddHostTask(done_ns, std::min(span.end_ns + latency_ns_, window_.end_ns));
      drafts_[resume].after = std::move(after);
      ++waits_;
    }
    for (const std::uint32_t event : window_.device) {
      const auto launch = draft_of_call.find(file_.device[event].call);
      if (launch != draft_of_call.end()) drafts_[draft_of_[event]].after.push_back(launch->second);
    }
  }

  // Whether the first event may have waited for the second, by its times.
  bool CanWait(std::uint32_t waiting, std::uint32_t waited) const {
    return file_.device[waited].end_ns <= file_.device[waiting].start_ns &&
           file_.device[waited].stream != file_.device[waiting].stream;
  }

  // Correlations grow in the order of calls: what a stream launches after it was told to wait,
  // waits for what the other had launched before its event was recorded.
  void AddStreamWaits() {
    std::map<std::uint32_t, std::vector<std::pair<std::int64_t, std::uint32_t>>> by_stream;
    for (const std::uint32_t event : window_.device) {
      by_stream[file_.device[event].stream].emplace_back(file_.device[event].correlation, event);
    }
    for (auto& [stream, events] : by_stream) std::sort(events.begin(), events.end());
    for (const SyncEvent& sync : file_.syncs) {
      if (sync.stream == kNoIndex || sync.waited_stream == kNoIndex) continue;
      const auto waiting_stream = by_stream.find(sync.stream);
      const auto waited_stream = by_stream.find(sync.waited_stream);
      if (waiting_stream == by_stream.end() || waited_stream == by_stream.end()) continue;
      const std::pair after{sync.correlation, kNoIndex};
      const auto next =
          std::upper_bound(waiting_stream->second.begin(), waiting_stream->second.end(), after);
      const std::pair before{sync.recorded_by >= 0 ? sync.recorded_by : sync.correlation,
                             std::uint32_t{0}};
      const auto end =
          std::lower_bound(waited_stream->second.begin(), waited_stream->second.end(), before);
      if (next == waiting_stream->second.end() || end == waited_stream->second.begin()) continue;
      const std::uint32_t waited = std::prev(end)->second;
      if (!CanWait(next->second, waited)) continue;
      drafts_[draft_of_[next->second]].after.push_back(draft_of_[waited]);
    }
  }

  void InferWaits() {
    std::vector<std::pair<std::int64_t, std::uint32_t>> ends;
    for (const std::uint32_t event : window_.device) {
      ends.emplace_back(file_.device[event].end_ns, event);
    }
    std::sort(ends.begin(), ends.end());
    std::unordered_map<std::uint32_t, std::int64_t> stream_end_ns;
    for (const std::uint32_t event : window_.device) {
      const DeviceEvent& device = file_.device[event];
      Draft& draft = drafts_[draft_of_[event]];
      std::int64_t& stream_end = stream_end_ns.try_emplace(device.stream, 0).first->second;
      std::int64_t ready_ns = stream_end;
      for (const std::uint32_t other : draft.after) {
        ready_ns = std::max(ready_ns, drafts_[other].end_ns);
      }
      stream_end = std::max(stream_end, device.end_ns);
      if (device.start_ns - ready_ns < kUnexplained_ns) continue;
      auto at = std::upper_bound(ends.begin(), ends.end(), std::pair{device.start_ns, kNoIndex});
      while (at != ends.begin() &&
             std::prev(at)->first > std::max(ready_ns, device.start_ns - kUnexplained_ns)) {
        --at;
        if (!CanWait(event, at->second) || at->second == event) continue;
        draft.after.push_back(draft_of_[at->second]);
        ++inferred_;
        break;
      }
    }
  }

  // What the host does after its last launch; of a step, what passes until the next one begins.
  void AddEnd() {
    if (!window_.step) {
      std::int64_t last_ns = 0;
      for (const HostCall& call : file_.calls) last_ns = std::max(last_ns, call.span.end_ns);
      for (const HostSpan& op : file_.host_ops) last_ns = std::max(last_ns, op.end_ns);
      AddHostTask(host_end_ns_, last_ns);
      return;
    }
    std::uint32_t last = kNoIndex;
    for (std::uint32_t i = 0; i < drafts_.size(); ++i) {
      if (drafts_[i].event == kNoIndex) continue;
      if (last == kNoIndex || drafts_[i].end_ns >= drafts_[last].end_ns) last = i;
    }
    if (last == kNoIndex) return;
    const std::uint32_t end =
        AddHostTask(std::max(host_end_ns_, drafts_[last].end_ns), window_.end_ns);
    drafts_[end].after.push_back(last);
  }

  const KinetoTrace& file_;
  const KinetoWindow& window_;
  std::vector<Draft> drafts_;
  std::unordered_map<std::uint32_t, std::uint32_t> draft_of_;    // By event.
  std::map<std::uint32_t, std::vector<std::uint32_t>> streams_;  // Events by start.
  std::int64_t latency_ns_ = 0;
  std::int64_t host_end_ns_ = 0;
  std::int64_t inferred_ = 0, waits_ = 0;
};

class Builder {
 public:
  Builder(std::span<const KinetoTrace> files, AlignedWindows aligned)
      : files_(files), aligned_(std::move(aligned)) {}

  WorkGraph Run() {
    work_.iteration_ps = aligned_.iteration_ns * kPicosecondsPerNanosecond;
    work_.name = std::filesystem::path(files_[0].path).filename().string();
    if (files_.size() > 1) work_.name += StrCat(" and ", files_.size() - 1, " more");
    if (aligned_.windows[0].step) work_.name += StrCat(", step ", *aligned_.windows[0].step);
    std::set<std::int64_t> numbers;
    for (const KinetoTrace& file : files_) {
      if (file.rank && *file.rank >= 0 && *file.rank < (1 << 24)) numbers.insert(*file.rank);
    }
    const bool own_numbers = numbers.size() == files_.size();
    for (std::uint32_t i = 0; i < files_.size(); ++i) {
      work_.ranks.push_back(own_numbers ? static_cast<std::uint32_t>(*files_[i].rank) : i);
      AddRank(i);
    }
    JoinCollectives();
    ExplainStarts(&work_);
    if (inferred_ > 0) {
      work_.remarks.push_back(
          StrCat(inferred_, " dependencies between streams are inferred from their times"));
    }
    if (waits_ == 0) {
      work_.remarks.push_back(
          "no call is recorded by which the host waits for a device: all of its time is its own");
    }
    return std::move(work_);
  }

 private:
  std::uint32_t Index(const std::string& text, std::vector<std::string>* texts,
                      std::unordered_map<std::string, std::uint32_t>* index) {
    const auto [at, is_new] = index->try_emplace(text, static_cast<std::uint32_t>(texts->size()));
    if (is_new) texts->push_back(text);
    return at->second;
  }

  void AddRank(std::uint32_t rank) {
    const KinetoTrace& file = files_[rank];
    RankBuilder builder(file, aligned_.windows[rank]);
    builder.Run();
    inferred_ += builder.inferred();
    waits_ += builder.waits();
    const auto& drafts = builder.drafts();
    // By start; the host first, whose tasks may last no time at all.
    std::vector<std::uint32_t> order(drafts.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&drafts](std::uint32_t a, std::uint32_t b) {
      return std::pair(drafts[a].start_ns, drafts[a].event != kNoIndex) <
             std::pair(drafts[b].start_ns, drafts[b].event != kNoIndex);
    });
    const std::vector<Phase> phases = PhasesOfDeviceEvents(file);
    const std::uint32_t host_lane = Index("host", &work_.lanes, &lanes_);
    const std::uint32_t host_operator = Index("host", &work_.operators, &operators_);
    std::vector<std::uint32_t> task_of(drafts.size());
    for (const std::uint32_t i : order) {
      const RankBuilder::Draft& draft = drafts[i];
      WorkTask task;
      task.rank = rank;
      task.start_ps = (draft.start_ns - aligned_.zero_ns[rank]) * kPicosecondsPerNanosecond;
      task.duration_ps = (draft.end_ns - draft.start_ns) * kPicosecondsPerNanosecond;
      if (draft.event == kNoIndex) {
        task.hidden = true;
        task.kind = TaskKind::kHost;
        task.lane = host_lane;
        task.op = host_operator;
      } else {
        const DeviceEvent& event = file.device[draft.event];
        const std::string name = OperatorName(file, event);
        task.kind = KindOf(ClassOfOperator(name));
        task.phase = phases[draft.event];
        task.lane = Index("stream " + file.streams[event.stream].name, &work_.lanes, &lanes_);
        task.op = Index(name, &work_.operators, &operators_);
        task.bytes = event.bytes;
        if (task.kind == TaskKind::kCollective) {
          const std::string group =
              event.group == kNoIndex ? std::string() : file.names[event.group];
          collectives_[group][rank].push_back(static_cast<std::uint32_t>(work_.tasks.size()));
          group_size_.push_back({static_cast<std::uint32_t>(work_.tasks.size()), event.group_size});
        }
      }
      task_of[i] = static_cast<std::uint32_t>(work_.tasks.size());
      work_.tasks.push_back(task);
    }
    for (std::uint32_t i = 0; i < drafts.size(); ++i) {
      for (const std::uint32_t before : drafts[i].after) {
        if (task_of[before] < task_of[i]) work_.edges.emplace_back(task_of[before], task_of[i]);
      }
    }
  }

  // Those of one process group meet in their order; a rank's own, where the others' profiles are
  // not there, meets nobody.
  void JoinCollectives() {
    std::unordered_map<std::uint32_t, std::uint32_t> size_of(group_size_.begin(),
                                                             group_size_.end());
    for (const auto& [group, ranks] : collectives_) {
      std::size_t most = 0;
      for (const auto& [rank, tasks] : ranks) most = std::max(most, tasks.size());
      for (std::size_t k = 0; k < most; ++k) {
        WorkRendezvous rendezvous;
        for (const auto& [rank, tasks] : ranks) {
          if (k >= tasks.size()) continue;
          work_.tasks[tasks[k]].rendezvous = static_cast<std::uint32_t>(work_.rendezvous.size());
          rendezvous.ranks = std::max(rendezvous.ranks, size_of[tasks[k]]);
          ++rendezvous.tasks;
        }
        rendezvous.ranks = std::max(rendezvous.ranks, rendezvous.tasks);
        work_.rendezvous.push_back(rendezvous);
      }
    }
  }

  std::span<const KinetoTrace> files_;
  AlignedWindows aligned_;
  WorkGraph work_;
  std::unordered_map<std::string, std::uint32_t> lanes_, operators_;
  // By group and rank, tasks in order.
  std::map<std::string, std::map<std::uint32_t, std::vector<std::uint32_t>>> collectives_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> group_size_;  // By task.
  std::int64_t inferred_ = 0, waits_ = 0;
};

}  // namespace

Result<WorkGraph> WorkOfKineto(std::span<const KinetoTrace> files, const StepChoice& choice) {
  for (const KinetoTrace& file : files) {
    if (file.device.empty()) {
      return Error{.message = StrCat(file.path,
                                     ": holds no event on a device, there is nothing to "
                                     "replay")};
    }
    std::set<std::int64_t> devices;
    for (const DeviceEvent& event : file.device) {
      devices.insert(file.streams[event.stream].device);
    }
    if (devices.size() > 1) {
      return Error{.message = StrCat(file.path, ": holds ", devices.size(),
                                     " devices; a replay takes one a file")};
    }
  }
  Result<AlignedWindows> aligned = ChooseWindows(files, choice);
  if (!aligned.ok()) return aligned.error();
  return Builder(files, std::move(aligned).value()).Run();
}

}  // namespace twinstep
