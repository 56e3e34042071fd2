#include "tests/exec/cuda/gpu_training.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "tests/exec/runtime/small_models.h"

namespace twinstep {

RunOptions OnGpu(const CudaOptions& options) {
  RunOptions run;
  run.make_backend = [options] {
    Result<std::unique_ptr<Backend>> backend = MakeCudaBackend(options);
    if (!backend.ok()) {
      std::fprintf(stderr, "%s\n", backend.error().message.c_str());
      std::abort();
    }
    return std::move(backend).value();
  };
  return run;
}

Trained Train(const Model& model, const Plan& plan, const RunOptions& options, int steps) {
  TrainingRun run(model, plan, options);
  const Status done = run.Train(steps);
  EXPECT_TRUE(done.ok()) << done.error().message;
  return {run.losses(), run.Gather()};
}

double LargestDifference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = a.size() == b.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    // A NaN differs from everything.
    if (!(difference <= largest)) largest = std::isnan(difference) ? INFINITY : difference;
  }
  return largest;
}

std::string Different(const Trained& a, const Trained& b) {
  std::string names;
  if (a.losses != b.losses) names += "losses ";
  if (a.tensors.size() != b.tensors.size()) return "sets of tensors";
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    if (a.tensors[i].data != b.tensors[i].data) names += Describe(a.tensors[i]) + ", ";
  }
  return names;
}

Model LongModel(const std::string& name) {
  Model model = SmallModel(name, BF16);
  model.set_hidden_size(64);
  model.set_max_sequence_length(128);
  return model;
}

Plan LongPlan(std::int64_t p) {
  Plan plan = SmallPlan(1, 1, p, 1);
  plan.set_sequence_length(128);
  plan.set_global_batch(4);
  return plan;
}

}  // namespace twinstep
