// What one layer stores from its forward to its backward, by recompute policy.
//
// Llama family: table 5 of Yuan et al., ATC 2024. GPT family: Korthikanti et al. 2022
//: s b h (34 + 5 a s/h), with its split into what tensor parallelism shards and
// what it does not. Statistics of softmax and norms are left out, as in both papers.
//
//   for (const StoredTensor& t : StoredTensorsOfLayer(model, plan).value()) sum += t.bytes;
#pragma once

#include <string>
#include <vector>

#include "model_zoo/model.pb.h"
#include "sim/plan/resolved_plan.h"
#include "sim/result.h"

namespace twinstep {

struct StoredTensor {
  std::string name;  // "norm1 input", "qkv input", ...
  double bytes;      // Of one micro-batch on one rank.
};

// None and balanced as in Yuan et al., ATC 2024; full stores the layer's input; selective leaves
// out what unfused attention stores between scores and context. RECOMPUTE_CUSTOM is an Error
// (kBadInput): no published closed form knows it.
Result<std::vector<StoredTensor>> StoredTensorsOfLayer(const Model& model,
                                                       const ResolvedPlan& plan);

// Their sum: eq 4 or eq 10 for one layer.
Result<double> LayerActivationBytes(const Model& model, const ResolvedPlan& plan);

}  // namespace twinstep
