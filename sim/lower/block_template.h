// The tasks of one block (transformer layer, embedding or head) for one micro-batch, forward and
// backward, as a template that lowering stamps out for each micro-batch and layer.
//
// A template is a small program over numbered tensors. Which forward tensors are stored until the
// backward is the recompute policy; the others that the backward needs are rebuilt by rerunning
// the operations that made them, just before their first use (full recompute reruns the whole
// forward at the start of the block's backward, as systems that checkpoint a layer do).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model_zoo/model.pb.h"
#include "sim/graph/task_graph.h"
#include "sim/lower/graph_writer.h"
#include "sim/lower/local_shapes.h"
#include "sim/lower/parameter_layout.h"
#include "sim/plan/placement.h"
#include "sim/plan/resolved_plan.h"
#include "sim/result.h"

namespace twinstep {

using TensorId = std::uint16_t;

// Parameters and gradients of the block's chunk come first, by TensorKind.
inline constexpr TensorId kFirstGradient = kTensorKindCount;
inline constexpr TensorId kFirstTensor = 2 * kTensorKindCount;
constexpr TensorId ParameterId(TensorKind kind) { return static_cast<TensorId>(kind); }
constexpr TensorId GradientId(TensorKind kind) {
  return static_cast<TensorId>(kFirstGradient + static_cast<TensorId>(kind));
}

struct TemplateTensor {
  std::string name;  // "norm1_out", "gate_up", ...: the names of Plan::stored_tensors.
  std::int64_t bytes = 0;
  Dtype dtype = Dtype::kBf16;
  Role role = Role::kTransient;
};

// A tensor or, with `bytes` > 0, a byte range of it.
struct TemplateOperand {
  TensorId tensor = 0;
  std::int64_t offset = 0, bytes = 0;
};

struct TemplateOp {
  ShapeId shape = 0;
  // First micro-batch of the iteration: gradients are written instead of added to, and the last
  // `accumulate_reads` reads fall away.
  ShapeId first_shape = 0;
  std::uint16_t operand_begin = 0, read_count = 0, write_count = 0, accumulate_reads = 0;
  TaskKind kind = TaskKind::kCompute;
  Lane lane = Lane::kCompute;
  Phase phase = Phase::kForward;
  bool collective = false;
  Placement::GroupKind group = Placement::GroupKind::kTp;
};

struct BlockTemplate {
  std::vector<TemplateTensor> tensors;  // Index = TensorId - kFirstTensor.
  std::vector<TemplateOperand> operands;
  std::vector<TemplateOp> forward, backward;
  std::vector<TensorId> saved;  // Stored from forward to backward, in the order they are made.
  // Interface; kNoTensor where the block has no such tensor.
  static constexpr TensorId kNoTensor = 0xffff;
  TensorId input = kNoTensor, output = kNoTensor;
  TensorId output_gradient = kNoTensor, input_gradient = kNoTensor;
  TensorId tokens = kNoTensor, labels = kNoTensor, loss = kNoTensor;

  const TemplateTensor& Tensor(TensorId id) const { return tensors[id - kFirstTensor]; }
  std::int64_t SavedBytes() const;
};

struct TemplateContext {
  const Model& model;
  const ResolvedPlan& plan;
  const LocalShapes& shapes;
  Coordinates at;          // Of the rank the template is for.
  bool attention_fp32_dq;  // The flash backward needs an fp32 dQ accumulator (cluster.proto).
  bool sums_after_products = false;  // framework.proto.
  GraphWriter* writer;               // Interns shapes.
};

// Names that Plan::stored_tensors may list for this model and plan.
std::vector<std::string> StorableTensors(const Model& model, const ResolvedPlan& plan);

BlockTemplate MakeLayerTemplate(const TemplateContext& context);
BlockTemplate MakeEmbeddingTemplate(const TemplateContext& context);
BlockTemplate MakeHeadTemplate(const TemplateContext& context);

}  // namespace twinstep
