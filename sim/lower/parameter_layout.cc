#include "sim/lower/parameter_layout.h"

#include <cstdlib>

namespace twinstep {
namespace {

// ZeRO shards start at multiples of this many elements; tensors lie at multiples of it in every
// model whose hidden sizes are.
constexpr std::int64_t kShardAlignmentElements = 128;

std::int64_t RoundUp(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

class LayoutBuilder {
 public:
  explicit LayoutBuilder(ChunkKind chunk_kind) { layout_.kind = chunk_kind; }

  void Add(TensorKind kind, std::int64_t rows, std::int64_t columns,
           ShardAxis axis = ShardAxis::kWhole) {
    layout_.tensors.push_back(
        {.kind = kind, .axis = axis, .rows = rows, .columns = columns, .offset = end_});
    end_ += rows * columns;
  }
  void EndPartial() { layout_.partial_elements = end_; }
  void EndReplicated() { layout_.replicated_elements = end_; }
  void EndUndecayed() { layout_.undecayed_elements = end_; }
  std::int64_t end() const { return end_; }

  ChunkLayout Finish(std::int64_t shard_count) {
    layout_.used_elements = end_;
    layout_.elements = RoundUp(end_, kShardAlignmentElements * shard_count);
    layout_.tied_copy_begin = end_;
    return std::move(layout_);
  }

 private:
  ChunkLayout layout_;
  std::int64_t end_ = 0;
};

}  // namespace

bool ChunkLayout::Has(TensorKind tensor_kind) const {
  for (const ParameterTensor& tensor : tensors) {
    if (tensor.kind == tensor_kind) return true;
  }
  return false;
}

const ParameterTensor& ChunkLayout::Find(TensorKind tensor_kind) const {
  for (const ParameterTensor& tensor : tensors) {
    if (tensor.kind == tensor_kind) return tensor;
  }
  std::abort();  // A template asks only for tensors of its own family.
}

ChunkLayout MakeChunkLayout(ChunkKind kind, const Model& model, const LocalShapes& shapes,
                            std::int64_t tensor_parallel, std::int64_t shard_count,
                            bool head_copy) {
  LayoutBuilder builder(kind);
  const std::int64_t h = shapes.hidden;
  const ShardAxis rows = tensor_parallel > 1 ? ShardAxis::kRows : ShardAxis::kWhole;
  const ShardAxis columns = tensor_parallel > 1 ? ShardAxis::kColumns : ShardAxis::kWhole;
  const auto norm = [&](TensorKind weight, TensorKind bias) {
    builder.Add(weight, 1, h);
    if (!shapes.rms_norm) builder.Add(bias, 1, h);
  };
  switch (kind) {
    case ChunkKind::kBlock: {
      const std::int64_t qkv = (shapes.heads + 2 * shapes.kv_heads) * shapes.head_dim;
      const std::int64_t up = shapes.gated ? 2 * shapes.ffn : shapes.ffn;
      norm(TensorKind::kNorm1Weight, TensorKind::kNorm1Bias);
      norm(TensorKind::kNorm2Weight, TensorKind::kNorm2Bias);
      if (!shapes.partial_row_bias) builder.EndPartial();
      if (shapes.bias) {
        builder.Add(TensorKind::kOutBias, 1, h);
        builder.Add(TensorKind::kDownBias, 1, h);
      }
      if (shapes.partial_row_bias) builder.EndPartial();
      builder.EndReplicated();
      if (shapes.bias) {
        builder.Add(TensorKind::kQkvBias, 1, qkv, columns);
        builder.Add(TensorKind::kUpBias, 1, up, columns);
      }
      builder.EndUndecayed();
      builder.Add(TensorKind::kQkvWeight, qkv, h, rows);
      builder.Add(TensorKind::kOutWeight, h, shapes.heads * shapes.head_dim, columns);
      builder.Add(TensorKind::kUpWeight, up, h, rows);
      builder.Add(TensorKind::kDownWeight, h, shapes.ffn, columns);
      break;
    }
    case ChunkKind::kEmbedding:
      builder.EndPartial();
      if (shapes.positions > 0) builder.Add(TensorKind::kPositionEmbedding, shapes.positions, h);
      builder.EndReplicated();
      builder.Add(TensorKind::kTokenEmbedding, shapes.vocab, h, rows);
      break;
    case ChunkKind::kHead: {
      norm(TensorKind::kFinalNormWeight, TensorKind::kFinalNormBias);
      builder.EndPartial();
      builder.EndReplicated();
      builder.EndUndecayed();
      const std::int64_t copy_begin = builder.end();
      if (!model.tied_embeddings()) builder.Add(TensorKind::kHeadWeight, shapes.vocab, h, rows);
      if (head_copy) builder.Add(TensorKind::kTokenEmbedding, shapes.vocab, h, rows);
      ChunkLayout layout = builder.Finish(shard_count);
      if (head_copy) layout.tied_copy_begin = copy_begin;
      return layout;
    }
  }
  return builder.Finish(shard_count);
}

}  // namespace twinstep
