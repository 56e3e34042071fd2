#include "tests/exec/runtime/plan_trainer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/exec/runtime/small_models.h"

namespace twinstep {

Plan Edited(Plan plan, const std::function<void(Plan&)>& edit) {
  edit(plan);
  return plan;
}

Model PlanTrainer::ModelOf(const std::string& name) const {
  Model model = SmallModel(name, precision_);
  // With unfused attention too: one mask for both kernels.
  if (name == "gpt-untied") {
    model.mutable_recipe()->set_hidden_dropout(0.1);
    model.mutable_recipe()->set_attention_dropout(0.1);
  }
  return model;
}

const Trained& PlanTrainer::Train(const std::string& model, const Plan& plan, bool poison) {
  std::unique_ptr<Trained>& result = results_[model + " " + plan.ShortDebugString()];
  if (result != nullptr) return *result;
  RunOptions options;
  options.backend.poison = poison;
  TrainingRun run(ModelOf(model), plan, options);
  const Status done = run.Train(kTrainedSteps);
  const auto gathered = GatherLogical(run.model(), run.graph(), run.backend());
  const std::string label = model + " {" + plan.ShortDebugString() + "}: ";
  if (!done.ok()) ADD_FAILURE() << label << done.error().message;
  if (!gathered.ok()) ADD_FAILURE() << label << gathered.error().message;
  result = std::make_unique<Trained>();
  result->losses = run.losses();
  result->losses.resize(kTrainedSteps);
  if (gathered.ok()) result->tensors = gathered.value();
  return *result;
}

std::string BitDifference(const Trained& a, const Trained& b) {
  if (a.losses != b.losses) return "losses";
  if (a.tensors.size() != b.tensors.size()) return "number of tensors";
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    if (a.tensors[i].data != b.tensors[i].data) return Describe(a.tensors[i]);
  }
  return "";
}

std::string Fp64Difference(const Trained& plan, const Trained& plain) {
  for (int step = 0; step < kTrainedSteps; ++step) {
    const auto i = static_cast<std::size_t>(step);
    const double difference = std::fabs(plan.losses[i] - plain.losses[i]);
    if (!(difference <= 1e-12 * std::fabs(plain.losses[i]))) {
      return "loss of step " + std::to_string(step) + ": " + std::to_string(plan.losses[i]) +
             ", off by " + testing::PrintToString(difference);
    }
  }
  if (plan.tensors.size() != plain.tensors.size()) return "number of tensors";
  for (std::size_t k = 0; k < plain.tensors.size(); ++k) {
    const LogicalTensor& a = plan.tensors[k];
    const LogicalTensor& b = plain.tensors[k];
    if (a.state != StateKind::kParameter) continue;
    for (std::int64_t i = 0; i < b.rows * b.columns; ++i) {
      const double difference = std::fabs(a.At(i) - b.At(i));
      if (!(difference <= 1e-9 * std::fabs(b.At(i)) + 1e-6 * kLearningRate * kTrainedSteps)) {
        return Describe(b) + " at " + std::to_string(i) + ": " + std::to_string(b.At(i)) +
               ", off by " + testing::PrintToString(difference);
      }
    }
  }
  return "";
}

}  // namespace twinstep
