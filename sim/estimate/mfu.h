// Model FLOPs: what training must compute, whatever the plan does (Yuan et al., ATC 2024;
// Korthikanti et al. 2022).
//
//   Mfu(model, 8192, 387, 989e12)  -> 0.432  // Llama-175B, tokens a second and GPU, H800.
#pragma once

#include <cstdint>

#include "hw_specs/cluster.pb.h"
#include "model_zoo/model.pb.h"

namespace twinstep {

// 6 (L W + V h) + 6 L h s: 6 FLOPs a weight and token with the head and without the embedding,
// causal attention counted once, recomputation not at all.
double ModelFlopsPerToken(const Model& model, std::int64_t sequence_length);

// Model FLOPs utilisation of one GPU whose peak is `peak_flops_per_s`, 0 .. 1.
double Mfu(const Model& model, std::int64_t sequence_length, double tokens_per_s_per_gpu,
           double peak_flops_per_s);

// Dense peak of a GPU at the precision of the recipe.
double PeakFlopsPerSecond(const Recipe& recipe, const Gpu& gpu);

// Narayanan et al., SC 2021: FLOPs of one step of the GPT family, attention not halved;
// 72 B s l h^2 (1 + s/(6h) + V/(12 l h)), and a third more of the layers' with full recompute.
double MegatronFlopsPerStep(const Model& model, std::int64_t global_batch,
                            std::int64_t sequence_length, bool full_recompute);

}  // namespace twinstep
