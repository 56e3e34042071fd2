#include "sim/engine/simgrid_replay.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <simgrid/s4u.hpp>
#include <span>
#include <string>
#include <utility>

#include "sim/engine/deadlock.h"
#include "sim/engine/fixed_point.h"
#include "sim/engine/interference.h"
#include "sim/engine/kernel_turns.h"
#include "sim/engine/lane_threads.h"
#include "sim/engine/wake_delay.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

namespace s4u = simgrid::s4u;

// SimGrid takes payloads in whole bytes: a payload unit is 1/1024 of a byte.
constexpr double kUnitsPerByte = 1024;
// Less than this is done; SimGrid will say so within the same moment.
constexpr double kNothing = 1e-3;
constexpr int kMostTimers = 1 << 20;
// Of a computation: an H2D runs + 2 x a D2H + 4 x communication + 8 x high clocks.
constexpr std::size_t kComputeStates = 16;

bool IsCommunication(TaskKind kind) {
  return kind == TaskKind::kSend || kind == TaskKind::kRecv || kind == TaskKind::kCollective;
}

// What one activity of SimGrid stands for.
struct Job {
  enum class Work {
    kFixedTime,
    kFlow,
    kDispatch,
    kWake,
    kAssignment,
    kClocksFall,
    kHandoff,
    kMeeting,
    kTurns
  };
  Work work = Work::kFixedTime;
  TaskId task = kNone;
  std::uint32_t flow = kNone;  // Of kFlow; of kWake the thread, of kClocksFall the rank.
  double slow_down = 1;        // Of a flow: what its payload was multiplied with.
  s4u::ActivityPtr activity;
};

struct Rank {
  int computing = 0, h2d = 0, d2h = 0, communicating = 0, on_host = 0;
  // Of ClockBoost: left as of `since`, since when the rank does what it does (ClockUse).
  double boost_left_ps = 0, since_ps = 0;
  std::array<TaskId, kLaneCount> running;
};

// The limits hold for each of a host's copies alone (HostCopyRates).
struct HostOfCopies {
  std::uint32_t up = 0, down = 0;  // GPUs that copy.
  s4u::Link *h2d_limit = nullptr, *d2h_limit = nullptr;
  std::vector<Job*> h2d, d2h;
};

// A lane's computation: its cost, of the segment that runs if it is fused, and segments to come.
struct Computation {
  std::uint32_t cost = 0;
  std::uint32_t segment = 0, segment_end = 0;
  Picoseconds rest_ps = 0;  // What follows its turn.
};

