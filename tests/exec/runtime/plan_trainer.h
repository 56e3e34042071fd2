// Trains small models by plans, each once, and compares what comes out: to the bit, and against the
// plain plan.
//
//   PlanTrainer trainer(FP64);
//   EXPECT_EQ(Fp64Difference(trainer.Train("gpt", plan), trainer.Train("gpt", plain)), "");
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/exec/runtime/training_run.h"

namespace twinstep {

inline constexpr int kTrainedSteps = 5;

struct Trained {
  std::vector<double> losses;
  std::vector<LogicalTensor> tensors;
};

Plan Edited(Plan plan, const std::function<void(Plan&)>& edit);

class PlanTrainer {
 public:
  explicit PlanTrainer(Precision precision) : precision_(precision) {}

  // With dropout where the name is gpt-untied.
  Model ModelOf(const std::string& name) const;
  // After kTrainedSteps. What goes wrong is a test's failure.
  const Trained& Train(const std::string& model, const Plan& plan, bool poison = false);

 private:
  Precision precision_;
  std::map<std::string, std::unique_ptr<Trained>> results_;
};

// What differs, or nothing.
std::string BitDifference(const Trained& a, const Trained& b);

// Weights (not moments) against the plain plan's, each number by itself: the design's tolerance.
std::string Fp64Difference(const Trained& plan, const Trained& plain);

}  // namespace twinstep
