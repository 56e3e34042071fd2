#include "traces/kineto/kineto_work.h"

#include <algorithm>
#include <compare>
#include <cstdlib>
#include <iterator>
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
#include "traces/kineto/kineto_ranks.h"
#include "traces/operator_class.h"

namespace twinstep {
namespace {

constexpr std::int64_t kPicosecondsPerNanosecond = 1000;
// How far apart both ends of a message may end.
constexpr std::int64_t kSameEnd_ps = 2'000'000;
// How far clocks of host and device may be apart.
constexpr std::int64_t kClockTolerance_ns = 5'000;
// A kernel that starts so much later than its stream and its launch allow waited for something; if
// another stream ended something within this time before, for that.
constexpr std::int64_t kUnexplained_ns = 3'000;

TaskKind KindOf(OperatorClass operator_class, std::string_view collective) {
  if (collective == "send") return TaskKind::kSend;
  if (collective == "recv") return TaskKind::kRecv;
  if (IsCommunication(operator_class)) return TaskKind::kCollective;
  if (operator_class == OperatorClass::kH2D) return TaskKind::kH2D;
  if (operator_class == OperatorClass::kD2H || operator_class == OperatorClass::kPeerCopy) {
    return TaskKind::kD2H;
  }
  return TaskKind::kCompute;
}

// "9" of "9/1": threads are named after their process.
std::string_view ProcessOf(std::string_view thread) { return thread.substr(0, thread.find('/')); }

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

  // By a call that is part of the iteration. What ran already when it began is there from its
  // begin.
  bool IsLaunched(std::uint32_t event) const {
    const DeviceEvent& device = file_.device[event];
    return device.call != kNoIndex && device.start_ns >= window_.start_ns;
  }
  const HostSpan& Launch(std::uint32_t event) const {
    return file_.calls[file_.device[event].call].span;
  }

  // The least time from a launch to its kernel's start.
  void FindLatency() {
    latency_ns_ = INT64_MAX;
    for (const std::uint32_t event : window_.device) {
      if (!IsLaunched(event)) continue;
      latency_ns_ = std::min(latency_ns_, file_.device[event].start_ns - Launch(event).start_ns);
    }
    if (latency_ns_ == INT64_MAX) latency_ns_ = 0;
    latency_ns_ = std::max<std::int64_t>(latency_ns_, 0);
  }

