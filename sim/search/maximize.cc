#include "sim/search/maximize.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "sim/estimate/model_size.h"
#include "sim/format.h"
#include "sim/parallel.h"
#include "sim/search/candidates.h"
#include "sim/search/plan_replay.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

// So many plans are placed side by side.
constexpr std::size_t kBatch = 4;
constexpr std::int64_t kMostSequences = std::int64_t{1} << 20;

void SetBatch(std::int64_t sequences, RankProblem* problem) {
  problem->axes.global_batch = {sequences};
  problem->chunk_axes.global_batch = {sequences};
}

void Set(std::int64_t value, std::int64_t gpus, RankProblem* problem) {
  if (problem->maximize == Maximize::kLayers) {
    problem->input.model.set_layers(value);
    if (!problem->HasBatch()) SetBatch(gpus, problem);
  } else {
    SetBatch(value * gpus, problem);
    problem->input.plan.set_micro_batch(value);
  }
}

class Maximizer {
 public:
  Maximizer(const RankProblem& problem, std::int64_t gpus, Progress* progress)
      : problem_(problem),
        gpus_(gpus),
        progress_(progress),
        probed_(problem),
        estimator_(probed_.input, problem.threads) {
    probed_.chunk_axes.least_memory = true;
  }

  Result<Maximum> Run() {
    most_.of = problem_.maximize;
    const Status found = problem_.maximize == Maximize::kLayers ? FindLayers() : FindBatch();
    if (!found.ok()) return found.error();
    if (most_.of == Maximize::kLayers) {
      Model model = problem_.input.model;
      model.set_layers(most_.value);
      most_.parameters = TotalParameters(model);
    } else {
      most_.parameters = TotalParameters(problem_.input.model);
    }
    return std::move(most_);
  }

 private:
  Status FindLayers() {
    most_.bound = LayersInAllMemory();
    most_.limit.rule = "memory";
    most_.limit.message = StrCat("the states of ", CountOf(most_.bound + 1, "layer"),
                                 " are more than all memory together");
    std::int64_t layers = std::min(most_.bound, kMostLayers);
    if (most_.bound > kMostLayers) most_.limit = Error{};
    for (; layers > 0; --layers) {
      const Result<bool> fits = Fits(layers);
      if (!fits.ok()) return fits.error();
      if (fits.value()) break;
    }
    most_.value = layers;
    return Unit{};
  }

  // Doubled until none fits, then halved. What does not fit says why.
  Status FindBatch() {
    std::int64_t fitting = 0, too_many = 1;
    for (;; too_many *= 2) {
      if (too_many > kMostSequences) {
        most_.value = fitting;
        most_.limit = Error{};
        return Unit{};
      }
      const Result<bool> fits = Fits(too_many);
      if (!fits.ok()) return fits.error();
      if (!fits.value()) break;
      fitting = too_many;
    }
    while (too_many - fitting > 1) {
      const std::int64_t middle = fitting + (too_many - fitting) / 2;
      const Result<bool> fits = Fits(middle);
      if (!fits.ok()) return fits.error();
      (fits.value() ? fitting : too_many) = middle;
    }
    most_.value = fitting;
    return Unit{};
  }

  // Weights and optimizer state are somewhere at least once; where nothing streams, on the GPUs,
  // and gradients beside them.
  std::int64_t LayersInAllMemory() const {
    const SimulateInput& input = problem_.input;
    const std::int64_t node_gpus = input.cluster.node().gpus();
    double bytes =
        static_cast<double>(gpus_) * static_cast<double>(input.gpu_memory_capacity_bytes);
    std::int64_t parameter_bytes =
        WeightBytes(input.model.recipe()) + OptimizerBytes(input.model.recipe());
    if (problem_.chunks) {
      const std::int64_t nodes = (gpus_ + node_gpus - 1) / node_gpus;
      bytes += static_cast<double>(nodes) * static_cast<double>(input.host_memory_budget_bytes);
    } else {
      parameter_bytes += GradientBytes(input.model.recipe());
    }
    Model one = input.model;
    one.set_layers(1);
    const std::int64_t layer = LayerParameters(one);
    const double parameters = bytes / static_cast<double>(parameter_bytes);
    const double layers = (parameters - static_cast<double>(TotalParameters(one) - layer)) /
                          static_cast<double>(layer);
    return static_cast<std::int64_t>(std::clamp(layers, 0.0, 1e9));
  }

