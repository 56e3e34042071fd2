#include "exec/profile/collective_overlap.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "exec/profile/statistics.h"
#include "exec/profile/task_company.h"
#include "exec/profile/task_seconds.h"

namespace twinstep {
namespace {

// Of a task's time: what little laps over the next task changes neither's time much.
constexpr double kLittle = 0.05;
constexpr double kResolutionNs = 1e3;  // Of a device's clock.
// Fewer times do not say whether they hold what was waited for.
constexpr std::size_t kFewestEvents = 3;
// A collective that takes less leaves operators most of the GPU.
constexpr double kMost = 0.5;

double Length(const TaskTime& time) { return static_cast<double>(time.end_ns - time.start_ns); }

double Seconds(double ns) { return ns * kSecondsPerNanosecond; }

// A collective or message of one iteration.
struct Event {
  std::size_t iteration = 0;
  std::uint32_t primitive = kNone;
  std::vector<TaskId> members;
  // Until the operators have ended that run at its begin, if any do; and of all, the longest of its
  // members', whose clocks are their GPUs'.
  double wait_ns = 0, duration_ns = 0;
  // The operator that it waits for longest, and since when that runs at its begin.
  std::uint32_t running = kNone;
  double since_ns = 0;
  // Of its members, of the time in which operators run.
  double least_share = 1, most_share = 0;
};

// An operator of one iteration, with the collectives that run beside it.
struct Operator {
  std::size_t iteration = 0;
  std::uint32_t primitive = kNone;
  TaskTime time;
  std::vector<std::pair<std::uint32_t, double>> beside;  // For how many nanoseconds.
  double BesideNs() const {
    double all = 0;
    for (const auto& [collective, ns] : beside) all += ns;
    return std::min(all, Length(time));
  }
  bool IsAlone() const { return BesideNs() < kLittle * Length(time); }
};

// Of one iteration and rank, by their ends.
using Operators = std::vector<Operator>;

template <typename T>
auto FirstThatEndsAfter(T& operators, std::int64_t ns) {
  return std::ranges::upper_bound(operators, ns, {},
                                  [](const Operator& x) { return x.time.end_ns; });
}

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : Quantile(values, 0.5);
}

// Sum of the distances, each of `least` at least.
double Deviation(const std::vector<double>& values, double from, double least) {
  double sum = 0;
  for (const double value : values) sum += std::max(least, std::abs(value - from));
  return sum;
}

enum class Waiting { kUnknown, kYes, kNo };

// What takes turns with operators wherever anything of its group does.
bool MayTakeTurns(const Primitive& primitive) {
  switch (primitive.shape.op) {
    case OpCode::kAllReduce:
    case OpCode::kReduceScatter:
      return true;
    case OpCode::kAllGather:
      return !primitive.in_place;
    default:
      return false;
  }
}

// Whether durations are those of something that begins once the waiting is over: without it they
// are more alike, and more like those alone (0: unknown). Distances of little say nothing: where
// all begin at one place, durations are alike, and less those of operators' ends vary more.
Waiting WaitingOf(const std::vector<const Event*>& events, double alone_ns) {
  std::vector<double> durations, rest;
  for (const Event* event : events) {
    if (!(event->wait_ns > 0)) continue;
    durations.push_back(event->duration_ns);
    rest.push_back(event->duration_ns - event->wait_ns);
  }
  if (durations.size() < kFewestEvents) return Waiting::kUnknown;
  const double least = std::max(kResolutionNs, kLittle * Median(durations));
  const auto likelier_by = [&](double of_durations, double of_rest) {
    return Deviation(durations, of_durations, least) / Deviation(rest, of_rest, least);
  };
  double likelier = likelier_by(Median(durations), Median(rest));
  if (alone_ns > 0) likelier *= likelier_by(alone_ns, alone_ns);
  return likelier > 1 ? Waiting::kYes : Waiting::kNo;
}

// How long operators ran beside collectives, and what they lost there.
struct Loss {
  double lost_ns = 0, beside_ns = 0;
};

class Analysis {
 public:
  Analysis(const TaskGraph& graph, const std::vector<std::vector<TaskTime>>& iterations,
           const std::vector<std::uint32_t>& primitive, const std::vector<Primitive>& primitives)
      : graph_(graph),
        iterations_(iterations),
        primitive_(primitive),
        primitives_(primitives),
        waiting_(primitives.size(), Waiting::kUnknown),
        of_collectives_(primitives.size()),
        of_operators_(primitives.size()),
        alone_ns_(primitives.size()),
        collective_ns_(primitives.size()) {}

