// Models small enough that dozens of plans train in seconds, of both families; every dimension
// splits by 2, the vocabulary by nothing.
#pragma once

#include <string>
#include <vector>

#include "model_zoo/model.pb.h"

namespace twinstep {

// "llama", "llama-gqa" (clips gradients), "llama-tied", "gpt" (tied), "gpt-untied" (ReLU).
Model SmallModel(const std::string& name, Precision precision);
std::vector<std::string> SmallModelNames();

}  // namespace twinstep
