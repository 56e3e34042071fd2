// The engine's worker threads are the CPU backend's: the real scheduler, on a clock of our own,
// starts the tasks that the replay says, at the times that it says.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "exec/cpu/lane_scheduler.h"
#include "exec/runtime/program.h"
#include "sim/engine/engine.h"
#include "sim/graph/arena.h"
#include "tests/engine/cost_builder.h"
#include "tests/lower/plan_matrix.h"

namespace twinstep {
namespace {

using Jobs = std::set<TaskId>;  // Each named by its lowest task.

// Threads that are given work stay in it until they are told that its time is over.
class ClockedWorker : public LaneWorker {
 public:
  explicit ClockedWorker(const TaskGraph& graph) {
    for (TaskId id = graph.TaskCount(); id-- > 0;) {
      if (graph.tasks[id].rendezvous != kNone) job_of_meeting_[graph.tasks[id].rendezvous] = id;
    }
  }

  void StartThread(std::size_t) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    states_.push_back("/proc/self/task/" + std::to_string(gettid()) + "/status");
  }
  bool Run(std::uint32_t task, std::size_t) override { return Work(task); }
  bool Meet(std::uint32_t meeting, std::size_t) override {
    return Work(job_of_meeting_.at(meeting));
  }

  void End(TaskId job) {
    const std::lock_guard<std::mutex> lock(mutex_);
    running_.erase(job);
    changed_.notify_all();
  }
  void WaitForTheFirst() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return !running_.empty(); });
  }
  // What runs once every thread is in a job or has found that there is none, and sleeps.
  Jobs Settled() {
    // Asleep twice, and not awake in between.
    for (auto before = Naps();;) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      auto now = Naps();
      if (now && now == before) break;
      before = std::move(now);
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    return running_;
  }
  // No clock from now on.
  void LetGo() {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
  }

 private:
  // How often the threads went to sleep, by the system's books; nothing while one is awake or was
  // woken.
  std::optional<std::vector<std::string>> Naps() const {
    std::vector<std::string> naps;
    for (const std::string& path : states_) {
      std::ifstream file(path);
      for (std::string line; std::getline(file, line);) {
        if (line.starts_with("State:") && line.find('S', 6) == std::string::npos) {
          return std::nullopt;
        }
        if (line.starts_with("voluntary_ctxt_switches:")) naps.push_back(line);
      }
    }
    return naps;
  }

  bool Work(TaskId job) {
    std::unique_lock<std::mutex> lock(mutex_);
    running_.insert(job);
    changed_.notify_all();
    changed_.wait(lock, [this, job] { return is_over_ || !running_.contains(job); });
    return true;
  }

  std::map<RendezvousId, TaskId> job_of_meeting_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Jobs running_;
  std::vector<std::string> states_;  // Files that say what the threads do.
  bool is_over_ = false;
};

// Commands as the executor and the CPU backend push them.
void PushAll(const Program& program, LaneScheduler* scheduler) {
  const TaskGraph& graph = *program.graph;
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    const Task& task = graph.tasks[id];
    const std::size_t lane =
        task.rank * std::size_t{kLaneCount} + static_cast<std::size_t>(task.lane);
    for (const EventId event : program.Waits(id)) {
      scheduler->Push(lane, {LaneCommand::kWait, event, /*round=*/1});
    }
    if (task.rendezvous == kNone) {
      scheduler->Push(lane, {LaneCommand::kRun, id});
    } else {
      scheduler->Push(lane, {LaneCommand::kMeet, task.rendezvous});
    }
    if (program.event[id] != kNone) {
      scheduler->Push(lane, {LaneCommand::kRecord, program.event[id]});
    }
  }
}

LaneScheduler::Sizes SizesOf(const Program& program, int threads) {
  LaneScheduler::Sizes sizes;
  sizes.threads = threads;
  sizes.events = program.event_count;
  sizes.lane_commands.assign(program.graph->ranks.size() * kLaneCount, 0);
  for (RendezvousId id = 0; id < program.graph->rendezvous.size(); ++id) {
    sizes.meeting_members.push_back(static_cast<std::uint32_t>(program.Members(id).size()));
  }
  return sizes;
}

