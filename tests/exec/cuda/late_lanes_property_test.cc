// Random programs of several ranks and processes, and those of plans, never deadlock with late
// lanes, and each task runs once, when all that it waits for has run.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "exec/cuda/late_lanes.h"
#include "exec/cuda/late_plan.h"
#include "exec/runtime/issue_order.h"
#include "exec/runtime/program.h"
#include "sim/graph/arena.h"
#include "tests/exec/cuda/fake_gpus.h"
#include "tests/exec/cuda/two_gpu_plans.h"
#include "tests/exec/runtime/small_models.h"
#include "tests/exec/runtime/training_run.h"

namespace twinstep::cuda {
namespace {

constexpr auto kLimit = std::chrono::seconds(20);

struct FakeTask {
  std::size_t rank = 0, lane = 0;
  std::uint32_t meeting = kNone;
  std::vector<TaskId> after;  // Of the same rank, issued before.
};

// Tasks in issue order; members of a meeting stand side by side.
struct FakeProgram {
  std::size_t ranks = 1, lanes = 1, processes = 1;
  bool one_thread_a_rank = true;
  std::vector<FakeTask> tasks;
  std::vector<std::size_t> meeting_members;
  // By rank and lane: a stream.
  std::vector<bool> is_late;
  std::vector<std::size_t> queue_of_stream;

  std::size_t ProcessOf(std::size_t rank) const { return rank * processes / ranks; }
  std::size_t StreamOf(TaskId id) const { return tasks[id].rank * lanes + tasks[id].lane; }
  bool IsLate(TaskId id) const { return is_late[StreamOf(id)]; }
  // So many hardware queues a rank.
  void ShareQueues(std::size_t queues) {
    for (std::size_t stream = 0; stream < ranks * lanes; ++stream) {
      queue_of_stream.push_back(stream / lanes * queues + stream % lanes % queues);
    }
  }
};

FakeProgram DrawProgram(std::mt19937_64* random) {
  const auto below = [random](std::size_t n) { return static_cast<std::size_t>((*random)() % n); };
  constexpr std::size_t kFirstLate = 2;  // Lanes before it are eager, lane 1 meets.
  FakeProgram program;
  program.ranks = 1 + below(4);
  program.lanes = 5;
  program.processes = 1 + below(program.ranks);
  program.one_thread_a_rank = below(2) == 0;
  std::vector<std::vector<TaskId>> of_rank(program.ranks);
  const auto add = [&](std::size_t rank, std::size_t lane, std::uint32_t meeting) {
    FakeTask task{.rank = rank, .lane = lane, .meeting = meeting, .after = {}};
    std::vector<TaskId>& before = of_rank[rank];
    // Mostly what came just before, as where few buffers are used again and again.
    for (std::size_t i = below(4); i > 0 && !before.empty(); --i) {
      const std::size_t reach =
          below(4) == 0 ? before.size() : std::min<std::size_t>(6, before.size());
      task.after.push_back(before[before.size() - 1 - below(reach)]);
    }
    before.push_back(static_cast<TaskId>(program.tasks.size()));
    program.tasks.push_back(task);
  };
  for (std::size_t i = 1 + below(80); i > 0; --i) {
    if (below(6) == 0) {
      for (std::size_t rank = 0; rank < program.ranks; ++rank) {
        add(rank, 1, static_cast<std::uint32_t>(program.meeting_members.size()));
      }
      program.meeting_members.push_back(program.ranks);
    } else {
      add(below(program.ranks), below(program.lanes), kNone);
    }
  }
  for (std::size_t stream = 0; stream < program.ranks * program.lanes; ++stream) {
    program.is_late.push_back(stream % program.lanes >= kFirstLate);
  }
  program.ShareQueues(1 + below(program.lanes));
  return program;
}

// How often each task has run, and what was wrong.
class Ledger {
 public:
  explicit Ledger(const FakeProgram& program) : program_(program), runs_(program.tasks.size()) {}

  void Run(TaskId id) {
    const std::lock_guard lock(mutex_);
    ++runs_[id];
    CheckAfter(id, runs_[id], "runs");
  }
  // A late task, which begins when nothing is left to wait for.
  void Launch(TaskId id) {
    const std::lock_guard lock(mutex_);
    CheckAfter(id, runs_[id] + 1, "is launched");
  }
  void Note(const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (problem_.empty()) problem_ = what;
  }
  std::string problem(int iterations) {
    const std::lock_guard lock(mutex_);
    for (TaskId id = 0; id < runs_.size(); ++id) {
      if (problem_.empty() && runs_[id] != iterations) {
        problem_ = "task " + std::to_string(id) + " ran " + std::to_string(runs_[id]) + " times";
      }
    }
    return problem_;
  }

