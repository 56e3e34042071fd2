// Tasks that follow each other on a lane and that one kernel computes: fewer bytes move. The graph
// stays as it is: one task of a pair is launched for both.
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
  // A product, to which the next task of its lane adds a residual: rounded once, where the two
  // tasks round twice. Launched where the product stands, so that its time counts as a product's.
  kGemmAdd,
  kWithPrevious,  // Launched with the previous task of its lane.
};

struct FusedPairs {
  std::vector<Fusion> fusion;   // By task.
  std::vector<TaskId> partner;  // By task: the other of its pair.
};

// A pair is fused only if no other lane waits for its first task, and what that alone writes has no
// reader that is not fused itself. With `same_bits` only if the numbers are those of the two tasks.
FusedPairs FindFusedPairs(const Program& program, bool same_bits);

}  // namespace twinstep::cuda
