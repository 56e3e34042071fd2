#include "sim/options/local_plan.h"

#include <algorithm>
#include <cstdint>

#include "sim/options/chunk_options.h"
#include "sim/options/input_options.h"
#include "sim/options/plan_options.h"
#include "sim/options/read_option.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

// Ranks of one process; their lanes share its threads.
constexpr std::int64_t kMaxRanks = 4096;

// The ranks' sizes of a plan multiply to this; too many are an Error.
Result<std::int64_t> RanksOf(const Plan& plan) {
  std::int64_t ranks = 1;
  for (const std::int64_t size : {plan.tensor_parallel(), plan.context_parallel(),
                                  plan.pipeline_parallel(), plan.data_parallel()}) {
    if (size > kMaxRanks || (ranks *= std::max<std::int64_t>(size, 1)) > kMaxRanks) {
      return Error{.message = StrCat("the plan has more than ", kMaxRanks, " ranks")};
    }
  }
  return ranks;
}

}  // namespace

OptionGroup LocalPlanOptions() {
  OptionGroup group =
      PlanOptions("data-parallel size d (default: 1); t c p d ranks run in this process");
  AppendOptions(ActivationOptions(), &group.options);
  AppendOptions({{"offload-ratio", "R",
                  "share of each activation block that waits in host memory, 0 to 1 (default: 0)"}},
                &group.options);
  AppendOptions(ChunkOptions().options, &group.options);
  return group;
}

Result<ResolvedPlan> ReadLocalPlan(const Options& options, const Model& model, Cluster* cluster) {
  Plan plan;
  PlanRules rules;
  const Status read = FirstError(
      {ReadPlanOptions(options, &plan, &rules),
       ReadReal(options, "offload-ratio", 0, 1, [&plan](double x) { plan.set_offload_ratio(x); })});
  if (!read.ok()) return read.error();
  const Result<std::int64_t> ranks = RanksOf(plan);
  if (!ranks.ok()) return ranks.error();
  cluster->set_nodes(1);
  cluster->mutable_node()->set_gpus(ranks.value());
  return ResolvePlan(model, *cluster, plan, ranks.value(), rules);
}

}  // namespace twinstep