  // `alone_s` by primitive: what is known besides; 0 = nothing.
  void Run(const std::vector<double>& alone_s) {
    FindEvents();
    DecideWhatWaits(alone_s);
    DecideTogether();
    for (const Event& event : events_) AddCompany(event);
    FindTimesAlone();
    EachOperator([this](const Operator& x) {
      if (!IsSlowed(x)) return;
      double all_ns = 0;
      for (const auto& [collective, ns] : x.beside) all_ns += ns;
      for (const auto& [collective, ns] : x.beside) {
        of_collectives_[collective].lost_ns += LostNs(x) * ns / all_ns;
        of_collectives_[collective].beside_ns += ns;
      }
    });
    EachOperator([this](const Operator& x) {
      if (!IsSlowed(x)) return;
      for (const auto& [collective, ns] : x.beside) {
        if (Takes(collective) > kMost) return;
      }
      // One that stood still has waited for its turn, of a part that does not leave it most.
      if (LostNs(x) > kMost * x.BesideNs()) return;
      of_operators_[x.primitive].lost_ns += LostNs(x);
      of_operators_[x.primitive].beside_ns += x.BesideNs();
    });
  }

  bool Waits(std::uint32_t collective) const { return waiting_[collective] == Waiting::kYes; }

  double Takes(std::uint32_t collective) const {
    const Loss& loss = of_collectives_[collective];
    return loss.beside_ns > 0 ? std::clamp(loss.lost_ns / loss.beside_ns, 0.0, 1.0) : 0;
  }

  // 0 where too little is known.
  double Slowdown(std::uint32_t primitive) const {
    const Loss& loss = of_operators_[primitive];
    // Together at least as long as one of them takes.
    if (!(loss.beside_ns > 0) || loss.beside_ns < alone_ns_[primitive]) return 0;
    return 1 / std::min(1.0, 1 - loss.lost_ns / loss.beside_ns);
  }

  // By operator, of those that enough collectives waited for.
  std::map<std::uint32_t, double> LetsInSeconds() const {
    std::map<std::uint32_t, std::vector<double>> lets_in_ns;
    for (const Event& event : events_) {
      const double alone_ns = collective_ns_[event.primitive];
      if (event.running == kNone || !(alone_ns > 0) || !Waits(event.primitive)) continue;
      if (Takes(event.primitive) <= kMost) continue;
      lets_in_ns[event.running].push_back(event.since_ns + event.duration_ns - alone_ns);
    }
    std::map<std::uint32_t, double> lets_in_s;
    for (auto& [primitive, of] : lets_in_ns) {
      if (of.size() >= kFewestEvents) {
        lets_in_s[primitive] = Seconds(std::max(0.0, Median(std::move(of))));
      }
    }
    return lets_in_s;
  }

  // `see(iteration, primitive, seconds)` for each that ran alone.
  template <typename F>
  void EachAlone(const F& see) const {
    EachOperator([&see](const Operator& x) {
      if (x.IsAlone()) see(x.iteration, x.primitive, Seconds(Length(x.time)));
    });
    for (const Event& event : events_) {
      if (event.most_share < kLittle) {
        see(event.iteration, event.primitive, Seconds(event.duration_ns));
      }
    }
  }

  // The same for collectives beside operators, without what they waited.
  template <typename F>
  void EachBeside(const F& see) const {
    for (const Event& event : events_) {
      const Waiting waiting = waiting_[event.primitive];
      if (event.most_share < kLittle || waiting == Waiting::kUnknown) continue;
      const bool waits = waiting == Waiting::kYes;
      if (waits ? !(event.wait_ns > 0) : event.least_share < 1 - kLittle) continue;
      const double own_ns = event.duration_ns - (waits ? event.wait_ns : 0);
      if (own_ns > 0) see(event.iteration, event.primitive, Seconds(own_ns));
    }
  }

 private:
  void FindEvents() {
    std::vector<std::vector<TaskId>> members(graph_.rendezvous.size());
    for (TaskId id = 0; id < graph_.TaskCount(); ++id) {
      if (graph_.tasks[id].rendezvous != kNone) members[graph_.tasks[id].rendezvous].push_back(id);
    }
    for (std::size_t iteration = 0; iteration < iterations_.size(); ++iteration) {
      std::vector<TaskCompany> companies;  // By rank: what computes there.
      operators_.emplace_back(graph_.ranks.size());
      for (RankId rank = 0; rank < graph_.ranks.size(); ++rank) {
        companies.push_back(FindOperators(iteration, rank));
      }
      for (const std::vector<TaskId>& of : members) {
        Event event{.iteration = iteration, .members = of};
        for (const TaskId member : of) AddMember(member, companies, &event);
        if (event.primitive != kNone) events_.push_back(std::move(event));
      }
    }
  }

