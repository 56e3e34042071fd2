#include "sim/simulate/effect_check.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <tuple>

#include "sim/format.h"
#include "sim/str_cat.h"
#include "sim/textproto/set_field.h"

namespace twinstep {
namespace {

constexpr std::array<std::string_view, 26> kTried = {"set",
                                                     "framework",
                                                     "profile",
                                                     "precision",
                                                     "clip-norm",
                                                     "dropout",
                                                     "attention-dropout",
                                                     "plan",
                                                     "schedule",
                                                     "rank-order",
                                                     "sequence-parallel",
                                                     "tp-overlap",
                                                     "dp-overlap",
                                                     "zero",
                                                     "attention",
                                                     "recompute",
                                                     "offload-ratio",
                                                     "preset",
                                                     "persist",
                                                     "buffers",
                                                     "chunk-size",
                                                     "optimizer-overlap",
                                                     "swap",
                                                     "checkpoint",
                                                     "swap-interval",
                                                     "blocks"};

bool IsTried(const Option& option) {
  if (std::find(kTried.begin(), kTried.end(), option.name) == kTried.end()) return false;
  if (option.name != "set") return true;
  const Result<FieldValues> field = ParseFieldValues(option.value);
  return field.ok() && field.value().values.size() == 1;
}

bool SamePlan(const ResolvedPlan& a, const ResolvedPlan& b) {
  const auto fields = [](const ResolvedPlan& x) {
    return std::tie(x.gpus, x.t, x.c, x.p, x.d, x.v, x.l, x.m, x.b, x.global_batch,
                    x.sequence_length, x.rank_order, x.schedule, x.sequence_parallel, x.tp_overlap,
                    x.dp_overlap, x.zero_stage, x.recompute, x.stored_tensors, x.attention,
                    x.offload_ratio, x.chunks, x.blocks);
  };
  return fields(a) == fields(b);
}

template <typename Message>
bool SameMessage(const Message& a, const Message& b) {
  return a.SerializeAsString() == b.SerializeAsString();
}

bool SameProfile(const std::optional<Profile>& a, const std::optional<Profile>& b) {
  return a.has_value() == b.has_value() && (!a || SameMessage(*a, *b));
}

std::string Spelled(const Option& option) { return StrCat("--", option.name, " ", option.value); }

class Checker {
 public:
  Checker(const SimulateInput& input, const Simulation& base)
      : input_(input), base_(base), base_results_(*base.report.results) {}

  // A warning, or nothing.
  std::optional<std::string> Check(const Option& option, const Options& without) const {
    const Result<SimulateInput> other = ReadInput(without);
    if (!other.ok()) return std::nullopt;  // Cannot do without it.
    const Result<ResolvedPlan> plan = ResolveForSimulation(other.value());
    if (!plan.ok()) return std::nullopt;
    const bool same_files = SameMessage(input_.model, other.value().model) &&
                            SameMessage(input_.cluster, other.value().cluster) &&
                            SameProfile(input_.profile, other.value().profile);
    if (same_files && SamePlan(base_.report.plan, plan.value())) {
      if (option.name == "set") {
        return StrCat(Spelled(option), " changed nothing: the field has this value already");
      }
      return std::nullopt;  // Spells out a default.
    }
    const Result<Simulation> replayed = Simulate(other.value(), nullptr);
    if (!replayed.ok() || !replayed.value().report.results) return std::nullopt;
    if (!SameAnswer(replayed.value().report)) return std::nullopt;
    return StrCat(Spelled(option),
                  " changed nothing: iteration time and peak memory are the same without it");
  }

 private:
  bool SameAnswer(const Report& other) const {
    return other.results->iteration_s == base_results_.iteration_s &&
           other.results->peak_gpu_bytes == base_results_.peak_gpu_bytes &&
           other.results->host.peak_bytes == base_results_.host.peak_bytes &&
           other.infeasible.has_value() == base_.report.infeasible.has_value();
  }

  const SimulateInput& input_;
  const Simulation& base_;
  const SimulationResults& base_results_;
};

}  // namespace

std::size_t StepsOfEffectCheck(const Options& options) {
  return static_cast<std::size_t>(
      std::count_if(options.given().begin(), options.given().end(), IsTried));
}

std::vector<std::string> OptionsWithoutEffect(const Options& options, const SimulateInput& input,
                                              const Simulation& base, Progress* progress) {
  std::vector<std::string> warnings;
  if (!base.report.results) return warnings;
  const Checker checker(input, base);
  for (std::size_t i = 0; i < options.given().size(); ++i) {
    const Option& option = options.given()[i];
    if (!IsTried(option)) continue;
    if (base.report.results->tasks > kMaxTasksOfEffectCheck) {
      warnings.push_back(StrCat("options were not checked for having an effect: more than ",
                                Count(kMaxTasksOfEffectCheck), " tasks"));
      break;
    }
    if (progress != nullptr) progress->Step(StrCat("does --", option.name, " change anything?"));
    if (auto warning = checker.Check(option, options.Without(i))) {
      warnings.push_back(*std::move(warning));
    }
  }
  return warnings;
}

}  // namespace twinstep