// Each job takes another time, so that no two end at once.
GraphCosts DrawCosts(const TaskGraph& graph, std::uint32_t threads, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  CostBuilder costs(graph);
  std::vector<bool> seen(graph.rendezvous.size(), false);
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    const RendezvousId rendezvous = graph.tasks[id].rendezvous;
    const bool is_first = rendezvous == kNone || !seen[rendezvous];
    if (rendezvous != kNone) seen[rendezvous] = true;
    const auto time = static_cast<Picoseconds>(1'000'000 + random() % 1'000'000'000);
    costs.Set(id, is_first ? time : 0, {});
  }
  costs.workers() = {.threads = threads};
  return costs.costs();
}

struct Moments {
  // By time: jobs that end, and all that run from then on.
  std::map<Picoseconds, std::pair<Jobs, Jobs>> at;

  Moments(const TaskGraph& graph, const Replay& replay) {
    std::vector<bool> seen(graph.rendezvous.size(), false);
    std::map<Picoseconds, Jobs> starts;
    for (TaskId id = 0; id < graph.TaskCount(); ++id) {
      const RendezvousId rendezvous = graph.tasks[id].rendezvous;
      if (rendezvous != kNone) {
        if (seen[rendezvous]) continue;
        seen[rendezvous] = true;
      }
      starts[replay.start_ps[id]].insert(id);
      at[replay.start_ps[id]];
      at[replay.end_ps[id]].first.insert(id);
    }
    Jobs running;
    for (auto& [time, moment] : at) {
      for (const TaskId job : moment.first) running.erase(job);
      for (const TaskId job : starts[time]) running.insert(job);
      moment.second = running;
    }
  }
};

std::string Names(const TaskGraph& graph, const Jobs& jobs) {
  std::string names;
  for (const TaskId job : jobs) names += (names.empty() ? "" : "; ") + graph.TaskName(job);
  return names.empty() ? "nothing" : names;
}

void ExpectSameSchedule(const MatrixCase& test_case, int threads, std::uint64_t seed) {
  const TaskGraph graph = LowerOrDie(test_case.model, test_case.plan, /*fold=*/false);
  const ArenaPlan arena = PlanArena(graph);
  const Result<Program> program = MakeProgram(graph, arena, test_case.plan);
  ASSERT_TRUE(program.ok()) << program.error().message;
  const Result<Replay> replay =
      MakeFastEngine()->Run(graph, DrawCosts(graph, static_cast<std::uint32_t>(threads), seed));
  ASSERT_TRUE(replay.ok()) << replay.error().message;

  ClockedWorker worker(graph);
  LaneScheduler scheduler(SizesOf(program.value(), threads), &worker);
  PushAll(program.value(), &scheduler);
  Outcome outcome = Outcome::kFailed;
  std::thread drain([&] { outcome = scheduler.Drain(std::nullopt, /*stall_limit_s=*/60); });
  worker.WaitForTheFirst();
  for (const auto& [time, moment] : Moments(graph, replay.value()).at) {
    for (const TaskId job : moment.first) worker.End(job);
    const Jobs running = worker.Settled();
    if (running == moment.second) continue;
    ADD_FAILURE() << "at " << time << " of " << replay.value().makespan_ps << " ps there run "
                  << Names(graph, running) << ", should " << Names(graph, moment.second);
    break;
  }
  worker.LetGo();
  drain.join();
  EXPECT_EQ(outcome, Outcome::kDone);
}

// One in twelve of the plans for up to four ranks; all of them agree.
TEST(SchedulerModelTest, TheRealSchedulerStartsWhatTheReplayStarts) {
  std::uint64_t seed = 0;
  for (const MatrixCase& test_case : PlanMatrix()) {
    if (test_case.plan.gpus > 4 || ++seed % 12 != 0) continue;
    const int threads = 1 + static_cast<int>(seed / 12 % 3);
    SCOPED_TRACE(test_case.name + ", threads " + std::to_string(threads));
    ExpectSameSchedule(test_case, threads, seed);
  }
}

}  // namespace
}  // namespace twinstep
