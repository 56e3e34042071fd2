#include "sim/estimate/mfu.h"

#include "sim/estimate/model_size.h"

namespace twinstep {
namespace {

double Real(std::int64_t value) { return static_cast<double>(value); }

}  // namespace

double ModelFlopsPerToken(const Model& model, std::int64_t sequence_length) {
  const double weights = Real(model.layers()) * Real(LayerParameters(model)) +
                         Real(model.vocab_size()) * Real(model.hidden_size());
  const double attention =
      Real(model.layers()) * Real(AttentionWidth(model)) * Real(sequence_length);
  return 6 * (weights + attention);
}

double Mfu(const Model& model, std::int64_t sequence_length, double tokens_per_s_per_gpu,
           double peak_flops_per_s) {
  return tokens_per_s_per_gpu * ModelFlopsPerToken(model, sequence_length) / peak_flops_per_s;
}

double PeakFlopsPerSecond(const Recipe& recipe, const Gpu& gpu) {
  switch (recipe.precision()) {
    case FP32:
      return gpu.fp32_flops_per_s();
    case FP64:
      return gpu.fp64_flops_per_s();
    default:
      return gpu.bf16_flops_per_s();
  }
}

double MegatronFlopsPerStep(const Model& model, std::int64_t global_batch,
                            std::int64_t sequence_length, bool full_recompute) {
  const double l = Real(model.layers()), h = Real(model.hidden_size());
  const double s = Real(sequence_length), vocabulary = Real(model.vocab_size());
  const double tokens = Real(global_batch) * s;
  const double passes = full_recompute ? 4 : 3;  // Forward once or twice, backward as two.
  const double layers = 24 * l * h * h * (1 + s / (6 * h));
  const double head = 2 * h * vocabulary;
  return tokens * (passes * layers + 3 * head);
}

}  // namespace twinstep
