// The transformer layer: attention and MLP with their norms and residual sums.

#include <algorithm>
#include <string>
#include <utility>

#include "sim/lower/block_template.h"
#include "sim/lower/template_builder.h"

namespace twinstep {
namespace {

using GroupKind = Placement::GroupKind;

// Tensors that balanced recompute rebuilds: each costs one memory-bound operation to remake from a
// stored neighbour (Yuan et al., ATC 2024: activations #2, #8, SiLU's and Mul's outputs).
bool BalancedDrops(std::string_view name, bool gated) {
  return name == "norm1_out" || name == "norm2_out" || name == "mlp_act" ||
         (gated && name == "silu");
}

// The quadratic tensors of unfused attention (Korthikanti et al. 2022, selective recompute).
bool SelectiveDrops(std::string_view name) {
  return name == "scores" || name == "probabilities" || name == "attention_mask" ||
         name == "dropped_probabilities";
}

bool Keep(const ResolvedPlan& plan, bool gated, std::string_view name) {
  switch (plan.recompute) {
    case RECOMPUTE_FULL:
      return false;
    case RECOMPUTE_BALANCED:
      return !BalancedDrops(name, gated);
    case RECOMPUTE_SELECTIVE:
      return !SelectiveDrops(name);
    case RECOMPUTE_CUSTOM:
      return std::find(plan.stored_tensors.begin(), plan.stored_tensors.end(), name) !=
             plan.stored_tensors.end();
    default:
      return true;
  }
}

// Builds one layer; members are the forward tensors that the backward comes back to.
class LayerBuilder {
 public:
  explicit LayerBuilder(const TemplateContext& context)
      : b_(context),
        s_(context.shapes),
        n_(s_.tokens),
        ns_(s_.shard_tokens),
        h_(s_.hidden),
        q_width_(s_.heads * s_.head_dim),
        kv_width_(2 * s_.kv_heads * s_.head_dim),
        hidden_dropout_(context.model.recipe().hidden_dropout() > 0),
        attention_dropout_(context.model.recipe().attention_dropout() > 0),
        flash_(context.plan.attention == ATTENTION_FLASH) {}

  BlockTemplate Build() {
    Forward();
    const bool gated = s_.gated;
    const ResolvedPlan plan = b_.plan();
    b_.BeginBackward([plan, gated](std::string_view name) { return Keep(plan, gated, name); });
    if (plan.recompute == RECOMPUTE_FULL) b_.RebuildAll();
    Backward();
    return b_.Finish();
  }

 private:
  void Norm(TensorKind weight, TensorKind bias, TensorId x, TensorId y) {
    TemplateBuilder::Operands reads{{x}, {ParameterId(weight)}};
    if (!s_.rms_norm) reads.push_back({ParameterId(bias)});
    b_.Compute(b_.Shape(OpCode::kNormForward, {ns_, h_}, s_.rms_norm ? unsigned{kRmsNorm} : 0u),
               reads, {{y}});
  }

  void NormBackward(TensorKind weight, TensorKind bias, TensorId dy, TensorId x, TensorId residual,
                    TensorId dx) {
    TemplateBuilder::Operands writes{{GradientId(weight)}};
    if (!s_.rms_norm) writes.push_back({GradientId(bias)});
    TemplateBuilder::Operands reads{{dy}, {b_.Need(x)}, {ParameterId(weight)}, {residual}};
    reads.insert(reads.end(), writes.begin(), writes.end());
    const int gradients = static_cast<int>(writes.size());
    writes.insert(writes.begin(), {dx});
    b_.Compute(
        b_.Shape(OpCode::kNormBackward, {ns_, h_},
                 kHasResidual | kAccumulateGradient | (s_.rms_norm ? unsigned{kRmsNorm} : 0u)),
        reads, writes, gradients);
  }

  static OpShape AtSite(OpShape shape, DropoutSite site) {
    shape.index = static_cast<std::uint16_t>(site);
    return shape;
  }