 private:
  void CheckAfter(TaskId id, int run, const char* what) {
    for (const TaskId before : program_.tasks[id].after) {
      if (runs_[before] == run || !problem_.empty()) continue;
      problem_ = "task " + std::to_string(id) + " " + what + " without " + std::to_string(before);
    }
  }

  const FakeProgram& program_;
  std::mutex mutex_;
  std::vector<int> runs_;
  std::string problem_;
};

// A process: dispatches as the CUDA backend does. A task's event has its number.
class Process : private LateDevice {
 public:
  Process(const FakeProgram& program, std::size_t process, FakeGpus* gpus, Ledger* ledger)
      : program_(program), process_(process), gpus_(*gpus), ledger_(*ledger) {
    LateLanes::Sizes sizes{
        .lane_commands = std::vector<std::size_t>(program.ranks * program.lanes, 0),
        .thread_of_lane = std::vector<std::size_t>(program.ranks * program.lanes, 0),
        .events = program.tasks.size()};
    for (TaskId id = 0; id < program.tasks.size(); ++id) {
      if (!IsOwn(id)) continue;
      const std::size_t stream = program.StreamOf(id);
      own_streams_.push_back(stream);
      if (program.one_thread_a_rank) sizes.thread_of_lane[stream] = program.tasks[id].rank;
      if (program.IsLate(id)) sizes.lane_commands[stream] += program.tasks[id].after.size() + 2;
    }
    late_ = std::make_unique<LateLanes>(sizes, static_cast<LateDevice*>(this));
  }

  // False if nothing moves any more.
  bool RunIteration() {
    late_->BeginIteration();
    for (TaskId id = 0; id < program_.tasks.size(); ++id) {
      if (!IsOwn(id)) continue;
      if (program_.IsLate(id)) {
        DispatchLate(id);
      } else if (!DispatchEager(id)) {
        return false;
      }
    }
    if (late_->AwaitDrained(kLimit) != LateLanes::State::kDone) {
      ledger_.Note("process " + std::to_string(process_) + " has late tasks that never begin");
      return false;
    }
    if (gpus_.AwaitIdle(own_streams_, kLimit)) return true;
    ledger_.Note("process " + std::to_string(process_) + " has streams that never end");
    return false;
  }

 private:
  bool IsOwn(TaskId id) const { return program_.ProcessOf(program_.tasks[id].rank) == process_; }

  void DispatchLate(TaskId id) {
    const std::size_t lane = program_.StreamOf(id);
    for (const TaskId before : program_.tasks[id].after) late_->Wait(lane, before, id);
    late_->Launch(lane, id);
    late_->Record(lane, id, id);
  }

  bool DispatchEager(TaskId id) {
    const FakeTask& task = program_.tasks[id];
    const std::size_t stream = program_.StreamOf(id);
    for (const TaskId before : task.after) {
      if (late_->AwaitRecorded(before, kLimit) != LateLanes::State::kDone) {
        ledger_.Note("process " + std::to_string(process_) + " waits for task " +
                     std::to_string(before) + " for ever");
        return false;
      }
      gpus_.Wait(stream, before);
    }
    if (task.meeting == kNone) {
      gpus_.Launch(stream, id);
    } else {
      gpus_.Meet(stream, task.meeting, id);
    }
    gpus_.Record(stream, id);
    return true;
  }

  Status StartThread(std::size_t) override { return Unit{}; }
  Result<bool> Happened(EventId event) override { return gpus_.Happened(event); }
  Status LaunchNow(TaskId id) override {
    ledger_.Launch(id);
    gpus_.Launch(program_.StreamOf(id), id);
    return Unit{};
  }
  Status RecordNow(EventId event, TaskId id) override {
    gpus_.Record(program_.StreamOf(id), event);
    return Unit{};
  }