  std::vector<Point> HostPoints() {
    std::set<std::uint32_t> launches;
    std::set<std::string_view> processes;
    for (const std::uint32_t event : window_.device) {
      if (!IsLaunched(event)) continue;
      launches.insert(file_.device[event].call);
      processes.insert(ProcessOf(file_.threads[Launch(event).thread]));
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
      // Another process' host waits for its own device.
      if (IsSynchronize(file_.names[span.name]) && span.start_ns >= first_ns &&
          span.start_ns <= last_ns && processes.contains(ProcessOf(file_.threads[span.thread]))) {
        points.push_back({span.start_ns, call, true});
      }
    }
    // A copy that returned after it was done has waited for it.
    for (const std::uint32_t event : window_.device) {
      const DeviceEvent& device = file_.device[event];
      if (device.kind != DeviceKind::kMemcpy || !IsLaunched(event)) continue;
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
    const std::int64_t by_ns = call.end_ns + kClockTolerance_ns;
    for (const auto& [stream, events] : streams_) {
      auto at = std::upper_bound(events.begin(), events.end(), by_ns,
                                 [this](std::int64_t time_ns, std::uint32_t event) {
                                   return time_ns < file_.device[event].start_ns;
                                 });
      while (at != events.begin()) {
        const std::uint32_t event = *--at;
        if (file_.device[event].end_ns > by_ns) continue;
        if (IsLaunched(event) && Launch(event).start_ns > call.start_ns) continue;
        done.push_back(event);
        break;
      }
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
      if (!IsLaunched(event)) continue;
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
  Builder(std::span<const KinetoTrace> files, std::vector<KinetoRank> ranks, AlignedWindows aligned)
      : files_(files),
        ranks_(std::move(ranks)),
        aligned_(std::move(aligned)),
        all_have_steps_(std::none_of(files.begin(), files.end(),
                                     [](const KinetoTrace& file) { return file.steps.empty(); })) {}

  WorkGraph Run() {
    work_.iteration_ps = aligned_.iteration_ns * kPicosecondsPerNanosecond;
    work_.name = NameOf(files_, aligned_);
    for (std::uint32_t i = 0; i < ranks_.size(); ++i) {
      work_.ranks.push_back(ranks_[i].number);
      AddRank(i);
    }
    Join();
    QueueByTime(&work_);
    ExplainStarts(&work_);
    if (ranks_.size() > files_.size()) {
      work_.remarks.push_back(
          StrCat(ranks_.size(), " devices of ", files_.size(),
                 " files are a rank each; where one waits for another it keeps its time"));
    }
    if (inferred_ > 0) {
      work_.remarks.push_back(
          StrCat(inferred_, " dependencies between streams are inferred from their times"));
    }
    if (!aligned_.one_clock) work_.remarks.push_back(kClocksApart);
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

  // The part of a file's window that is of one device.
  KinetoWindow WindowOf(const KinetoRank& rank) const {
    KinetoWindow window = aligned_.windows[rank.file];
    const KinetoTrace& file = files_[rank.file];
    std::erase_if(window.device, [&](std::uint32_t event) {
      return file.streams[file.device[event].stream].device != rank.device;
    });
    return window;
  }

  void AddRank(std::uint32_t rank) {
    const std::size_t file_index = ranks_[rank].file;
    const KinetoTrace& file = files_[file_index];
    const KinetoWindow window = WindowOf(ranks_[rank]);
    RankBuilder builder(file, window);
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
    const std::vector<std::optional<Phase>> phases = PhasesOfDeviceEvents(file);
    const std::uint32_t host_lane = Index("host", &work_.lanes, &lanes_);
    const std::uint32_t host_operator = Index("host", &work_.operators, &operators_);
    const std::unordered_map<std::uint32_t, Key> keys = KeysOf(rank);
    std::vector<std::uint32_t> task_of(drafts.size());
    for (const std::uint32_t i : order) {
      const RankBuilder::Draft& draft = drafts[i];
      WorkTask task;
      bool meets = false;
      task.rank = rank;
      task.start_ps = (draft.start_ns - aligned_.zero_ns[file_index]) * kPicosecondsPerNanosecond;
      task.duration_ps = (draft.end_ns - draft.start_ns) * kPicosecondsPerNanosecond;
      if (draft.event == kNoIndex) {
        task.hidden = true;
        task.kind = TaskKind::kHost;
        task.lane = host_lane;
        task.op = host_operator;
      } else {
        const DeviceEvent& event = file.device[draft.event];
        const std::string name = OperatorName(file, event);
        const std::string_view collective =
            event.collective == kNoIndex ? std::string_view() : file.names[event.collective];
        const OperatorClass operator_class = ClassOf(file, event);
        task.kind = KindOf(operator_class, collective);
        task.phase = phases[draft.event];
        task.lane = Index("stream " + file.streams[event.stream].name, &work_.lanes, &lanes_);
        task.op = Index(name, &work_.operators, &operators_);
        task.bytes = event.bytes;
        // What is cut at the window's ends is only a part of what its partners do.
        const bool is_whole = event.start_ns >= window.start_ns && event.end_ns <= window.end_ns;
        meets = IsCommunication(operator_class) && is_whole;
      }
      task_of[i] = static_cast<std::uint32_t>(work_.tasks.size());
      work_.tasks.push_back(task);
      if (meets) {
        AddMeeting(keys.at(draft.event), task_of[i], file.device[draft.event].group_size);
      }
    }
    for (std::uint32_t i = 0; i < drafts.size(); ++i) {
      for (const std::uint32_t before : drafts[i].after) {
        if (task_of[before] < task_of[i]) work_.edges.emplace_back(task_of[before], task_of[i]);
      }
    }
  }

  // Whose tasks meet: those of a process group (where the profile does not name it, of a stream),
  // of a message also who sends and who receives; by the step that launched them, and how many of
  // its kind the rank had launched there before. So ranks may be looked at from different moments
  // on.
  struct Key {
    std::string group;
    std::int64_t from = kEverybody, to = kEverybody;  // Global ranks.
    std::int64_t step = -1;
    std::int64_t place = 0;
    auto operator<=>(const Key&) const = default;
  };
  static constexpr std::int64_t kEverybody = -1, kSomebody = -2;

  // The keys of a rank's messages and collectives, by event.
  std::unordered_map<std::uint32_t, Key> KeysOf(std::uint32_t rank) {
    const KinetoTrace& file = files_[ranks_[rank].file];
    std::vector<std::uint32_t> events;
    for (std::uint32_t i = 0; i < file.device.size(); ++i) {
      const DeviceEvent& event = file.device[i];
      if (file.streams[event.stream].device != ranks_[rank].device) continue;
      if (IsCommunication(ClassOf(file, event))) events.push_back(i);
    }
    std::stable_sort(events.begin(), events.end(), [&file](std::uint32_t a, std::uint32_t b) {
      return file.device[a].start_ns < file.device[b].start_ns;
    });
    const std::vector<StepMark> steps = DistinctSteps(file);
    const std::vector<std::uint32_t> step_of = StepsOfDeviceEvents(file, steps);
    std::map<Key, std::int64_t> places;
    std::unordered_map<std::uint32_t, Key> keys;
    for (const std::uint32_t i : events) {
      Key key = KeyOf(rank, file.device[i]);
      if (all_have_steps_ && step_of[i] != kNoIndex) key.step = steps[step_of[i]].number;
      const std::int64_t place = places[key]++;
      key.place = place;
      keys[i] = key;
    }
    return keys;
  }

  OperatorClass ClassOf(const KinetoTrace& file, const DeviceEvent& event) {
    const std::string name = OperatorName(file, event);
    const auto [at, is_new] = classes_.try_emplace(name);
    if (is_new) at->second = ClassOfOperator(name);
    return at->second;
  }

  Key KeyOf(std::uint32_t rank, const DeviceEvent& event) {
    const KinetoTrace& file = files_[ranks_[rank].file];
    Key key;
    key.group = event.group == kNoIndex ? "stream " + file.streams[event.stream].name
                                        : "group " + file.names[event.group];
    if (ClassOf(file, event) != OperatorClass::kSendRecv) return key;
    const bool sends = event.collective != kNoIndex && file.names[event.collective] == "send";
    const bool receives = event.collective != kNoIndex && file.names[event.collective] == "recv";
    const bool names_partner = event.partner >= 0 && (sends || receives);
    const std::int64_t own = ranks_[rank].number;
    key.from = !names_partner ? kSomebody : sends ? own : event.partner;
    key.to = !names_partner ? kSomebody : sends ? event.partner : own;
    return key;
  }

  void AddMeeting(const Key& key, std::uint32_t task, std::uint32_t group_size) {
    meetings_[key].push_back(task);
    group_size_[task] = group_size;
    if (key.from == kSomebody) unknown_partners_[key.group].insert(work_.tasks[task].rank);
  }

  void Meet(std::span<const std::uint32_t> tasks) {
    WorkRendezvous rendezvous;
    for (const std::uint32_t task : tasks) {
      work_.tasks[task].rendezvous = static_cast<std::uint32_t>(work_.rendezvous.size());
      rendezvous.ranks = std::max(rendezvous.ranks, group_size_[task]);
      ++rendezvous.tasks;
    }
    rendezvous.ranks = std::max(rendezvous.ranks, rendezvous.tasks);
    work_.rendezvous.push_back(rendezvous);
  }

  // On one clock both ends of a message end together: a send and a receive that are each other's
  // nearest, and near enough, are one. Since no other does before they have, this makes no circle.
  // How many there are.
  std::int64_t JoinByTime(const std::vector<std::uint32_t>& messages) {
    if (!aligned_.one_clock) return 0;
    using Ends = std::vector<std::pair<std::int64_t, std::uint32_t>>;  // By time.
    Ends sends, receives;
    for (const std::uint32_t i : messages) {
      const WorkTask& task = work_.tasks[i];
      const std::pair end{task.start_ps + task.duration_ps, i};
      if (task.kind == TaskKind::kSend) sends.push_back(end);
      if (task.kind == TaskKind::kRecv) receives.push_back(end);
    }
    std::sort(sends.begin(), sends.end());
    std::sort(receives.begin(), receives.end());
    // The nearest of another rank, or kNone.
    const auto nearest = [this](const Ends& ends, std::int64_t end_ps, std::uint32_t other) {
      std::pair best{kSameEnd_ps + 1, std::uint32_t{kNone}};
      for (auto at = std::lower_bound(ends.begin(), ends.end(),
                                      std::pair{end_ps - kSameEnd_ps, std::uint32_t{0}});
           at != ends.end() && at->first <= end_ps + kSameEnd_ps; ++at) {
        if (work_.tasks[at->second].rank == work_.tasks[other].rank) continue;
        best = std::min(best, {std::abs(at->first - end_ps), at->second});
      }
      return best.second;
    };
    std::int64_t joined = 0;
    for (const auto& [end_ps, send] : sends) {
      const std::uint32_t receive = nearest(receives, end_ps, send);
      if (receive == kNone) continue;
      const WorkTask& task = work_.tasks[receive];
      if (nearest(sends, task.start_ps + task.duration_ps, receive) != send) continue;
      Meet(std::vector<std::uint32_t>{send, receive});
      ++joined;
    }
    return joined;
  }

  // A rank's own, where the others' profiles are not there, meets nobody. Where only two ranks send
  // and receive at all in a group, each is the other's partner.
  void Join() {
    std::vector<std::uint32_t> without_partner;
    for (const auto& [key, tasks] : meetings_) {
      const bool is_message = key.from == kSomebody;
      if (is_message && ranks_.size() > 1 && unknown_partners_[key.group].size() != 2) {
        without_partner.insert(without_partner.end(), tasks.begin(), tasks.end());
      } else {
        Meet(tasks);
      }
    }
    const std::int64_t alone = std::ssize(without_partner) - 2 * JoinByTime(without_partner);
    if (alone == 0) return;
    work_.remarks.push_back(
        StrCat(alone, " messages whose other end is not known wait for nobody"));
  }

  std::span<const KinetoTrace> files_;
  std::vector<KinetoRank> ranks_;
  AlignedWindows aligned_;
  const bool all_have_steps_;
  WorkGraph work_;
  std::unordered_map<std::string, std::uint32_t> lanes_, operators_;
  std::map<Key, std::vector<std::uint32_t>> meetings_;
  std::map<std::string, std::set<std::uint32_t>> unknown_partners_;  // By group, whose they are.
  std::unordered_map<std::uint32_t, std::uint32_t> group_size_;      // By task.
  std::unordered_map<std::string, OperatorClass> classes_;           // By operator.
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
  }
  Result<std::vector<KinetoRank>> ranks = RanksOf(files);
  if (!ranks.ok()) return ranks.error();
  Result<AlignedWindows> aligned = ChooseWindows(files, choice);
  if (!aligned.ok()) return aligned.error();
  const std::vector<KinetoWindow>& windows = aligned.value().windows;
  if (std::all_of(windows.begin(), windows.end(),
                  [](const KinetoWindow& window) { return window.device.empty(); })) {
    return Error{.message = StrCat(files[0].path, ": nothing runs in the step")};
  }
  return Builder(files, std::move(ranks).value(), std::move(aligned).value()).Run();
}

}  // namespace twinstep