  TaskCompany FindOperators(std::size_t iteration, RankId rank) {
    std::vector<TaskTime> times;
    for (TaskId id = graph_.rank_begin[rank]; id < graph_.rank_begin[rank + 1]; ++id) {
      if (graph_.tasks[id].kind != TaskKind::kCompute) continue;
      times.push_back(iterations_[iteration][id]);
      operators_[iteration][rank].push_back({.iteration = iteration,
                                             .primitive = primitive_[id],
                                             .time = times.back(),
                                             .beside = {}});
    }
    std::ranges::sort(operators_[iteration][rank], {},
                      [](const Operator& x) { return x.time.end_ns; });
    return TaskCompany(times);
  }

  void AddMember(TaskId member, const std::vector<TaskCompany>& companies, Event* event) const {
    const RankId rank = graph_.tasks[member].rank;
    const TaskTime& time = iterations_[event->iteration][member];
    if (event->primitive == kNone) event->primitive = primitive_[member];
    event->duration_ns = std::max(event->duration_ns, Length(time));
    const double share = companies[rank].OfOther(time);
    event->least_share = std::min(event->least_share, share);
    event->most_share = std::max(event->most_share, share);
    const Operators& of_rank = operators_[event->iteration][rank];
    const auto running = FirstThatEndsAfter(of_rank, time.start_ns);
    if (running == of_rank.end() || running->time.start_ns > time.start_ns) return;
    const auto wait_ns = static_cast<double>(running->time.end_ns - time.start_ns);
    if (wait_ns <= event->wait_ns) return;
    event->wait_ns = wait_ns;
    event->running = running->primitive;
    event->since_ns = static_cast<double>(time.start_ns - running->time.start_ns);
  }

  void DecideWhatWaits(const std::vector<double>& alone_s) {
    std::vector<std::vector<const Event*>> events_of(waiting_.size());
    for (const Event& event : events_) events_of[event.primitive].push_back(&event);
    for (std::uint32_t primitive = 0; primitive < waiting_.size(); ++primitive) {
      std::vector<double> alone_ns;
      for (const Event* event : events_of[primitive]) {
        if (event->most_share < kLittle) alone_ns.push_back(event->duration_ns);
      }
      if (alone_ns.empty()) alone_ns.push_back(alone_s[primitive] / kSecondsPerNanosecond);
      collective_ns_[primitive] = Median(std::move(alone_ns));
      waiting_[primitive] = WaitingOf(events_of[primitive], collective_ns_[primitive]);
    }
  }

  // Few durations of one size may say the wrong thing, as where an operator of several kernels ends
  // only after the collective that came between them. All sizes of a group do as most of them.
  void DecideTogether() {
    std::map<std::uint32_t, TurnVotes> votes;  // By members.
    for (std::size_t i = 0; i < primitives_.size(); ++i) {
      if (!MayTakeTurns(primitives_[i]) || waiting_[i] == Waiting::kUnknown) continue;
      votes[primitives_[i].group_size].Add(primitives_[i], waiting_[i] == Waiting::kYes);
    }
    for (std::size_t i = 0; i < primitives_.size(); ++i) {
      if (!MayTakeTurns(primitives_[i]) || waiting_[i] == Waiting::kUnknown) continue;
      const bool waits = votes.at(primitives_[i].group_size).TakeTurns();
      waiting_[i] = waits ? Waiting::kYes : Waiting::kNo;
    }
  }

  // To what its ranks compute while it is under way.
  void AddCompany(const Event& event) {
    for (const TaskId member : event.members) {
      const TaskTime& time = iterations_[event.iteration][member];
      const double wait_ns = Waits(event.primitive) ? event.wait_ns : 0;
      const std::int64_t begin = time.start_ns + static_cast<std::int64_t>(wait_ns);
      Operators& of_rank = operators_[event.iteration][graph_.tasks[member].rank];
      for (auto x = FirstThatEndsAfter(of_rank, begin);
           x != of_rank.end() && x->time.start_ns < time.end_ns; ++x) {
        const std::int64_t both =
            std::min(x->time.end_ns, time.end_ns) - std::max(x->time.start_ns, begin);
        if (both > 0) x->beside.emplace_back(event.primitive, static_cast<double>(both));
      }
    }
  }

