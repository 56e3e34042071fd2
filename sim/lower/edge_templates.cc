// The blocks at the ends of the model: embedding, and head with loss.

#include "sim/lower/block_template.h"
#include "sim/lower/template_builder.h"

namespace twinstep {

BlockTemplate MakeEmbeddingTemplate(const TemplateContext& context) {
  TemplateBuilder b(context);
  BlockTemplate& block = b.result();
  const LocalShapes& s = context.shapes;
  const ResolvedPlan& plan = context.plan;
  const bool positions = s.positions > 0;
  const bool dropout = context.model.recipe().hidden_dropout() > 0;
  const auto shape = [&](OpCode op, unsigned flags) {
    OpShape result = b.Shape(op, {s.tokens, s.hidden, s.vocab, plan.b, context.at.cp, plan.c},
                             flags | (positions ? unsigned{kHasPositions} : 0u));
    result.index = static_cast<std::uint16_t>(context.at.tp);
    result.count = static_cast<std::uint16_t>(plan.t);
    return result;
  };

  block.tokens = b.NewTensor("tokens", s.tokens, Dtype::kInt32);
  const TensorId looked_up = b.NewTensor("embedded", s.tokens * s.hidden);
  TemplateBuilder::Operands tables{{block.tokens}, {ParameterId(TensorKind::kTokenEmbedding)}};
  if (positions) tables.push_back({ParameterId(TensorKind::kPositionEmbedding)});
  b.Compute(shape(OpCode::kEmbeddingForward, 0), tables, {{looked_up}});
  TensorId x = looked_up;
  if (b.sequence_parallel()) x = b.NewTensor("embedded_shard", s.shard_tokens * s.hidden);
  b.ReducePartial(looked_up, x);
  TensorId mask = BlockTemplate::kNoTensor;
  block.output = x;
  if (dropout) {
    block.output = b.NewTensor("output", s.shard_tokens * s.hidden);
    mask = b.NewTensor("embedding_mask", s.shard_tokens * s.hidden, Dtype::kUint8);
    b.Compute(b.Shape(OpCode::kDropoutForward, {s.shard_tokens, s.hidden}), {{x}},
              {{block.output}, {mask}});
  }

  b.BeginBackward([](std::string_view) { return true; });
  TensorId dx = b.NewTensor("output_gradient", s.shard_tokens * s.hidden);
  block.output_gradient = dx;
  if (dropout) {
    const TensorId undropped = b.NewTensor("embedded_gradient", s.shard_tokens * s.hidden);
    b.Compute(b.Shape(OpCode::kDropoutBackward, {s.shard_tokens, s.hidden}), {{dx}, {b.Need(mask)}},
              {{undropped}});
    dx = undropped;
  }
  dx = b.GatherSequence(dx, s.hidden);
  TemplateBuilder::Operands writes{{GradientId(TensorKind::kTokenEmbedding)}};
  if (positions) writes.push_back({GradientId(TensorKind::kPositionEmbedding)});
  TemplateBuilder::Operands reads{{block.tokens}, {dx}};
  reads.insert(reads.end(), writes.begin(), writes.end());
  // On one stage with tied embeddings the head's gradient is there already.
  const bool head_first = context.model.tied_embeddings() && plan.p == 1;
  const int accumulate_reads = (head_first ? 0 : 1) + (positions ? 1 : 0);
  b.Compute(shape(OpCode::kEmbeddingBackward,
                  kAccumulateGradient | (positions ? unsigned{kAccumulatePositions} : 0u)),
            reads, writes, accumulate_reads);
  return b.Finish();
}

BlockTemplate MakeHeadTemplate(const TemplateContext& context) {
  TemplateBuilder b(context);
  BlockTemplate& block = b.result();
  const LocalShapes& s = context.shapes;
  const ResolvedPlan& plan = context.plan;
  const std::int64_t n = s.tokens;
  const std::int64_t ns = s.shard_tokens;
  const std::int64_t h = s.hidden;
  const TensorKind weight =
      context.model.tied_embeddings() ? TensorKind::kTokenEmbedding : TensorKind::kHeadWeight;
  const auto loss_shape = [&](OpCode op) {
    OpShape shape =
        b.Shape(op, {n, s.vocab, plan.global_batch * plan.sequence_length, s.unpadded_vocab});
    shape.index = static_cast<std::uint16_t>(context.at.tp);
    shape.count = static_cast<std::uint16_t>(plan.t);
    return shape;
  };
  const unsigned norm_flags = s.rms_norm ? unsigned{kRmsNorm} : 0u;

  const TensorId x = b.NewTensor("input", ns * h);
  block.input = x;
  const TensorId normed = b.NewTensor("final_norm_out", ns * h);
  TemplateBuilder::Operands norm_reads{{x}, {ParameterId(TensorKind::kFinalNormWeight)}};
  if (!s.rms_norm) norm_reads.push_back({ParameterId(TensorKind::kFinalNormBias)});
  b.Compute(b.Shape(OpCode::kNormForward, {ns, h}, norm_flags), norm_reads, {{normed}});
  const TensorId logits = b.NewTensor("logits", n * s.vocab);
  b.ColumnForward(normed, weight, weight, false, logits, s.vocab, h);
  block.labels = b.NewTensor("labels", n, Dtype::kInt32);
  TensorId stats = b.NewTensor("loss_stats", 3 * n, s.statistics_dtype);
  b.Compute(loss_shape(OpCode::kCrossEntropyStats), {{logits}, {block.labels}}, {{stats}});
  if (b.tensor_parallel()) {
    const TensorId gathered =
        b.NewTensor("loss_stats_gathered", 3 * n * plan.t, s.statistics_dtype);
    b.Collective(OpCode::kAllGather, b.result().Tensor(gathered).bytes, Placement::GroupKind::kTp,
                 Lane::kTp, {{stats}}, {{gathered}});
    stats = gathered;
  }
  block.loss = b.NewTensor("loss", 1, Dtype::kFp64);
  const TensorId global_stats = b.NewTensor("loss_global_stats", 2 * n, s.statistics_dtype);
  b.Compute(loss_shape(OpCode::kCrossEntropyLoss), {{stats}}, {{block.loss}, {global_stats}});

  b.BeginBackward([](std::string_view) { return true; });
  const TensorId dlogits = b.Need(logits);
  b.Compute(loss_shape(OpCode::kCrossEntropyBackward),
            {{dlogits}, {block.labels}, {b.Need(global_stats)}}, {{dlogits}});
  const TensorId dnormed = b.NewTensor("final_norm_gradient", ns * h);
  b.ColumnBackward(dlogits, normed, weight, weight, false, dnormed, s.vocab, h);
  const TensorId dx = b.NewTensor("input_gradient", ns * h);
  block.input_gradient = dx;
  TemplateBuilder::Operands gradients{{GradientId(TensorKind::kFinalNormWeight)}};
  if (!s.rms_norm) gradients.push_back({GradientId(TensorKind::kFinalNormBias)});
  TemplateBuilder::Operands reads{
      {dnormed}, {b.Need(x)}, {ParameterId(TensorKind::kFinalNormWeight)}};
  reads.insert(reads.end(), gradients.begin(), gradients.end());
  TemplateBuilder::Operands writes{{dx}};
  writes.insert(writes.end(), gradients.begin(), gradients.end());
  b.Compute(b.Shape(OpCode::kNormBackward, {ns, h}, norm_flags | kAccumulateGradient), reads,
            writes, static_cast<int>(gradients.size()));
  return b.Finish();
}

}  // namespace twinstep
