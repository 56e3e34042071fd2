// Hand-made task graphs with hand-made times.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sim/engine/engine.h"
#include "sim/graph/task_graph.h"

namespace twinstep::testing {

struct TinyTask {
  OpCode op = OpCode::kAdd;
  TaskKind kind = TaskKind::kCompute;
  Lane lane = Lane::kCompute;
  Phase phase = Phase::kForward;
  std::int64_t dim0 = 0;  // Bytes, for what moves.
  std::uint16_t micro_batch = kNoTag;
  std::uint16_t stage = kNoTag;
  RendezvousId rendezvous = kNone;
  Picoseconds ready_ps = 0, start_ps = 0, end_ps = 0;
};

struct TinyRun {
  TaskGraph graph;
  Replay replay;
};

// Ranks in order, their tasks in issue order, and edges between task ids (lane order not added).
inline TinyRun MakeTinyRun(const std::vector<std::vector<TinyTask>>& ranks,
                           std::vector<std::pair<TaskId, TaskId>> edges = {}) {
  TinyRun run;
  std::uint32_t rendezvous_count = 0;
  run.graph.rank_begin.push_back(0);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    RankInfo info;
    info.global_rank = static_cast<std::uint32_t>(rank);
    info.pp = static_cast<std::uint16_t>(rank);
    run.graph.ranks.push_back(info);
    run.graph.rank_class.push_back(info.global_rank);
    for (const TinyTask& tiny : ranks[rank]) {
      OpShape shape;
      shape.op = tiny.op;
      shape.dims[0] = tiny.dim0;
      Task task;
      task.shape = static_cast<ShapeId>(run.graph.shapes.size());
      task.rank = static_cast<RankId>(rank);
      task.rendezvous = tiny.rendezvous;
      task.kind = tiny.kind;
      task.lane = tiny.lane;
      task.phase = tiny.phase;
      task.micro_batch = tiny.micro_batch;
      task.stage = tiny.stage;
      if (tiny.rendezvous != kNone && tiny.rendezvous >= rendezvous_count) {
        rendezvous_count = tiny.rendezvous + 1;
      }
      run.graph.shapes.push_back(shape);
      run.graph.tasks.push_back(task);
      run.replay.ready_ps.push_back(tiny.ready_ps);
      run.replay.start_ps.push_back(tiny.start_ps);
      run.replay.end_ps.push_back(tiny.end_ps);
      run.replay.makespan_ps = std::max(run.replay.makespan_ps, tiny.end_ps);
    }
    run.graph.rank_begin.push_back(run.graph.TaskCount());
  }
  run.graph.rendezvous.resize(rendezvous_count);
  run.graph.edges = FreezeEdges(run.graph.TaskCount(), edges);
  return run;
}

// Two ranks, one message: rank 0 computes 10, sends 5; rank 1 waits, computes 20, of which 4 are
// recomputed, while a copy of 30 runs, then both reduce gradients and update.
inline TinyRun TwoRankRun() {
  const auto c = [](Phase phase, Picoseconds start, Picoseconds end) {
    return TinyTask{.phase = phase,
                    .micro_batch = 0,
                    .stage = 0,
                    .ready_ps = start,
                    .start_ps = start,
                    .end_ps = end};
  };
  const auto dp = [](Picoseconds ready) {
    return TinyTask{.op = OpCode::kReduceScatter,
                    .kind = TaskKind::kCollective,
                    .lane = Lane::kDp,
                    .phase = Phase::kGradientSync,
                    .dim0 = 4096,
                    .rendezvous = 1,
                    .ready_ps = ready,
                    .start_ps = 45'000,
                    .end_ps = 55'500};
  };
  return MakeTinyRun({{c(Phase::kForward, 0, 10'000),
                       {.op = OpCode::kSend,
                        .kind = TaskKind::kSend,
                        .lane = Lane::kSendFwd,
                        .dim0 = 512,
                        .micro_batch = 0,
                        .stage = 0,
                        .rendezvous = 0,
                        .ready_ps = 10'000,
                        .start_ps = 10'000,
                        .end_ps = 15'000},
                       dp(15'000),
                       c(Phase::kOptimizer, 55'500, 60'000)},
                      {{.op = OpCode::kRecv,
                        .kind = TaskKind::kRecv,
                        .lane = Lane::kRecvFwd,
                        .dim0 = 512,
                        .micro_batch = 0,
                        .stage = 1,
                        .rendezvous = 0,
                        .ready_ps = 0,
                        .start_ps = 10'000,
                        .end_ps = 15'000},
                       c(Phase::kForward, 15'000, 31'000),
                       {.op = OpCode::kCopyD2H,
                        .kind = TaskKind::kD2H,
                        .lane = Lane::kD2H,
                        .dim0 = 2048,
                        .micro_batch = 0,
                        .stage = 1,
                        .ready_ps = 15'000,
                        .start_ps = 15'000,
                        .end_ps = 45'000},
                       c(Phase::kRecompute, 31'000, 35'000),
                       dp(45'000),
                       c(Phase::kOptimizer, 55'500, 60'000)}},
                     {{0, 1}, {1, 2}, {2, 3}, {4, 5}, {4, 6}, {5, 7}, {6, 8}, {7, 8}, {8, 9}});
}

}  // namespace twinstep::testing