  // Residual sum, with the row-parallel layer's bias and dropout.
  void ResidualAdd(TensorId z, TensorId residual, TensorKind bias, TensorId y, TensorId mask,
                   DropoutSite site) {
    TemplateBuilder::Operands reads{{z}, {residual}};
    if (s_.bias) reads.push_back({ParameterId(bias)});
    const unsigned flags = s_.bias ? unsigned{kHasBias} : 0u;
    if (hidden_dropout_) {
      b_.Compute(AtSite(b_.Shape(OpCode::kDropoutAdd, {ns_, h_}, flags), site), reads,
                 {{y}, {mask}});
    } else {
      b_.Compute(b_.Shape(OpCode::kAdd, {ns_, h_}, flags), reads, {{y}});
    }
  }

  // Gradient of ResidualAdd's z.
  TensorId ResidualBackward(TensorId dy, TensorId mask, std::string_view name, DropoutSite site) {
    if (!hidden_dropout_) return dy;
    const TensorId dz = b_.NewTensor(name, ns_ * h_);
    b_.Compute(AtSite(b_.Shape(OpCode::kDropoutBackward, {ns_, h_}), site), {{dy}, {b_.Need(mask)}},
               {{dz}});
    return dz;
  }

  OpShape AttentionShape(OpCode op, unsigned flags = 0) const {
    OpShape shape = b_.Shape(
        op, {b_.plan().b, s_.heads, s_.kv_heads, s_.sequence, s_.full_sequence, s_.head_dim},
        flags);
    shape.index = static_cast<std::uint16_t>(b_.context().at.cp);
    shape.count = static_cast<std::uint16_t>(b_.plan().c);
    return shape;
  }

  // Keys and values of the whole sequence.
  TensorId GatherKv(TensorId kv) {
    const std::int64_t c = b_.plan().c;
    if (c == 1) return kv;
    const TensorId full = b_.NewTensor("kv_gathered", c * n_ * kv_width_);
    b_.Collective(OpCode::kAllGather, b_.Bytes(c * n_ * kv_width_), GroupKind::kCp, Lane::kCp,
                  {{kv}}, {{full}});
    return full;
  }

  void Forward() {
    BlockTemplate& block = b_.result();
    x_ = b_.NewTensor("input", ns_ * h_);
    block.input = x_;
    norm1_ = b_.NewTensor("norm1_out", ns_ * h_);
    Norm(TensorKind::kNorm1Weight, TensorKind::kNorm1Bias, x_, norm1_);
    const TensorId qkv = b_.NewTensor("qkv", n_ * (q_width_ + kv_width_));
    b_.ColumnForward(norm1_, TensorKind::kQkvWeight, TensorKind::kQkvBias, s_.bias, qkv,
                     q_width_ + kv_width_, h_);
    q_ = b_.NewTensor("q", n_ * q_width_);
    kv_ = b_.NewTensor("kv", n_ * kv_width_);
    rotary_ = s_.positions == 0 ? unsigned{kRotary} : 0u;
    b_.Compute(AttentionShape(OpCode::kSplitQkv, rotary_), {{qkv}}, {{q_}, {kv_}});
    AttentionForward(GatherKv(kv_));
    const TensorId y = b_.NewTensor("attention_projection", ns_ * h_);
    b_.RowForward(o_, TensorKind::kOutWeight, y, h_, q_width_);
    x2_ = b_.NewTensor("residual", ns_ * h_);
    if (hidden_dropout_) mask1_ = b_.NewTensor("attention_residual_mask", ns_ * h_, Dtype::kUint8);
    ResidualAdd(y, x_, TensorKind::kOutBias, x2_, mask1_, DropoutSite::kAttentionResidual);

    norm2_ = b_.NewTensor("norm2_out", ns_ * h_);
    Norm(TensorKind::kNorm2Weight, TensorKind::kNorm2Bias, x2_, norm2_);
    const std::int64_t up_width = s_.gated ? 2 * s_.ffn : s_.ffn;
    up_ = b_.NewTensor(s_.gated ? "gate_up" : "mlp_up", n_ * up_width);
    b_.ColumnForward(norm2_, TensorKind::kUpWeight, TensorKind::kUpBias, s_.bias, up_, up_width,
                     h_);
    act_ = b_.NewTensor("mlp_act", n_ * s_.ffn);
    if (s_.gated) {
      silu_ = b_.NewTensor("silu", n_ * s_.ffn);
      b_.Compute(b_.Shape(OpCode::kSiluForward, {n_, s_.ffn}), {{up_}}, {{silu_}});
      b_.Compute(b_.Shape(OpCode::kMulForward, {n_, s_.ffn}), {{silu_}, {up_}}, {{act_}});
    } else {
      b_.Compute(b_.Shape(OpCode::kActivationForward, {n_, s_.ffn}, s_.relu ? unsigned{kRelu} : 0u),
                 {{up_}}, {{act_}});
    }
    const TensorId z = b_.NewTensor("mlp_projection", ns_ * h_);
    b_.RowForward(act_, TensorKind::kDownWeight, z, h_, s_.ffn);
    block.output = b_.NewTensor("output", ns_ * h_);
    if (hidden_dropout_) mask2_ = b_.NewTensor("mlp_residual_mask", ns_ * h_, Dtype::kUint8);
    ResidualAdd(z, x2_, TensorKind::kDownBias, block.output, mask2_, DropoutSite::kMlpResidual);
  }

