// Every plan of the pipeline space: all ways to spread a model over so many GPUs.
//
//   PlanAxes axes;                       // Empty axes: everything that can be.
//   axes.recompute = {RECOMPUTE_NONE, RECOMPUTE_BALANCED, RECOMPUTE_FULL};
//   const PlanSpace space = EnumeratePlans(input, axes, /*gpus=*/256);
//
// A plan is (t, c, p, v, recompute, B) and, where a user asks for several of them, micro-batch,
// ZeRO stage, overlaps and rank order. The data-parallel size follows from the GPUs, layers a stage
// from v, the offload ratio from the memory budget.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/plan/plan.pb.h"
#include "sim/plan/resolved_plan.h"
#include "sim/simulate/simulate_input.h"

namespace twinstep {

// The values of each field that are tried, in increasing order. Empty: for sizes all that divide
// what they must, for the others the base plan's value.
struct PlanAxes {
  std::vector<std::int64_t> tensor, context, pipeline, virtual_stages, micro_batch, global_batch;
  std::vector<Recompute> recompute;
  std::vector<int> zero_stage;
  std::vector<TensorParallelOverlap> tensor_overlap;
  std::vector<bool> data_overlap;
  std::vector<std::string> rank_order;
};

// Plans that a rule excludes.
struct Excluded {
  std::int64_t plans = 0;
  std::string example;  // The message of that which lacks least, of equals the first.
  std::int64_t example_bytes = 0;

  void Add(const std::string& message, std::int64_t bytes, std::int64_t count = 1);
};

struct PlanSpace {
  std::vector<ResolvedPlan> plans;          // Valid ones, without offload; a fixed order.
  std::map<std::string, Excluded> invalid;  // By rule.
};

// `input.plan` holds what all plans share. An Error only where a value is no valid one at all
// (kBadInput).
Result<PlanSpace> EnumeratePlans(const SimulateInput& input, const PlanAxes& axes,
                                 std::int64_t gpus);

// The plan file of a resolved plan: every field written out.
Plan ToPlan(const ResolvedPlan& plan);

// How many layers' blocks have this choice.
std::int64_t CountBlocks(const ResolvedPlan& plan, BlockActivations choice);

// "t 4 c 1 p 8 d 8, v 6 l 2, m 32 x 1, balanced, offload 0.620".
std::string ShortName(const ResolvedPlan& plan);

}  // namespace twinstep
