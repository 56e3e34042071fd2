#include "sim/estimate/layer_activations.h"

#include "sim/estimate/model_size.h"

namespace twinstep {
namespace {

// How tensor parallelism treats a tensor. Sequence parallelism shards what it otherwise replicates.
enum class Sharding { kReplicated, kSharded };

// What a policy may leave out.
enum class Rebuilt { kNever, kBalanced, kSelective };

class Layer {
 public:
  Layer(const Model& model, const ResolvedPlan& plan) : plan_(plan) {
    tokens_ = static_cast<double>(plan.b) * static_cast<double>(plan.sequence_length) /
              static_cast<double>(plan.c);
    element_ = static_cast<double>(ElementBytes(model.recipe()));
  }

  // `features` elements of `bytes` a token; 0 bytes = the model's element.
  void Store(const char* name, double features, Sharding sharding, Rebuilt rebuilt,
             double bytes = 0) {
    const bool dropped = (plan_.recompute == RECOMPUTE_BALANCED && rebuilt == Rebuilt::kBalanced) ||
                         (plan_.recompute == RECOMPUTE_SELECTIVE && rebuilt == Rebuilt::kSelective);
    if (dropped || features == 0) return;
    const bool divided = sharding == Sharding::kSharded || plan_.sequence_parallel;
    const double parts = divided ? static_cast<double>(plan_.t) : 1;
    stored_.push_back({name, features * (bytes > 0 ? bytes : element_) * tokens_ / parts});
  }

  std::vector<StoredTensor> Take() { return std::move(stored_); }

 private:
  const ResolvedPlan& plan_;
  double tokens_, element_;
  std::vector<StoredTensor> stored_;
};

constexpr double kMaskBytes = 1;

void StoreAttention(const Model& model, const ResolvedPlan& plan, Layer* layer) {
  const double h = static_cast<double>(model.hidden_size());
  const double width = static_cast<double>(AttentionWidth(model));
  const double kv = 2 * static_cast<double>(KvHeads(model) * HeadDim(model));
  layer->Store("norm 1 input", h, Sharding::kReplicated, Rebuilt::kNever);
  layer->Store("qkv input", h, Sharding::kReplicated, Rebuilt::kBalanced);
  layer->Store("query", width, Sharding::kSharded, Rebuilt::kNever);
  layer->Store("key and value", kv, Sharding::kSharded, Rebuilt::kNever);
  if (plan.attention == ATTENTION_UNFUSED) {
    // A row of the scores a head and token: 2 a s (softmax), + 3 a s with dropout.
    const double scores =
        static_cast<double>(model.attention_heads()) * static_cast<double>(plan.sequence_length);
    layer->Store("softmax output", scores, Sharding::kSharded, Rebuilt::kSelective);
    if (model.recipe().attention_dropout() > 0) {
      layer->Store("attention dropout mask", scores, Sharding::kSharded, Rebuilt::kSelective,
                   kMaskBytes);
      layer->Store("attention dropout output", scores, Sharding::kSharded, Rebuilt::kSelective);
    }
  }
  layer->Store("attention output", width, Sharding::kSharded, Rebuilt::kNever);
  if (model.recipe().hidden_dropout() > 0) {
    layer->Store("dropout mask 1", h, Sharding::kReplicated, Rebuilt::kNever, kMaskBytes);
  }
}

void StoreMlp(const Model& model, Layer* layer) {
  const double h = static_cast<double>(model.hidden_size());
  const double ffn = static_cast<double>(model.ffn_hidden_size());
  layer->Store("norm 2 input", h, Sharding::kReplicated, Rebuilt::kNever);
  layer->Store("mlp input", h, Sharding::kReplicated, Rebuilt::kBalanced);
  if (model.family() == LLAMA) {
    layer->Store("gate", ffn, Sharding::kSharded, Rebuilt::kNever);
    layer->Store("silu output", ffn, Sharding::kSharded, Rebuilt::kBalanced);
    layer->Store("up", ffn, Sharding::kSharded, Rebuilt::kNever);
  } else {
    layer->Store("activation input", ffn, Sharding::kSharded, Rebuilt::kNever);
  }
  layer->Store("down input", ffn, Sharding::kSharded, Rebuilt::kBalanced);
  if (model.recipe().hidden_dropout() > 0) {
    layer->Store("dropout mask 2", h, Sharding::kReplicated, Rebuilt::kNever, kMaskBytes);
  }
}

}  // namespace

Result<std::vector<StoredTensor>> StoredTensorsOfLayer(const Model& model,
                                                       const ResolvedPlan& plan) {
  if (plan.recompute == RECOMPUTE_CUSTOM) {
    return Error{.message =
                     "the closed forms know recompute none, selective, balanced and full, "
                     "not RECOMPUTE_CUSTOM"};
  }
  Layer layer(model, plan);
  if (plan.recompute == RECOMPUTE_FULL) {
    layer.Store("layer input", static_cast<double>(model.hidden_size()), Sharding::kReplicated,
                Rebuilt::kNever);
  } else {
    StoreAttention(model, plan, &layer);
    StoreMlp(model, &layer);
  }
  return layer.Take();
}

Result<double> LayerActivationBytes(const Model& model, const ResolvedPlan& plan) {
  const auto stored = StoredTensorsOfLayer(model, plan);
  if (!stored.ok()) return stored.error();
  double sum = 0;
  for (const StoredTensor& tensor : stored.value()) sum += tensor.bytes;
  return sum;
}

}  // namespace twinstep