  void AttentionForward(TensorId kv) {
    o_ = b_.NewTensor("attention_out", n_ * q_width_);
    if (flash_) {
      stats_ = b_.NewTensor("softmax_stats", n_ * s_.heads, s_.statistics_dtype);
      b_.Compute(AttentionShape(OpCode::kAttentionForward,
                                attention_dropout_ ? unsigned{kHasDropout} : 0u),
                 {{q_}, {kv}}, {{o_}, {stats_}});
      return;
    }
    const std::int64_t square = n_ * s_.heads * s_.full_sequence;
    const TensorId scores = b_.NewTensor("scores", square);
    b_.Compute(AttentionShape(OpCode::kAttentionScores), {{q_}, {kv}}, {{scores}});
    probabilities_ = b_.NewTensor("probabilities", square);
    b_.Compute(AttentionShape(OpCode::kSoftmaxForward), {{scores}}, {{probabilities_}});
    dropped_ = probabilities_;
    if (attention_dropout_) {
      dropped_ = b_.NewTensor("dropped_probabilities", square);
      attention_mask_ = b_.NewTensor("attention_mask", square, Dtype::kUint8);
      b_.Compute(AtSite(b_.Shape(OpCode::kDropoutForward, {n_ * s_.heads, s_.full_sequence}),
                        DropoutSite::kAttentionProbabilities),
                 {{probabilities_}}, {{dropped_}, {attention_mask_}});
    }
    b_.Compute(AttentionShape(OpCode::kAttentionContext), {{dropped_}, {kv}}, {{o_}});
  }

