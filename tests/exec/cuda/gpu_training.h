// Trains small models on GPUs and compares what came out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/cuda/cuda_options.h"
#include "model_zoo/model.pb.h"
#include "sim/plan/plan.pb.h"
#include "tests/exec/runtime/training_run.h"

namespace twinstep {

// A run that dies where there is no backend.
RunOptions OnGpu(const CudaOptions& options);

struct Trained {
  std::vector<double> losses;
  std::vector<LogicalTensor> tensors;
};

// A test fails where a step does.
Trained Train(const Model& model, const Plan& plan, const RunOptions& options, int steps);

double LargestDifference(const std::vector<double>& a, const std::vector<double>& b);

// Names of the tensors whose bits differ.
std::string Different(const Trained& a, const Trained& b);

// A model that cuDNN's attention computes: 128 tokens, heads of 16.
Model LongModel(const std::string& name);
// One rank a stage.
Plan LongPlan(std::int64_t p);

}  // namespace twinstep
