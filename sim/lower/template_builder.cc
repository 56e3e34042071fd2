#include "sim/lower/template_builder.h"

#include <algorithm>
#include <string>
#include <utility>

namespace twinstep {
namespace {

using GroupKind = Placement::GroupKind;

}  // namespace

std::int64_t BlockTemplate::SavedBytes() const {
  std::int64_t bytes = 0;
  for (const TensorId id : saved) bytes += Tensor(id).bytes;
  return bytes;
}

TemplateBuilder::TemplateBuilder(const TemplateContext& context) : context_(context) {}

TensorId TemplateBuilder::NewTensor(std::string_view name, std::int64_t elements, Dtype dtype) {
  result_.tensors.push_back(
      {.name = std::string(name), .bytes = elements * DtypeBytes(dtype), .dtype = dtype});
  producers_.emplace_back();
  alias_.push_back(BlockTemplate::kNoTensor);
  stored_.push_back(false);
  return static_cast<TensorId>(kFirstTensor + result_.tensors.size() - 1);
}

TensorId TemplateBuilder::NewTensor(std::string_view name, std::int64_t elements) {
  return NewTensor(name, elements, context_.shapes.dtype);
}

OpShape TemplateBuilder::Shape(OpCode op, std::initializer_list<std::int64_t> dims,
                               unsigned flags) const {
  OpShape shape{
      .op = op, .dtype = context_.shapes.dtype, .flags = static_cast<std::uint16_t>(flags)};
  std::copy(dims.begin(), dims.end(), shape.dims.begin());
  return shape;
}

void TemplateBuilder::Push(TemplateOp op, const Operands& reads, const Operands& writes) {
  op.operand_begin = static_cast<std::uint16_t>(result_.operands.size());
  op.read_count = static_cast<std::uint16_t>(reads.size());
  op.write_count = static_cast<std::uint16_t>(writes.size());
  result_.operands.insert(result_.operands.end(), reads.begin(), reads.end());
  result_.operands.insert(result_.operands.end(), writes.begin(), writes.end());
  if (backward_) {
    result_.backward.push_back(op);
    return;
  }
  for (const TemplateOperand& x : writes) {
    if (x.tensor < kFirstTensor) continue;
    std::vector<std::size_t>& ops = producers_[x.tensor - kFirstTensor];
    if (ops.empty() || ops.back() != result_.forward.size()) ops.push_back(result_.forward.size());
  }
  result_.forward.push_back(op);
}

void TemplateBuilder::Compute(OpShape shape, Operands reads, Operands writes,
                              int accumulate_reads) {
  TemplateOp op;
  op.shape = context_.writer->Intern(shape);
  op.first_shape = op.shape;
  if (accumulate_reads > 0) {
    // Where only the positions fall away, the token embedding's gradient is always added to.
    const bool positions_only = shape.op == OpCode::kEmbeddingBackward && accumulate_reads == 1 &&
                                (shape.flags & kAccumulatePositions) != 0;
    OpShape first = shape;
    const unsigned dropped = positions_only ? static_cast<unsigned>(kAccumulatePositions)
                                            : kAccumulateGradient | kAccumulatePositions;
    first.flags = static_cast<std::uint16_t>(first.flags & ~dropped);
    op.first_shape = context_.writer->Intern(first);
    op.accumulate_reads = static_cast<std::uint16_t>(accumulate_reads);
  }
  op.phase = phase_;
  Push(op, reads, writes);
}

void TemplateBuilder::Collective(OpCode code, std::int64_t bytes, GroupKind group, Lane lane,
                                 Operands reads, Operands writes) {
  TemplateOp op;
  op.shape = context_.writer->Intern(Shape(code, {bytes}));
  op.first_shape = op.shape;
  op.kind = TaskKind::kCollective;
  op.lane = lane;
  op.phase = phase_;
  op.collective = true;
  op.group = group;
  Push(op, reads, writes);
}

void TemplateBuilder::BeginBackward(std::function<bool(std::string_view)> keep) {
  backward_ = true;
  phase_ = Phase::kBackward;
  keep_ = std::move(keep);
  rerun_.assign(result_.forward.size(), false);
}

bool TemplateBuilder::Keeps(TensorId tensor) const {
  return tensor == result_.input || keep_(result_.Tensor(tensor).name);
}

TensorId TemplateBuilder::Need(TensorId tensor) {
  const std::size_t index = tensor - kFirstTensor;
  if (Keeps(tensor)) {
    if (!stored_[index]) {
      stored_[index] = true;
      result_.saved.push_back(tensor);
      result_.tensors[index].role = Role::kActivation;
    }
    return tensor;
  }
  if (alias_[index] == BlockTemplate::kNoTensor) {
    const std::vector<std::size_t> ops = producers_[index];
    for (const std::size_t op : ops) Rerun(op);
  }
  return alias_[index];
}

void TemplateBuilder::RebuildAll() {
  for (std::size_t op = 0; op < result_.forward.size(); ++op) Rerun(op);
}

void TemplateBuilder::Rerun(std::size_t forward_op) {
  if (rerun_[forward_op]) return;
  rerun_[forward_op] = true;
  const TemplateOp op = result_.forward[forward_op];
  Operands reads, writes;
  for (std::size_t i = 0; i < op.read_count; ++i) {
    TemplateOperand x = result_.operands[op.operand_begin + i];
    if (x.tensor >= kFirstTensor && x.tensor != result_.tokens) {
      // A tensor updated in place already has its rebuilt copy here.
      const TensorId alias = alias_[x.tensor - kFirstTensor];
      x.tensor = alias != BlockTemplate::kNoTensor ? alias : Need(x.tensor);
    }
    reads.push_back(x);
  }
  for (std::size_t i = 0; i < op.write_count; ++i) {
    TemplateOperand x = result_.operands[op.operand_begin + op.read_count + i];
    const std::size_t index = x.tensor - kFirstTensor;
    if (alias_[index] == BlockTemplate::kNoTensor) {
      const TemplateTensor original = result_.tensors[index];
      const TensorId copy =
          NewTensor(original.name, original.bytes / DtypeBytes(original.dtype), original.dtype);
      alias_[index] = copy;
    }
    x.tensor = alias_[index];
    writes.push_back(x);
  }
  TemplateOp copy = op;
  copy.phase = Phase::kRecompute;
  Push(copy, reads, writes);
}

bool TemplateBuilder::Chunked() const {
  return sequence_parallel() && context_.plan.tp_overlap == TP_OVERLAP_CHUNKED;
}

void TemplateBuilder::Gemm(OpCode op, std::int64_t rows, std::int64_t out, std::int64_t in,
                           Operands reads, Operands writes, unsigned flags) {
  const int gradients = op == OpCode::kGemmWgrad ? static_cast<int>(writes.size()) : 0;
  if (gradients > 0) {
    flags |= kAccumulateGradient;
    reads.insert(reads.end(), writes.begin(), writes.end());
  }
  Compute(Shape(op, {rows, out, in}, flags), std::move(reads), std::move(writes), gradients);
}

TensorId TemplateBuilder::GatherSequence(TensorId shard, std::int64_t width) {
  if (!sequence_parallel()) return shard;
  const std::int64_t elements = shapes().tokens * width;
  const TensorId full = NewTensor(result_.Tensor(shard).name + "_gathered", elements);
  Collective(OpCode::kAllGather, Bytes(elements), GroupKind::kTp, Lane::kTp, {{shard}}, {{full}});
  return full;
}

void TemplateBuilder::ReducePartial(TensorId partial, TensorId sum, const Operands& after) {
  if (!tensor_parallel()) return;
  const std::int64_t bytes = result_.Tensor(partial).bytes;
  const OpCode op = sequence_parallel() ? OpCode::kReduceScatter : OpCode::kAllReduce;
  Operands reads{{partial}};
  reads.insert(reads.end(), after.begin(), after.end());
  Collective(op, bytes, GroupKind::kTp, Lane::kTp, std::move(reads), {{sum}});
}

void TemplateBuilder::RingGather(TensorId shard, std::int64_t width,
                                 const std::function<void(std::int64_t, TensorId)>& use) {
  const std::int64_t t = plan().t;
  const std::int64_t elements = shapes().shard_tokens * width;
  TensorId piece = shard;
  for (std::int64_t step = 0; step < t; ++step) {
    TensorId next = piece;
    if (step + 1 < t) {
      next = NewTensor(result_.Tensor(shard).name + "_piece", elements);
      Collective(OpCode::kRingShift, Bytes(elements), GroupKind::kTp, Lane::kTp, {{piece}},
                 {{next}});
    }
    use((context_.at.tp + t - step) % t, piece);
    piece = next;
  }
}

void TemplateBuilder::RingReduce(TensorId sum, std::int64_t width,
                                 const std::function<void(std::int64_t, TensorId)>& make) {
  const std::int64_t t = plan().t;
  const std::int64_t rows = shapes().shard_tokens;
  const std::string name = result_.Tensor(sum).name;
  TensorId so_far = BlockTemplate::kNoTensor;
  for (std::int64_t step = 0; step < t; ++step) {
    TensorId received = BlockTemplate::kNoTensor;
    if (step > 0) {
      received = NewTensor(name + "_received", rows * width);
      Collective(OpCode::kRingShift, Bytes(rows * width), GroupKind::kTp, Lane::kTp, {{so_far}},
                 {{received}});
    }
    const TensorId share = NewTensor(name + "_share", rows * width);
    make((context_.at.tp + 2 * t - 1 - step) % t, share);
    if (step == 0) {
      so_far = share;
      continue;
    }
    so_far = step + 1 == t ? sum : NewTensor(name + "_sum", rows * width);
    Compute(Shape(OpCode::kAdd, {rows, width}), {{received}, {share}}, {{so_far}});
  }
}

void TemplateBuilder::ColumnForward(TensorId x, TensorKind weight, TensorKind bias, bool has_bias,
                                    TensorId y, std::int64_t out, std::int64_t in) {
  const unsigned flags = has_bias ? unsigned{kHasBias} : 0u;
  const auto gemm = [&](std::int64_t rows, TensorId input, TemplateOperand output) {
    Operands reads{{input}, {ParameterId(weight)}};
    if (has_bias) reads.push_back({ParameterId(bias)});
    Gemm(OpCode::kGemmForward, rows, out, in, std::move(reads), {output}, flags);
  };
  if (!Chunked()) {
    gemm(shapes().tokens, GatherSequence(x, in), {y});
    return;
  }
  const std::int64_t rows = shapes().shard_tokens;
  RingGather(x, in, [&](std::int64_t owner, TensorId piece) {
    gemm(rows, piece, {y, Bytes(owner * rows * out), Bytes(rows * out)});
  });
}

void TemplateBuilder::RowForward(TensorId x, TensorKind weight, TensorId y, std::int64_t out,
                                 std::int64_t in) {
  const auto gemm = [&](std::int64_t rows, TemplateOperand input, TensorId output) {
    Gemm(OpCode::kGemmForward, rows, out, in, {input, {ParameterId(weight)}}, {{output}});
  };
  if (!sequence_parallel()) {
    gemm(shapes().tokens, {x}, y);
    ReducePartial(y, y);
    return;
  }
  if (!Chunked()) {
    const TensorId partial = NewTensor(result_.Tensor(y).name + "_partial", shapes().tokens * out);
    gemm(shapes().tokens, {x}, partial);
    ReducePartial(partial, y);
    return;
  }
  const std::int64_t rows = shapes().shard_tokens;
  RingReduce(y, out, [&](std::int64_t owner, TensorId share) {
    gemm(rows, {x, Bytes(owner * rows * in), Bytes(rows * in)}, share);
  });
}

void TemplateBuilder::ColumnBackward(TensorId dy, TensorId x, TensorKind weight, TensorKind bias,
                                     bool has_bias, TensorId dx, std::int64_t out,
                                     std::int64_t in) {
  const std::int64_t n = shapes().tokens;
  // The input's gather and the gradient's sum travel beside the two products.
  const TensorId full_x = GatherSequence(Need(x), in);
  const auto wgrad = [&] {
    Operands writes{{GradientId(weight)}};
    if (has_bias) writes.push_back({GradientId(bias)});
    Gemm(OpCode::kGemmWgrad, n, out, in, {{full_x}, {dy}}, writes,
         has_bias ? unsigned{kHasBias} : 0u);
  };
  const auto dgrad = [&](std::int64_t rows, TemplateOperand gradient, TensorId result) {
    Gemm(OpCode::kGemmDgrad, rows, out, in, {gradient, {ParameterId(weight)}}, {{result}});
  };
  if (!tensor_parallel()) {
    dgrad(n, {dy}, dx);
    wgrad();
    return;
  }
  if (!Chunked()) {
    const TensorId partial =
        sequence_parallel() ? NewTensor(result_.Tensor(dx).name + "_partial", n * in) : dx;
    dgrad(n, {dy}, partial);
    if (context_.sums_after_products) {
      wgrad();
      ReducePartial(partial, dx, {{GradientId(weight)}});
      return;
    }
    ReducePartial(partial, dx);
    wgrad();
    return;
  }
  const std::int64_t rows = shapes().shard_tokens;
  RingReduce(dx, in, [&](std::int64_t owner, TensorId share) {
    dgrad(rows, {dy, Bytes(owner * rows * out), Bytes(rows * out)}, share);
  });
  wgrad();
}

void TemplateBuilder::RowBackward(TensorId dy, TensorId x, TensorKind weight, TensorKind bias,
                                  bool has_bias, TensorId dx, std::int64_t out, std::int64_t in) {
  const auto dgrad = [&](std::int64_t rows, TensorId gradient, TemplateOperand result) {
    Gemm(OpCode::kGemmDgrad, rows, out, in, {{gradient}, {ParameterId(weight)}}, {result});
  };
  const auto wgrad = [&](std::int64_t rows, TemplateOperand input, TensorId gradient,
                         bool with_bias) {
    Operands writes{{GradientId(weight)}};
    if (with_bias) writes.push_back({GradientId(bias)});
    Gemm(OpCode::kGemmWgrad, rows, out, in, {input, {gradient}}, writes,
         with_bias ? unsigned{kHasBias} : 0u);
  };
  if (!Chunked()) {
    const TensorId full = GatherSequence(dy, out);
    dgrad(shapes().tokens, full, {dx});
    wgrad(shapes().tokens, {Need(x)}, full, has_bias);
    return;
  }
  const std::int64_t rows = shapes().shard_tokens;
  struct Piece {
    std::int64_t owner;
    TensorId tensor;
  };
  std::vector<Piece> pieces;
  RingGather(dy, out, [&](std::int64_t owner, TensorId piece) {
    dgrad(rows, piece, {dx, Bytes(owner * rows * in), Bytes(rows * in)});
    pieces.push_back({owner, piece});
  });
  const TensorId input = Need(x);
  // The first piece is the rank's own. Ranks meet the pieces in other orders and would sum the
  // bias' gradient to other bits: each sums its own piece's, and they are added with the norms'.
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    wgrad(rows, {input, Bytes(pieces[i].owner * rows * in), Bytes(rows * in)}, pieces[i].tensor,
          has_bias && i == 0);
    // Later pieces of the first micro-batch add to the first.
    if (i > 0) {
      TemplateOp& op = result_.backward.back();
      op.first_shape = op.shape;
      op.accumulate_reads = 0;
    }
  }
}

}  // namespace twinstep