  // dq and the gradient of the gathered keys and values.
  std::pair<TensorId, TensorId> AttentionBackward(TensorId d_o) {
    const std::int64_t kv_elements = b_.plan().c * n_ * kv_width_;
    if (flash_) {
      const TensorId kv = GatherKv(b_.Need(kv_));
      const TensorId dq = b_.NewTensor("dq", n_ * q_width_);
      const TensorId dkv = b_.NewTensor("dkv_gathered", kv_elements);
      TemplateBuilder::Operands writes{{dq}, {dkv}};
      unsigned flags = attention_dropout_ ? unsigned{kHasDropout} : 0u;
      if (b_.context().attention_fp32_dq) {
        const TensorId workspace = b_.NewTensor("dq_accumulator", n_ * q_width_, Dtype::kFp32);
        b_.result().tensors.back().role = Role::kWorkspace;
        writes.push_back({workspace});
        flags |= kHasWorkspace;
      }
      const TensorId q = b_.Need(q_);
      const TensorId o = b_.Need(o_);
      const TensorId stats = b_.Need(stats_);
      b_.Compute(AttentionShape(OpCode::kAttentionBackward, flags),
                 {{d_o}, {q}, {kv}, {o}, {stats}}, writes);
      return {dq, dkv};
    }
    const std::int64_t square = n_ * s_.heads * s_.full_sequence;
    const TensorId dropped = b_.Need(dropped_);
    const TensorId kv = GatherKv(b_.Need(kv_));
    TensorId dprobabilities = b_.NewTensor("dprobabilities", square);
    const TensorId dkv = b_.NewTensor("dkv_gathered", kv_elements);
    b_.Compute(AttentionShape(OpCode::kAttentionContextBackward), {{d_o}, {dropped}, {kv}},
               {{dprobabilities}, {dkv}});
    if (attention_dropout_) {
      const TensorId undropped = b_.NewTensor("dprobabilities_undropped", square);
      b_.Compute(AtSite(b_.Shape(OpCode::kDropoutBackward, {n_ * s_.heads, s_.full_sequence}),
                        DropoutSite::kAttentionProbabilities),
                 {{dprobabilities}, {b_.Need(attention_mask_)}}, {{undropped}});
      dprobabilities = undropped;
    }
    const TensorId dscores = b_.NewTensor("dscores", square);
    b_.Compute(AttentionShape(OpCode::kSoftmaxBackward),
               {{dprobabilities}, {b_.Need(probabilities_)}}, {{dscores}});
    const TensorId dq = b_.NewTensor("dq", n_ * q_width_);
    b_.Compute(AttentionShape(OpCode::kAttentionScoresBackward),
               {{dscores}, {b_.Need(q_)}, {kv}, {dkv}}, {{dq}, {dkv}});
    return {dq, dkv};
  }