class SimgridReplay {
 public:
  SimgridReplay(const TaskGraph& graph, const GraphCosts& costs, const Topology& topology,
                std::vector<std::uint32_t> pending, const std::vector<std::uint32_t>& link_scales)
      : graph_(graph),
        costs_(costs),
        topology_(topology),
        ranks_(graph.ranks.size()),
        jobs_of_slot_(graph.ranks.size() * kLaneCount),
        computations_(graph.ranks.size() * kLaneCount),
        hosts_(graph.ranks.size() * kLaneCount, nullptr),
        open_(graph.tasks.size(), 0),
        missing_(graph.rendezvous.size()),
        finished_members_(graph.rendezvous.size(), 0) {
    record_.start_ps.assign(graph.tasks.size(), kNotDone);
    record_.end_ps.assign(graph.tasks.size(), kNotDone);
    record_.ready_ps.assign(graph.tasks.size(), kNotDone);
    record_.pending = std::move(pending);
    for (RendezvousId id = 0; id < missing_.size(); ++id) {
      missing_[id] = graph.rendezvous[id].participants;
    }
    for (Rank& rank : ranks_) rank.running.fill(kNone);
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      ranks_[i].boost_left_ps = static_cast<double>(BoostAtBegin(costs.clocks, i));
    }
    for (const TaskCost& cost : costs.costs) {
      if (cost.turn != KernelTurn::kNever) takes_turns_ = true;
    }
    if (takes_turns_) {
      turns_.emplace(graph.ranks.size());
      turn_of_task_.assign(graph.tasks.size(), KernelTurn::kNever);
    }
    if (costs.handoff_ps > 0) handed_over_.assign(graph.tasks.size(), 0);
    if (HasWorkers()) {
      threads_.emplace(graph, topology, costs.workers.threads);
      wake_delay_.emplace(costs.workers);
      thread_of_task_.assign(graph.tasks.size(), 0);
    }
    StartEngine();
    CollectSpeeds();
    MakePlatform(link_scales);
  }

  SimgridRecord Run() {
    s4u::Activity::on_completion_cb([this](const s4u::Activity& activity) {
      Job* job = activity.get_data<Job>();
      if (job != nullptr) EndJob(job);
    });
    s4u::Engine::on_time_advance_cb([this](double) {
      long_retired_.clear();
      long_retired_.swap(retired_);
    });
    std::vector<TaskId> initial;
    for (TaskId id = 0; id < graph_.TaskCount(); ++id) {
      if (record_.pending[id] == 0) initial.push_back(id);
    }
    for (const TaskId id : initial) MakeReady(id);
    FinishTasks();
    if (HasWorkers()) AssignThreads();
    engine_->run();
    RecordClocks();
    return std::move(record_);
  }

 private:
  void RecordClocks() {
    record_.boost_left_ps.assign(ranks_.size(), 0);
    if (costs_.clocks.boost_ps == 0) return;
    const auto end = std::ranges::max_element(record_.end_ps);
    for (std::size_t i = 0; end != record_.end_ps.end() && i < ranks_.size(); ++i) {
      // A timer may have run on after the last task.
      Account(ranks_[i], ClockUse::kRests, std::max(ranks_[i].since_ps, static_cast<double>(*end)));
      record_.boost_left_ps[i] = std::llround(ranks_[i].boost_left_ps);
    }
  }

  void StartEngine() {
    static std::string arguments[] = {"twinstep",
                                      "--log=root.thresh:critical",
                                      "--cfg=network/model:CM02",
                                      "--cfg=network/crosstraffic:0",
                                      "--cfg=network/bandwidth-factor:1",
                                      "--cfg=surf/precision:1e-12",
                                      "--cfg=maxmin/precision:1e-9"};
    static std::array<char*, std::size(arguments) + 1> pointers{};
    for (std::size_t i = 0; i < std::size(arguments); ++i) pointers[i] = arguments[i].data();
    int count = static_cast<int>(std::size(arguments));
    engine_ = std::make_unique<s4u::Engine>(&count, pointers.data());
  }

  // A host's speed is one of a list, by what slows the task and the state of the rank.
  void CollectSpeeds() {
    if (HasWorkers()) return CollectBusySpeeds();
    std::map<std::array<double, kComputeStates>, std::size_t> index_of;
    for (const TaskCost& cost : costs_.costs) {
      std::array<double, kComputeStates> slow_downs{};
      for (std::size_t state = 0; state < kComputeStates; ++state) {
        const RankWork beside{
            .h2d = (state & 1) != 0, .d2h = (state & 2) != 0, .communication = (state & 4) != 0};
        const bool rested = (state & 8) != 0;
        const double speedup = rested ? static_cast<double>(cost.rested_speedup) : 1;
        slow_downs[state] = ComputeSlowdown(cost, costs_.interference, beside, rested) / speedup;
      }
      const auto [it, is_new] = index_of.try_emplace(slow_downs, slow_downs_.size());
      if (is_new) slow_downs_.insert(slow_downs_.end(), slow_downs.begin(), slow_downs.end());
      first_slow_down_.push_back(it->second);
    }
  }

  // With worker threads: by slow-down of the task and busy threads.
  void CollectBusySpeeds() {
    std::map<float, std::size_t> index_of;
    const std::size_t threads = costs_.workers.threads;
    for (const TaskCost& cost : costs_.costs) {
      const auto [it, is_new] = index_of.try_emplace(cost.busy_slowdown, slow_downs_.size());
      first_slow_down_.push_back(it->second);
      if (!is_new) continue;
      slow_downs_.push_back(1);
      for (std::size_t others = 1; others < threads; ++others) {
        const double share = static_cast<double>(others) / static_cast<double>(threads - 1);
        slow_downs_.push_back(1 + (static_cast<double>(cost.busy_slowdown) - 1) * share);
      }
    }
  }

  void MakePlatform(const std::vector<std::uint32_t>& link_scales) {
    // Hosts never talk: a zone without routes. Each lane has its host, so that no two tasks share.
    s4u::NetZone* root = s4u::create_empty_zone("root");
    std::vector<double> speeds;
    for (const double slow_down : slow_downs_) speeds.push_back(1e12 / slow_down);
    if (speeds.empty()) speeds = {1e12};
    for (TaskId id = 0; id < graph_.TaskCount(); ++id) {
      s4u::Host*& host = hosts_[SlotOf(id)];
      if (host == nullptr) host = root->create_host(StrCat("lane", SlotOf(id)), speeds);
    }
    std::size_t clocks = HasWorkers() ? costs_.workers.threads + 1 : 0;
    if (costs_.clocks.boost_ps > 0 || takes_turns_ || HasDelays()) {
      clocks = std::max(clocks, ranks_.size());
    }
    for (std::size_t i = 0; i < clocks; ++i) {
      clocks_.push_back(root->create_host(StrCat("clock", i), 1e12));
      // Timers that have lost their meaning run on beside others, which they must not slow.
      clocks_.back()->set_core_count(kMostTimers);
    }
    MakeRoutes(root, link_scales);
    root->seal();
  }

  // A route lies between two hosts: n hosts have n (n - 1) of them.
  void MakeRoutes(s4u::NetZone* root, const std::vector<std::uint32_t>& link_scales) {
    s4u::NetZone* zone = s4u::create_full_zone("routes");
    zone->set_parent(root);
    std::vector<s4u::Link*> links;
    for (std::size_t i = 0; i < costs_.links.size(); ++i) {
      const double capacity = costs_.links[i].bytes_per_s * link_scales[i] * kUnitsPerByte;
      links.push_back(zone->create_link(StrCat("link", i), capacity)->seal());
    }
    if (costs_.host_copies.gpus > 0) hosts_of_copies_.resize(costs_.hosts);
    std::map<std::vector<s4u::Link*>, std::size_t> index_of_route;
    std::vector<std::vector<s4u::Link*>> routes;
    std::vector<std::size_t> route_of_flow;
    for (std::size_t f = 0; f < costs_.flows.size(); ++f) {
      const Flow& flow = costs_.flows[f];
      std::vector<s4u::Link*> route;
      for (std::uint32_t i = 0; i < flow.hop_count; ++i) {
        const RouteHop& hop = costs_.hops[flow.hop_begin + i];
        const double times = std::nearbyint(hop.multiplicity * link_scales[hop.link]);
        route.insert(route.end(), static_cast<std::size_t>(times), links[hop.link]);
      }
      if (flow.max_bytes_per_s > 0 && std::isfinite(flow.max_bytes_per_s)) {
        // SimGrid 3.32 ignores set_rate between hosts: a cap is a link that limits each alone.
        s4u::Link* own = zone->create_link(StrCat("flow", f), flow.max_bytes_per_s * kUnitsPerByte);
        own->set_sharing_policy(s4u::Link::SharingPolicy::FATPIPE);
        route.push_back(own->seal());
      }
      if (flow.host != kNone && !hosts_of_copies_.empty()) {
        HostOfCopies& host = hosts_of_copies_[flow.host];
        s4u::Link*& limit = flow.to_gpu ? host.h2d_limit : host.d2h_limit;
        if (limit == nullptr) {
          limit = zone->create_link(StrCat(flow.to_gpu ? "h2d" : "d2h", flow.host),
                                    kMaxRate * kUnitsPerByte);
          limit->set_sharing_policy(s4u::Link::SharingPolicy::FATPIPE);
          limit->seal();
        }
        route.push_back(limit);
      }
      const auto [it, is_new] = index_of_route.try_emplace(route, routes.size());
      if (is_new) routes.push_back(route);
      route_of_flow.push_back(it->second);
    }
    std::vector<s4u::Host*> ends;
    while (ends.size() * (ends.size() - 1) < routes.size() || ends.empty()) {
      ends.push_back(zone->create_host(StrCat("end", ends.size()), 1.0));
    }
    const std::size_t others = ends.size() - 1;
    std::vector<std::pair<s4u::Host*, s4u::Host*>> ends_of_route;
    for (std::size_t i = 0; i < routes.size(); ++i) {
      const std::size_t from = i / others;
      const std::size_t to = i % others;
      ends_of_route.emplace_back(ends[from], ends[to < from ? to : to + 1]);
      if (routes[i].empty()) continue;
      std::vector<s4u::LinkInRoute> hops;
      for (s4u::Link* link : routes[i]) hops.emplace_back(link);
      zone->add_route(ends_of_route.back().first->get_netpoint(),
                      ends_of_route.back().second->get_netpoint(), nullptr, nullptr, hops, false);
    }
    zone->seal();
    for (const std::size_t route : route_of_flow) ends_of_flow_.push_back(ends_of_route[route]);
  }

  std::size_t SlotOf(TaskId id) const {
    return graph_.tasks[id].rank * std::size_t{kLaneCount} +
           static_cast<std::size_t>(graph_.tasks[id].lane);
  }
  const TaskCost& CostOf(TaskId id) const { return costs_.Of(id); }
  bool HasWorkers() const { return costs_.workers.threads > 0; }
  bool HasDelays() const { return costs_.handoff_ps > 0 || costs_.meeting_ps > 0; }
  Picoseconds Now() const { return std::llround(s4u::Engine::get_clock() * 1e12); }

  Job* NewJob(Job::Work work, TaskId task) {
    if (free_jobs_.empty()) {
      jobs_.emplace_back();
      free_jobs_.push_back(&jobs_.back());
    }
    Job* job = free_jobs_.back();
    free_jobs_.pop_back();
    job->work = work;
    job->task = task;
    job->flow = kNone;
    job->slow_down = 1;
    return job;
  }

  Job* NewJobOfLane(Job::Work work, TaskId task) {
    Job* job = NewJob(work, task);
    jobs_of_slot_[SlotOf(task)].push_back(job);
    ++open_[task];
    return job;
  }

  void MakeReady(TaskId id) {
    record_.ready_ps[id] = Now();
    if (costs_.handoff_ps > 0) {
      const double wait_ps = handed_over_[id] - ClockNow();
      if (wait_ps > kNothing) {
        return StartWork(NewJob(Job::Work::kHandoff, id), ClockOf(id), wait_ps);
      }
    }
    Arrive(id);
  }

  void Arrive(TaskId id) {
    const RendezvousId rendezvous = graph_.tasks[id].rendezvous;
    if (rendezvous != kNone && --missing_[rendezvous] > 0) return;
    if (HasWorkers()) return;  // Threads find it.
    if (rendezvous != kNone && costs_.meeting_ps > 0 && IsOfSeveralRanks(graph_, rendezvous)) {
      return StartWork(NewJob(Job::Work::kMeeting, id), ClockOf(id),
                       static_cast<double>(costs_.meeting_ps));
    }
    for (const TaskId member : MembersOfJob(id)) Start(member);
  }

  s4u::Host* ClockOf(TaskId id) const { return clocks_[graph_.tasks[id].rank]; }

  // What takes no time on the multiprocessors does not wait for them.
  KernelTurn TurnOf(TaskId id) const {
    if (!takes_turns_) return KernelTurn::kNever;
    const TaskCost& cost = CostOf(id);
    if (graph_.tasks[id].kind == TaskKind::kCompute) {
      return cost.fixed_ps > 0 ? KernelTurn::kWhole : KernelTurn::kNever;
    }
    const bool is_nothing = cost.turn == KernelTurn::kBegins && cost.fixed_ps == 0;
    return is_nothing ? KernelTurn::kNever : cost.turn;
  }

  // Turns are granted once nothing else has ended at this moment.
  void RequestTurns() {
    if (std::exchange(turns_are_due_, true)) return;
    ends_at_request_ = ends_;
    StartWork(NewJob(Job::Work::kTurns, kNone), clocks_.back(), 0);
  }

  void GrantTurns() {
    turns_are_due_ = false;
    // One was this request's.
    if (ends_ != ends_at_request_ + 1) return RequestTurns();
    for (const TaskId id : turns_->Grant()) Begin(id);
  }

  void EndTurn(TaskId id) {
    if (!takes_turns_ || turn_of_task_[id] == KernelTurn::kNever) return;
    turn_of_task_[id] = KernelTurn::kNever;
    turns_->Release(graph_.tasks[id].rank);
    RequestTurns();
  }

  // A kernel of a fused computation is done. The next one comes now: those that have waited come
  // first.
  bool YieldTurn(TaskId id) {
    const Task& task = graph_.tasks[id];
    if (!takes_turns_ || task.kind != TaskKind::kCompute) return false;
    Computation& computation = computations_[SlotOf(id)];
    while (computation.segment < computation.segment_end &&
           costs_.costs[costs_.segments[computation.segment]].fixed_ps == 0) {
      ++computation.segment;
    }
    if (computation.segment == computation.segment_end) return false;
    if (turn_of_task_[id] == KernelTurn::kWhole && !turns_->IsAwaited(task.rank)) return false;
    EndTurn(id);
    turn_of_task_[id] = KernelTurn::kWhole;
    turns_->Ask(task.rank, id, /*computes=*/true);
    RequestTurns();
    Count(task, -1);
    return true;
  }

  // The tasks of a rendezvous, or the task alone: then the span is `id` itself.
  std::span<const TaskId> MembersOfJob(const TaskId& id) const {
    const RendezvousId rendezvous = graph_.tasks[id].rendezvous;
    if (rendezvous == kNone) return {&id, 1};
    return topology_.Members(rendezvous);
  }

  // Threads are assigned once all that happens at this moment has happened: an activity without
  // work ends at the same time, but after the others.
  void RequestAssignment() {
    if (std::exchange(assignment_is_due_, true)) return;
    StartWork(NewJob(Job::Work::kAssignment, kNone), clocks_.back(), 0);
  }

  void AssignThreads() {
    assignment_is_due_ = false;
    for (const LaneThreads::Start& start : threads_->Settle()) {
      for (const TaskId member : MembersOfJob(start.job)) thread_of_task_[member] = start.thread;
      const Picoseconds delay_ps = start.has_slept ? 0 : costs_.workers.dispatch_ps;
      if (delay_ps > 0) {
        StartWork(NewJob(Job::Work::kDispatch, start.job), clocks_[start.thread],
                  static_cast<double>(delay_ps));
      } else {
        for (const TaskId member : MembersOfJob(start.job)) Start(member);
      }
    }
    for (const std::uint32_t thread : threads_->TakeIdle()) wake_delay_->FallIdle(thread, Now());
    for (const std::uint32_t thread : threads_->TakeNotified()) {
      Job* job = NewJob(Job::Work::kWake, kNone);
      job->flow = thread;
      StartWork(job, clocks_[thread], static_cast<double>(wake_delay_->Of(thread, Now())));
    }
    FinishTasks();
    const std::size_t busy = threads_->busy_threads();
    if (std::exchange(busy_threads_, busy) == busy) return;
    for (const Rank& rank : ranks_) {
      for (const TaskId id : rank.running) {
        if (id != kNone) ChangeSpeed(id);
      }
    }
  }

  void EndClock(Job* job) {
    const Job::Work work = job->work;
    const TaskId task = job->task;
    const std::uint32_t thread = job->flow;
    Retire(job);
    free_jobs_.push_back(job);
    if (work == Job::Work::kAssignment) {
      AssignThreads();
    } else if (work == Job::Work::kDispatch) {
      for (const TaskId member : MembersOfJob(task)) Start(member);
    } else if (work == Job::Work::kClocksFall) {
      FallClocks(thread);
    } else if (work == Job::Work::kHandoff) {
      Arrive(task);
    } else if (work == Job::Work::kMeeting) {
      for (const TaskId member : MembersOfJob(task)) Start(member);
    } else if (work == Job::Work::kTurns) {
      GrantTurns();
    } else {
      threads_->Wake(thread);
      RequestAssignment();
    }
    FinishTasks();
  }

  void FreeThread(TaskId id) {
    threads_->EndJob(thread_of_task_[id]);
    RequestAssignment();
  }

  void Start(TaskId id) {
    record_.start_ps[id] = Now();
    const TaskCost& cost = CostOf(id);
    Computation& computation = computations_[SlotOf(id)];
    computation = {costs_.cost_of_task[id], cost.segment_begin,
                   cost.segment_begin + cost.segment_count, 0};
    const KernelTurn turn = TurnOf(id);
    if (turn == KernelTurn::kNever) return Begin(id);
    turn_of_task_[id] = turn;
    const Task& task = graph_.tasks[id];
    turns_->Ask(task.rank, id, task.kind == TaskKind::kCompute);
    RequestTurns();
  }

  // Its kernel, if it has one, has its turn.
  void Begin(TaskId id) {
    const Task& task = graph_.tasks[id];
    ranks_[task.rank].running[static_cast<std::size_t>(task.lane)] = id;
    const TaskCost& cost = CostOf(id);
    Count(task, 1);
    if (cost.fixed_ps == 0) return StartFlows(id);
    if (cost.segment_count > 0) {
      if (!StartSegment(id)) StartFlows(id);
    } else {
      StartFixedTime(id, cost);
    }
  }

  // Where the task has a turn, first that.
  void StartFixedTime(TaskId id, const TaskCost& cost) {
    Picoseconds& rest_ps = computations_[SlotOf(id)].rest_ps;
    const bool lets_in =
        takes_turns_ && cost.lets_in_ps > 0 && turn_of_task_[id] == KernelTurn::kWhole;
    rest_ps = lets_in ? cost.fixed_ps - cost.lets_in_ps : 0;
    Spend(id, cost.fixed_ps - rest_ps);
  }

  // The next member of a fused computation that takes time; false when none is left.
  bool StartSegment(TaskId id) {
    Computation& computation = computations_[SlotOf(id)];
    while (computation.segment < computation.segment_end) {
      computation.cost = costs_.segments[computation.segment++];
      if (costs_.costs[computation.cost].fixed_ps == 0) continue;
      StartFixedTime(id, costs_.costs[computation.cost]);
      return true;
    }
    return false;
  }

  void Spend(TaskId id, Picoseconds fixed_ps) {
    s4u::Host* host = hosts_[SlotOf(id)];
    host->set_pstate(SpeedIndex(id));
    StartWork(NewJobOfLane(Job::Work::kFixedTime, id), host, static_cast<double>(fixed_ps));
  }

  static void StartWork(Job* job, s4u::Host* host, double flops) {
    s4u::ExecPtr exec = s4u::Exec::init();
    exec->set_flops_amount(flops);
    exec->set_host(host);
    exec->set_data(job);
    job->activity = exec;
    exec->start();
  }

  void StartFlows(TaskId id) {
    const TaskCost& cost = CostOf(id);
    for (std::uint32_t i = 0; i < cost.flow_count; ++i) {
      const std::uint32_t flow = cost.flow_begin + i;
      if (costs_.flows[flow].bytes == 0) continue;
      Job* job = NewJobOfLane(Job::Work::kFlow, id);
      job->flow = flow;
      CountCopies(job, /*begins=*/true);
      StartFlow(job, static_cast<double>(costs_.flows[flow].bytes) * kUnitsPerByte);
    }
    if (open_[id] == 0) EndTask(id);
  }

  // A flow that progresses at 1/s of its fair rate is one of s times the bytes.
  void StartFlow(Job* job, double units) {
    const auto& [from, to] = ends_of_flow_[job->flow];
    job->slow_down = FlowSlowDown(job->task);
    s4u::CommPtr comm = s4u::Comm::sendto_init();
    comm->set_payload_size(static_cast<std::uint64_t>(std::llround(units * job->slow_down)));
    comm->set_source(from);
    comm->set_data(job);
    job->activity = comm;
    comm->set_destination(to);  // Which starts it.
  }

  // GPUs of a host that copy, and so what each of them gets at most.
  void CountCopies(Job* job, bool begins) {
    const Flow& flow = costs_.flows[job->flow];
    if (flow.host == kNone || hosts_of_copies_.empty()) return;
    HostOfCopies& host = hosts_of_copies_[flow.host];
    std::uint32_t& gpus = flow.to_gpu ? host.up : host.down;
    std::vector<Job*>& jobs = flow.to_gpu ? host.h2d : host.d2h;
    if (begins) {
      gpus += flow.host_gpus;
    } else {
      gpus -= flow.host_gpus;
      std::erase(jobs, job);
    }
    const HostCopyRates& rates = costs_.host_copies;
    const std::size_t state = rates.StateOf(host.up, host.down);
    SetLimit(host.h2d_limit, rates.h2d_bytes_per_s[state], host.h2d);
    SetLimit(host.d2h_limit, rates.d2h_bytes_per_s[state], host.d2h);
    if (begins) jobs.push_back(job);
  }

  // SimGrid 3.32 forgets all but the first of the flows on a FATPIPE whose bandwidth grows: those
  // under way begin anew.
  void SetLimit(s4u::Link* limit, double bytes_per_s, const std::vector<Job*>& jobs) {
    const double units_per_s = std::min(bytes_per_s, kMaxRate) * kUnitsPerByte;
    if (limit == nullptr || limit->get_bandwidth() == units_per_s) return;
    limit->set_bandwidth(units_per_s);
    for (Job* job : jobs) Restart(job);
  }

  void EndJob(Job* job) {
    ++ends_;
    const TaskId id = job->task;
    if (job->work != Job::Work::kFixedTime && job->work != Job::Work::kFlow) return EndClock(job);
    std::vector<Job*>& jobs = jobs_of_slot_[SlotOf(id)];
    jobs.erase(std::find(jobs.begin(), jobs.end(), job));
    const bool was_fixed_time = job->work == Job::Work::kFixedTime;
    if (!was_fixed_time) CountCopies(job, /*begins=*/false);
    Retire(job);
    free_jobs_.push_back(job);
    --open_[id];
    if (was_fixed_time) {
      if (takes_turns_ && turn_of_task_[id] == KernelTurn::kBegins) EndTurn(id);
      Picoseconds& rest_ps = computations_[SlotOf(id)].rest_ps;
      if (rest_ps > 0) {
        EndTurn(id);
        Spend(id, std::exchange(rest_ps, 0));
        return FinishTasks();
      }
      if (!YieldTurn(id) && !StartSegment(id)) StartFlows(id);
    } else if (open_[id] == 0) {
      EndTask(id);
    }
    FinishTasks();
  }

  // SimGrid still works on an activity that ends, and on one that was cancelled until time has
  // moved on once: they are dropped after the second step of time.
  void Retire(Job* job) { retired_.push_back(std::move(job->activity)); }

  void EndTask(TaskId id) {
    EndTurn(id);
    const RendezvousId rendezvous = graph_.tasks[id].rendezvous;
    if (rendezvous == kNone) {
      finished_.push_back(id);
      if (HasWorkers()) FreeThread(id);
    } else if (++finished_members_[rendezvous] == topology_.Members(rendezvous).size()) {
      for (const TaskId member : topology_.Members(rendezvous)) finished_.push_back(member);
      if (HasWorkers()) FreeThread(id);
    }
  }

  void FinishTasks() {
    if (finishing_) return;
    finishing_ = true;
    for (std::size_t i = 0; i < finished_.size(); ++i) {
      const TaskId id = finished_[i];
      record_.end_ps[id] = Now();
      const Task& task = graph_.tasks[id];
      TaskId& running = ranks_[task.rank].running[static_cast<std::size_t>(task.lane)];
      if (running == id) running = kNone;
      for (const TaskId next : graph_.Successors(id)) {
        if (costs_.handoff_ps > 0 && graph_.tasks[next].lane != task.lane) {
          handed_over_[next] =
              std::max(handed_over_[next], ClockNow() + static_cast<double>(costs_.handoff_ps));
        }
        Release(next);
      }
      if (topology_.next_in_lane[id] != kNone) Release(topology_.next_in_lane[id]);
      // Last, so that a rank whose next task starts at once does not change its state twice.
      Count(task, -1);
    }
    finished_.clear();
    finishing_ = false;
  }

  void Release(TaskId id) {
    if (--record_.pending[id] == 0) MakeReady(id);
  }

  static ClockUse ClockUseOf(const Rank& rank) {
    return twinstep::ClockUseOf(rank.computing > 0, rank.communicating > 0);
  }

  // The rank may have begun to compute or to rest; `was` says what it did before.
  void TurnClocks(RankId id, ClockUse was) {
    Rank& rank = ranks_[id];
    const ClockUse use = ClockUseOf(rank);
    if (costs_.clocks.boost_ps == 0 || use == was) return;
    Account(rank, was, ClockNow());
    if (use == ClockUse::kComputes && rank.boost_left_ps > 0) SetTimer(id, rank.boost_left_ps);
  }

  void SetTimer(RankId id, double after_ps) {
    Job* job = NewJob(Job::Work::kClocksFall, kNone);
    job->flow = id;
    StartWork(job, clocks_[id], after_ps);
  }

  // What has been saved or spent since the rank does what `use` says.
  void Account(Rank& rank, ClockUse use, double now_ps) const {
    const double elapsed_ps = now_ps - std::exchange(rank.since_ps, now_ps);
    const double change_ps = use == ClockUse::kComputes ? -elapsed_ps
                             : use == ClockUse::kRests  ? costs_.clocks.boost_per_rest * elapsed_ps
                                                        : 0;
    const auto most_ps = static_cast<double>(costs_.clocks.boost_ps);
    rank.boost_left_ps = std::clamp(rank.boost_left_ps + change_ps, 0.0, most_ps);
    if (rank.boost_left_ps < kNothing) rank.boost_left_ps = 0;
  }

  // A timer is not moved while its rank does not compute.
  void FallClocks(RankId id) {
    Rank& rank = ranks_[id];
    if (rank.computing == 0 || rank.boost_left_ps <= 0) return;
    const double left_ps = rank.since_ps + rank.boost_left_ps - ClockNow();
    if (left_ps > kNothing) return SetTimer(id, left_ps);
    Account(rank, ClockUse::kComputes, ClockNow());
    rank.boost_left_ps = 0;
    for (const TaskId task : rank.running) {
      if (task != kNone) ChangeSpeed(task);
    }
  }

  static double ClockNow() { return s4u::Engine::get_clock() * 1e12; }

  // Counts a task that starts or ends, and gives new speeds where that changes the rank's state.
  void Count(const Task& task, int change) {
    Rank& rank = ranks_[task.rank];
    int& count = task.kind == TaskKind::kCompute ? rank.computing
                 : task.kind == TaskKind::kH2D   ? rank.h2d
                 : task.kind == TaskKind::kD2H   ? rank.d2h
                 : task.kind == TaskKind::kHost  ? rank.on_host
                                                 : rank.communicating;
    const bool was_running = count > 0;
    const ClockUse was = ClockUseOf(rank);
    count += change;
    TurnClocks(task.rank, was);
    if (was_running == (count > 0)) return;
    for (const TaskId id : rank.running) {
      if (id != kNone) ChangeSpeed(id);
    }
  }

  void ChangeSpeed(TaskId id) {
    const std::vector<Job*> jobs = jobs_of_slot_[SlotOf(id)];
    for (Job* job : jobs) {
      if (job->work == Job::Work::kFixedTime) {
        s4u::Host* host = hosts_[SlotOf(id)];
        if (host->get_pstate() != SpeedIndex(id)) host->set_pstate(SpeedIndex(id));
        continue;
      }
      if (job->slow_down != FlowSlowDown(id)) Restart(job);
    }
  }

  void Restart(Job* job) {
    const double units = job->activity->get_remaining() / job->slow_down;
    if (units < kNothing * kUnitsPerByte) return;
    job->activity->set_data(nullptr);
    // A cancelled communication holds its bandwidth until the next step of time, a suspended one
    // does not.
    job->activity->suspend();
    job->activity->cancel();
    Retire(job);
    StartFlow(job, units);
  }

  std::size_t SpeedIndex(TaskId id) const {
    const std::size_t first = first_slow_down_[computations_[SlotOf(id)].cost];
    if (HasWorkers()) return first + std::max<std::size_t>(busy_threads_, 1) - 1;
    const Task& task = graph_.tasks[id];
    const Rank& rank = ranks_[task.rank];
    // The first list may be another task's, but all begin with full speed.
    if (task.kind != TaskKind::kCompute) return first;
    return first + (rank.h2d > 0 ? 1u : 0u) + (rank.d2h > 0 ? 2u : 0u) +
           (rank.communicating > 0 ? 4u : 0u) + (rank.boost_left_ps > 0 ? 8u : 0u);
  }

  double FlowSlowDown(TaskId id) const {
    const Task& task = graph_.tasks[id];
    const Rank& rank = ranks_[task.rank];
    if (task.kind == TaskKind::kCompute || HasWorkers()) return slow_downs_[SpeedIndex(id)];
    const RankWork beside{.compute = rank.computing > 0,
                          .h2d = rank.h2d > 0,
                          .d2h = rank.d2h > 0,
                          .host = rank.on_host > 0};
    if (IsCopy(task.kind)) {
      return CopySlowdown(costs_.interference, task.kind == TaskKind::kH2D, beside);
    }
    if (!IsCommunication(task.kind)) return 1;
    return CommunicationSlowdown(CostOf(id), costs_.interference, beside);
  }

  const TaskGraph& graph_;
  const GraphCosts& costs_;
  const Topology& topology_;
  SimgridRecord record_;
  std::unique_ptr<s4u::Engine> engine_;
  std::vector<Rank> ranks_;
  std::optional<LaneThreads> threads_;
  std::optional<WakeDelay> wake_delay_;
  std::vector<std::uint32_t> thread_of_task_;
  std::vector<s4u::Host*> clocks_;  // One a thread, and one more; or one a rank.
  bool assignment_is_due_ = false;
  bool takes_turns_ = false, turns_are_due_ = false;
  std::uint64_t ends_ = 0, ends_at_request_ = 0;  // Of jobs.
  std::optional<KernelTurns> turns_;
  std::vector<KernelTurn> turn_of_task_;  // That it has, or waits for.
  std::vector<double> handed_over_;       // By task, in ps: other lanes' part of when it can begin.
  std::size_t busy_threads_ = 0;          // As the speeds have it.
  std::vector<double> slow_downs_;        // By state of the rank, or one a busy thread.
  std::vector<std::size_t> first_slow_down_;  // By cost, into slow_downs_.
  std::vector<std::vector<Job*>> jobs_of_slot_;
  std::vector<Computation> computations_;  // By slot.
  std::vector<s4u::Host*> hosts_;          // By slot.
  std::vector<std::pair<s4u::Host*, s4u::Host*>> ends_of_flow_;
  std::vector<HostOfCopies> hosts_of_copies_;
  std::vector<std::uint32_t> open_;              // By task: jobs that go on.
  std::vector<std::uint32_t> missing_;           // By rendezvous: tasks that are not ready.
  std::vector<std::uint32_t> finished_members_;  // By rendezvous: tasks that are done.
  std::deque<Job> jobs_;
  std::vector<Job*> free_jobs_;
  std::vector<s4u::ActivityPtr> retired_, long_retired_;
  std::vector<TaskId> finished_;
  bool finishing_ = false;
};

}  // namespace