  void FindTimesAlone() {
    std::vector<std::vector<double>> times(alone_ns_.size());
    EachOperator([&times](const Operator& x) {
      if (x.IsAlone()) times[x.primitive].push_back(Length(x.time));
    });
    for (std::size_t i = 0; i < times.size(); ++i) {
      alone_ns_[i] = Summarize(std::move(times[i])).mean;
    }
  }

  template <typename F>
  void EachOperator(const F& see) const {
    for (const std::vector<Operators>& of_iteration : operators_) {
      for (const Operators& of_rank : of_iteration) {
        for (const Operator& x : of_rank) {
          if (x.primitive != kNone) see(x);
        }
      }
    }
  }

  bool IsSlowed(const Operator& x) const { return !x.IsAlone() && alone_ns_[x.primitive] > 0; }
  double LostNs(const Operator& x) const { return Length(x.time) - alone_ns_[x.primitive]; }

  const TaskGraph& graph_;
  const std::vector<std::vector<TaskTime>>& iterations_;
  const std::vector<std::uint32_t>& primitive_;
  const std::vector<Primitive>& primitives_;
  std::vector<Event> events_;
  std::vector<std::vector<Operators>> operators_;  // By iteration and rank.
  // By primitive.
  std::vector<Waiting> waiting_;
  std::vector<Loss> of_collectives_, of_operators_;
  std::vector<double> alone_ns_;       // Of operators, in the mean; 0: none ran alone.
  std::vector<double> collective_ns_;  // Of collectives alone; 0: not known.
};

// Means by iteration, from what `each` calls its argument with.
template <typename F>
Means MeansOf(const F& each, const std::vector<Primitive>& primitives) {
  std::map<std::pair<std::uint32_t, std::size_t>, std::vector<double>> times;
  each([&times](std::size_t iteration, std::uint32_t primitive, double seconds) {
    times[{primitive, iteration}].push_back(seconds);
  });
  Means means;
  for (const auto& [key, seconds] : times) {
    means[primitives[key.first]].push_back(Summarize(seconds).mean);
  }
  return means;
}

}  // namespace

CollectiveOverlap::CollectiveOverlap(const TaskGraph& graph,
                                     const std::function<const Primitive*(TaskId)>& primitive_of)
    : graph_(graph) {
  std::map<Primitive, std::uint32_t> known;
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    const Primitive* const primitive = primitive_of(id);
    if (primitive == nullptr) {
      primitive_.push_back(kNone);
      continue;
    }
    const auto [at, is_new] =
        known.try_emplace(*primitive, static_cast<std::uint32_t>(primitives_.size()));
    if (is_new) primitives_.push_back(*primitive);
    primitive_.push_back(at->second);
  }
}

void CollectiveOverlap::AddIteration(const std::function<TaskTime(TaskId)>& time) {
  std::vector<TaskTime> times;
  times.reserve(graph_.TaskCount());
  for (TaskId id = 0; id < graph_.TaskCount(); ++id) times.push_back(time(id));
  iterations_.push_back(std::move(times));
}

CollectiveOverlap::Times CollectiveOverlap::Finish(
    const std::map<Primitive, double>& alone_s) const {
  std::vector<double> known_s;  // By primitive.
  for (const Primitive& primitive : primitives_) {
    const auto at = alone_s.find(primitive);
    known_s.push_back(at == alone_s.end() ? 0 : at->second);
  }
  Analysis analysis(graph_, iterations_, primitive_, primitives_);
  analysis.Run(known_s);
  Times times{.alone = MeansOf([&](const auto& see) { analysis.EachAlone(see); }, primitives_),
              .beside = MeansOf([&](const auto& see) { analysis.EachBeside(see); }, primitives_),
              .company = {},
              .slowdowns = {},
              .lets_in_s = {}};
  for (std::uint32_t i = 0; i < primitives_.size(); ++i) {
    if (times.beside.contains(primitives_[i])) {
      times.company[primitives_[i]] = {.waits = analysis.Waits(i), .takes = analysis.Takes(i)};
    }
    const double slowdown = analysis.Slowdown(i);
    if (slowdown > 0) times.slowdowns[primitives_[i]] = slowdown;
  }
  for (const auto& [operation, seconds] : analysis.LetsInSeconds()) {
    times.lets_in_s[primitives_[operation]] = seconds;
  }
  return times;
}

}  // namespace twinstep
