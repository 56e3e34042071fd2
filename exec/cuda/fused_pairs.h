// Tasks that follow each other on a lane and that one kernel computes: fewer bytes move, the same
// numbers come out. The graph stays as it is: the first of a pair is launched with the second.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/runtime/program.h"
#include "sim/graph/ids.h"

namespace twinstep::cuda {

enum class Fusion : std::uint8_t {
  kNone,
  kWithNext,        // Launched with the next task of its lane.
  kSwiGlu,          // SiLU and the product behind it.
  kSwiGluWithSilu,  // As before, and SiLU's output has other readers.
  kSwiGluBackward,  // Both of their backwards.
};

struct FusedPairs {
  std::vector<Fusion> fusion;  // By task.
  std::vector<TaskId> first;   // By task: of a pair's second, its first.
};

// A pair is fused only if no other lane waits for its first task, and what that alone writes has no
// reader that is not fused itself.
FusedPairs FindFusedPairs(const Program& program);

}  // namespace twinstep::cuda