  const FakeProgram& program_;
  std::size_t process_;
  FakeGpus& gpus_;
  Ledger& ledger_;
  std::vector<std::size_t> own_streams_;
  std::unique_ptr<LateLanes> late_;
};

// What was wrong; empty if nothing.
std::string ProblemOf(const FakeProgram& program, std::uint64_t seed, int iterations) {
  Ledger ledger(program);
  FakeGpus gpus({.queue_of_stream = program.queue_of_stream,
                 .events = program.tasks.size(),
                 .meeting_members = program.meeting_members,
                 .seed = seed},
                [&ledger](TaskId id) { ledger.Run(id); });
  std::vector<std::unique_ptr<Process>> processes;
  for (std::size_t i = 0; i < program.processes; ++i) {
    processes.push_back(std::make_unique<Process>(program, i, &gpus, &ledger));
  }
  {
    std::vector<std::jthread> dispatchers;
    for (const auto& process : processes) {
      dispatchers.emplace_back([&process, iterations] {
        for (int i = 0; i < iterations && process->RunIteration(); ++i) continue;
      });
    }
  }
  return ledger.problem(iterations);
}

RC_GTEST_PROP(LateLanesProperty, RandomProgramsRunToTheirEnd, ()) {
  std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
  const FakeProgram program = DrawProgram(&random);
  RC_ASSERT(ProblemOf(program, random(), /*iterations=*/3) == std::string());
}

// As the executor issues it and the CUDA backend chooses late lanes.
FakeProgram ProgramOf(const Model& model, const Plan& plan) {
  const ResolvedPlan resolved = ResolveOrDie(model, plan);
  const TaskGraph graph = LowerOrDie(model, resolved);
  const ArenaPlan arena = PlanArena(graph);
  const Program real = MakeProgram(graph, arena, resolved).value();
  const IssueOrder order = IssueOrder::Make(real).value();
  FakeProgram program;
  program.ranks = graph.ranks.size();
  program.lanes = kLaneCount;
  const std::vector<std::size_t> thread_of_rank(program.ranks, 0);
  for (const std::size_t commands :
       PlanLateLanes(real, {0, program.ranks}, thread_of_rank).lane_commands) {
    program.is_late.push_back(commands > 0);
  }
  std::vector<TaskId> of_event(real.event_count, kNone);
  for (const TaskId first : order.order()) {
    const RendezvousId rendezvous = graph.tasks[first].rendezvous;
    const std::span<const TaskId> ids =
        rendezvous == kNone ? std::span<const TaskId>(&first, 1) : real.Members(rendezvous);
    for (const TaskId id : ids) {
      FakeTask task{.rank = graph.tasks[id].rank,
                    .lane = static_cast<std::size_t>(graph.tasks[id].lane),
                    .meeting = rendezvous,
                    .after = {}};
      for (const EventId event : real.Waits(id)) task.after.push_back(of_event[event]);
      if (real.event[id] != kNone) {
        of_event[real.event[id]] = static_cast<TaskId>(program.tasks.size());
      }
      program.tasks.push_back(task);
    }
  }
  for (RendezvousId id = 0; id < graph.rendezvous.size(); ++id) {
    program.meeting_members.push_back(real.Members(id).size());
  }
  return program;
}

std::vector<PlanCase> PlansThatCopy() {
  std::vector<PlanCase> plans = TwoGpuPlans();
  plans.push_back({"offload of four stages", [](Plan& plan) {
                     plan.set_pipeline_parallel(4);
                     plan.set_offload_ratio(0.6);
                   }});
  plans.push_back({"chunks, swapped and checkpointed blocks", [](Plan& plan) {
                     plan.set_persistent_chunks(0);
                     plan.set_host_optimizer_overlap(false);
                     plan.set_swapped_blocks(1);
                     plan.set_checkpointed_blocks(1);
                   }});
  return plans;
}

// Gathers of chunks do, and messages that arrive in the place of block inputs still being copied
// away.
TEST(LatePlanTest, TellsWhichRendezvousWaitForCopies) {
  const Model model = SmallModel("llama-gqa", BF16);
  for (const PlanCase& test_case : PlansThatCopy()) {
    SCOPED_TRACE(test_case.label);
    const Plan plan = PlanOf(test_case, SmallPlan(1, 1, 1, 1), /*block_bytes=*/24 << 10);
    const bool copies_inputs = plan.offload_ratio() == 1 && plan.recompute() == RECOMPUTE_FULL;
    EXPECT_EQ(RendezvousWaitForCopies(LowerOrDie(model, ResolveOrDie(model, plan))),
              copies_inputs || (plan.has_persistent_chunks() && plan.data_parallel() > 1));
  }
}

TEST(LateLanesTest, PlansRunToTheirEnd) {
  std::uint64_t seed = 0;
  for (const char* name : {"llama-gqa", "gpt"}) {
    const Model model = SmallModel(name, BF16);
    for (const PlanCase& test_case : PlansThatCopy()) {
      SCOPED_TRACE(std::string(name) + ", " + test_case.label);
      FakeProgram program =
          ProgramOf(model, PlanOf(test_case, SmallPlan(1, 1, 1, 1), /*block_bytes=*/24 << 10));
      for (const FakeTask& task : program.tasks) {
        const auto lane = static_cast<Lane>(task.lane);
        EXPECT_EQ(program.is_late[task.rank * program.lanes + task.lane],
                  lane == Lane::kH2D || lane == Lane::kD2H || lane == Lane::kHost)
            << Name(lane);
      }
      program.processes = 1 + seed % program.ranks;
      program.ShareQueues(1 + seed % 4);
      EXPECT_EQ(ProblemOf(program, seed++, /*iterations=*/1), "");
    }
  }
}

}  // namespace
}  // namespace twinstep::cuda