  void Backward() {
    BlockTemplate& block = b_.result();
    const TensorId dy = b_.NewTensor("output_gradient", ns_ * h_);
    block.output_gradient = dy;
    // MLP.
    const TensorId dz =
        ResidualBackward(dy, mask2_, "mlp_projection_gradient", DropoutSite::kMlpResidual);
    const TensorId dact = b_.NewTensor("mlp_act_gradient", n_ * s_.ffn);
    b_.RowBackward(dz, act_, TensorKind::kDownWeight, TensorKind::kDownBias, s_.bias, dact, h_,
                   s_.ffn);
    const std::int64_t up_width = s_.gated ? 2 * s_.ffn : s_.ffn;
    const TensorId dup = b_.NewTensor("mlp_up_gradient", n_ * up_width);
    if (s_.gated) {
      const TensorId dsilu = b_.NewTensor("silu_gradient", n_ * s_.ffn);
      const TensorId silu = b_.Need(silu_);
      const TensorId gate_up = b_.Need(up_);
      b_.Compute(b_.Shape(OpCode::kMulBackward, {n_, s_.ffn}), {{dact}, {silu}, {gate_up}},
                 {{dsilu}, {dup}});
      b_.Compute(b_.Shape(OpCode::kSiluBackward, {n_, s_.ffn}), {{dsilu}, {gate_up}, {dup}},
                 {{dup}});
    } else {
      b_.Compute(
          b_.Shape(OpCode::kActivationBackward, {n_, s_.ffn}, s_.relu ? unsigned{kRelu} : 0u),
          {{dact}, {b_.Need(up_)}}, {{dup}});
    }
    const TensorId dnorm2 = b_.NewTensor("norm2_gradient", ns_ * h_);
    b_.ColumnBackward(dup, norm2_, TensorKind::kUpWeight, TensorKind::kUpBias, s_.bias, dnorm2,
                      up_width, h_);
    const TensorId dx2 = b_.NewTensor("residual_gradient", ns_ * h_);
    NormBackward(TensorKind::kNorm2Weight, TensorKind::kNorm2Bias, dnorm2, x2_, dy, dx2);

    // Attention.
    const TensorId dprojection = ResidualBackward(dx2, mask1_, "attention_projection_gradient",
                                                  DropoutSite::kAttentionResidual);
    const TensorId d_o = b_.NewTensor("attention_out_gradient", n_ * q_width_);
    b_.RowBackward(dprojection, o_, TensorKind::kOutWeight, TensorKind::kOutBias, s_.bias, d_o, h_,
                   q_width_);
    auto [dq, dkv] = AttentionBackward(d_o);
    const std::int64_t c = b_.plan().c;
    if (c > 1) {
      const TensorId local = b_.NewTensor("dkv", n_ * kv_width_);
      b_.Collective(OpCode::kReduceScatter, b_.Bytes(c * n_ * kv_width_), GroupKind::kCp, Lane::kCp,
                    {{dkv}}, {{local}});
      dkv = local;
    }
    const TensorId dqkv = b_.NewTensor("qkv_gradient", n_ * (q_width_ + kv_width_));
    b_.Compute(AttentionShape(OpCode::kSplitQkvBackward, rotary_), {{dq}, {dkv}}, {{dqkv}});
    const TensorId dnorm1 = b_.NewTensor("norm1_gradient", ns_ * h_);
    b_.ColumnBackward(dqkv, norm1_, TensorKind::kQkvWeight, TensorKind::kQkvBias, s_.bias, dnorm1,
                      q_width_ + kv_width_, h_);
    const TensorId dx = b_.NewTensor("input_gradient", ns_ * h_);
    block.input_gradient = dx;
    NormBackward(TensorKind::kNorm1Weight, TensorKind::kNorm1Bias, dnorm1, x_, dx2, dx);
  }

  TemplateBuilder b_;
  const LocalShapes& s_;
  std::int64_t n_, ns_, h_, q_width_, kv_width_;
  bool hidden_dropout_, attention_dropout_, flash_;
  unsigned rotary_ = 0;
  static constexpr TensorId kNoTensor = BlockTemplate::kNoTensor;
  TensorId x_ = kNoTensor, norm1_ = kNoTensor, q_ = kNoTensor, kv_ = kNoTensor, o_ = kNoTensor,
           stats_ = kNoTensor, probabilities_ = kNoTensor, dropped_ = kNoTensor,
           attention_mask_ = kNoTensor, x2_ = kNoTensor, mask1_ = kNoTensor, norm2_ = kNoTensor,
           up_ = kNoTensor, silu_ = kNoTensor, act_ = kNoTensor, mask2_ = kNoTensor;
};

}  // namespace

std::vector<std::string> StorableTensors(const Model& model, const ResolvedPlan& plan) {
  std::vector<std::string> names{"norm1_out", "q", "kv"};
  const LocalShapes shapes = MakeLocalShapes(model, plan);
  if (plan.attention == ATTENTION_FLASH) {
    names.push_back("softmax_stats");
  } else {
    names.push_back("probabilities");
    if (model.recipe().attention_dropout() > 0) {
      names.insert(names.end(), {"dropped_probabilities", "attention_mask"});
    }
  }
  names.insert(names.end(), {"attention_out", "residual", "norm2_out"});
  names.push_back(shapes.gated ? "gate_up" : "mlp_up");
  if (shapes.gated) names.push_back("silu");
  names.push_back("mlp_act");
  if (model.recipe().hidden_dropout() > 0) {
    names.insert(names.end(), {"attention_residual_mask", "mlp_residual_mask"});
  }
  return names;
}

BlockTemplate MakeLayerTemplate(const TemplateContext& context) {
  return LayerBuilder(context).Build();
}

}  // namespace twinstep