Result<std::vector<std::uint32_t>> LinkScales(const GraphCosts& costs) {
  constexpr std::uint32_t kLargest = 64;
  std::vector<std::uint32_t> scales(costs.links.size(), 1);
  // Raising a scale keeps whole what was whole only in multiples: try each from the least.
  std::vector<std::vector<double>> multiplicities(costs.links.size());
  for (const RouteHop& hop : costs.hops) {
    std::vector<double>& known = multiplicities[hop.link];
    if (std::find(known.begin(), known.end(), hop.multiplicity) == known.end()) {
      known.push_back(hop.multiplicity);
    }
  }
  for (std::size_t link = 0; link < scales.size(); ++link) {
    const auto whole = [&](double multiplicity) {
      const double scaled = multiplicity * scales[link];
      return std::abs(scaled - std::nearbyint(scaled)) <= 1e-9 * scaled;
    };
    const std::vector<double>& all = multiplicities[link];
    while (!std::all_of(all.begin(), all.end(), whole)) {
      if (++scales[link] > kLargest) {
        return Error{.message = StrCat("link ", link, ": the simgrid engine needs multiplicities ",
                                       "that are fractions of denominator up to ", kLargest)};
      }
    }
  }
  return scales;
}

SimgridRecord ReplayInSimgrid(const TaskGraph& graph, const GraphCosts& costs,
                              const Topology& topology, std::vector<std::uint32_t> pending,
                              const std::vector<std::uint32_t>& link_scales) {
  return SimgridReplay(graph, costs, topology, std::move(pending), link_scales).Run();
}

}  // namespace twinstep
