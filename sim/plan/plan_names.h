// The words for a plan's choices on the command line, in reports and in JSON.
#pragma once

#include <string>
#include <vector>

#include "sim/plan/plan.pb.h"

namespace twinstep {

// One choice of an enumeration: "1f1b" is ONE_F_ONE_B.
template <typename Enum>
struct Choice {
  const char* name;
  Enum value;
};

const std::vector<Choice<Schedule>>& Choices(Schedule);
const std::vector<Choice<TensorParallelOverlap>>& Choices(TensorParallelOverlap);
const std::vector<Choice<Recompute>>& Choices(Recompute);
const std::vector<Choice<AttentionKernel>>& Choices(AttentionKernel);
const std::vector<Choice<BlockActivations>>& Choices(BlockActivations);

// The word for a value; "default" where it stands for the plan's default.
template <typename Enum>
std::string WordFor(Enum value) {
  for (const Choice<Enum>& choice : Choices(value)) {
    if (choice.value == value) return choice.name;
  }
  return "default";
}

}  // namespace twinstep