  // Whether some plan does; if not, the limit is what the one lacks that lacks least.
  Result<bool> Fits(std::int64_t value) {
    Set(value, gpus_, &probed_);
    Tell(value);
    Result<Candidates> candidates = FindCandidates(probed_, gpus_, &estimator_);
    if (!candidates.ok()) return candidates.error();
    const auto& [space, estimates] = candidates.value();
    Error lacking = NoPlan(space, value);
    const auto add = [&lacking](const Error& error) {
      const bool less = lacking.excess_bytes == 0 || error.excess_bytes < lacking.excess_bytes;
      if (error.excess_bytes > 0 && less) lacking = error;
    };
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < estimates.size(); ++i) {
      if (estimates[i].infeasible) {
        add(*estimates[i].infeasible);
      } else {
        open.push_back(i);
      }
    }
    std::stable_sort(open.begin(), open.end(), [&estimates = estimates](auto a, auto b) {
      return estimates[a].expected_s < estimates[b].expected_s;
    });
    for (std::size_t begin = 0; begin < open.size(); begin += kBatch) {
      const std::size_t count = std::min(kBatch, open.size() - begin);
      std::vector<std::optional<Error>> answers(count);
      const auto place = [&, &plans = space.plans](std::size_t i) -> Status {
        Result<std::optional<Error>> answer = WhyNot(plans[open[begin + i]]);
        if (!answer.ok()) return answer.error();
        answers[i] = std::move(answer).value();
        return Unit{};
      };
      const Status placed = ForEachInParallel(count, problem_.threads, place);
      if (!placed.ok()) return placed.error();
      for (const std::optional<Error>& answer : answers) {
        if (!answer) return true;
        add(*answer);
      }
    }
    most_.limit = std::move(lacking);
    return false;
  }

  // Nothing where the plan fits and runs.
  Result<std::optional<Error>> WhyNot(const ResolvedPlan& plan) const {
    const Result<PlanMemory> memory = PlacePlan(probed_.input, plan);
    if (!memory.ok()) return memory.error();
    if (memory.value().infeasible) return memory.value().infeasible;
    const Result<PlanTime> time = TimePlan(probed_.input, plan);
    if (!time.ok()) return time.error();
    return time.value().infeasible;
  }

  static Error NoPlan(const PlanSpace& space, std::int64_t value) {
    Error error{
        .code = ExitCode::kNo, .message = StrCat("no plan divides ", value), .rule = "no-plan"};
    if (space.invalid.empty()) return error;
    error.rule = space.invalid.begin()->first;
    error.message = space.invalid.begin()->second.example;
    return error;
  }

  void Tell(std::int64_t value) {
    if (progress_ == nullptr) return;
    const char* what = problem_.maximize == Maximize::kLayers ? "layer" : "sequence";
    progress_->Tell(StrCat("does a plan of ", CountOf(value, what), " fit?"));
  }

  const RankProblem& problem_;
  const std::int64_t gpus_;
  Progress* progress_;
  RankProblem probed_;
  PlanEstimator estimator_;  // Parts of a pipeline do not depend on the number of layers.
  Maximum most_;
};

}  // namespace

Result<Maximum> FindMaximum(const RankProblem& problem, std::int64_t gpus, Progress* progress) {
  return Maximizer(problem, gpus, progress).Run();
}

RankProblem AtMaximum(const RankProblem& problem, std::int64_t value, std::int64_t gpus) {
  RankProblem at = problem;
  Set(value, gpus, &at);
  return at;
}

}  // namespace twinstep
