// Operations that follow each other on a lane and that one kernel of a GPU computes: fewer bytes
// move. The graph stays as it is: one task of a pair is launched for both, and takes the time of
// both. Which pairs these are is said here, for the backend that launches them and for whoever has
// to know what a task takes, on graphs folded or not.
// (What Fuse() of fuse.h does is no matter of kernels: it makes replays shorter.)
//
//   const FusedPairs pairs = FindFusedPairs(graph, PairRule::kAll);
//   if (pairs.Of(id) == Fusion::kGemmAdd) sum = pairs.partner[id];
#pragma once

#include <cstdint>
#include <vector>

#include "sim/graph/arena.h"
#include "sim/graph/ids.h"
#include "sim/graph/task_graph.h"

namespace twinstep {

// A task's part in its pair.
enum class Fusion : std::uint8_t {
  kAlone,           // Of no pair.
  kWithNext,        // Launched with the next task of its lane.
  kSwiGlu,          // SiLU and the product behind it.
  kSwiGluWithSilu,  // As before, and SiLU's output has other readers.
  kSwiGluBackward,  // Both of their backwards.
  // A product, to which the next task of its lane adds a residual: rounded once, where the two
  // tasks round twice. Launched where the product stands, so that its time counts as a product's.
  kGemmAdd,
  kWithPrevious,  // Launched with the previous task of its lane.
};
inline constexpr int kFusionCount = static_cast<int>(Fusion::kWithPrevious) + 1;

// Its partner's kernel does its work.
inline bool IsLaunchedWithPartner(Fusion fusion) {
  return fusion == Fusion::kWithNext || fusion == Fusion::kWithPrevious;
}

// Which pairs a backend fuses; each has those of the ones before.
enum class PairRule : std::uint8_t {
  kNoPairs,
  kSameBits,  // Those whose numbers are, to the bit, those of the two tasks.
  kAll,
};

struct FusedPairs {
  // By task; empty where nothing is fused.
  std::vector<Fusion> fusion;
  std::vector<TaskId> partner;  // The other of its pair.

  Fusion Of(TaskId id) const { return fusion.empty() ? Fusion::kAlone : fusion[id]; }
};

// A pair is fused only if no other lane waits for its first task, and what that alone writes has no
// reader that is not fused itself. A sum is not written over what the product before it still has
// to read: where the arena's plan may let it, that is made and looked at. `arena` is the graph's
// plan if there is one already: the same pairs, sooner.
FusedPairs FindFusedPairs(const TaskGraph& graph, PairRule rule, const ArenaPlan* arena = nullptr);

}  // namespace twinstep
