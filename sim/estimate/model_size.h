// Sizes of a model as the papers count them: matrices only, no norms, no biases, no padding of the
// vocabulary (Yuan et al., ATC 2024). The lowering counts every tensor.
#pragma once

#include <cstdint>

#include "model_zoo/model.pb.h"

namespace twinstep {

std::int64_t KvHeads(const Model& model);         // Its default written out.
std::int64_t HeadDim(const Model& model);         // Likewise.
std::int64_t AttentionWidth(const Model& model);  // Heads x head size: h in most models.

// W, eq 1: (2 + 2 g/a) h^2 + 3 h H for gated MLPs, + 2 h H for the GPT family's.
std::int64_t LayerParameters(const Model& model);

// L W and the embedding, and the head where it is no transposed embedding.
std::int64_t TotalParameters(const Model& model);

// Bytes of one element of weights and activations.
std::int64_t ElementBytes(const Recipe& recipe);

// Bytes of model states a parameter: weight + gradient + Adam (M8.4: 2 + 2 + 12, Kuaishou and
// Megatron 2 + 4 + 12; fp32 and fp64 weights are their own master copies).
std::int64_t WeightBytes(const Recipe& recipe);
std::int64_t GradientBytes(const Recipe& recipe);
std::int64_t OptimizerBytes(const Recipe& recipe);

}  // namespace twinstep
