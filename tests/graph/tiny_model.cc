#include "tests/graph/tiny_model.h"

#include <array>
#include <utility>

namespace twinstep {
namespace {

constexpr std::int64_t kTokens = 8, kHidden = 16, kFfn = 32, kVocab = 16;

class TinyModel {
 public:
  explicit TinyModel(const TinyPlan& plan)
      : plan_(plan), ranks_(plan.t * plan.c * plan.d), builder_(ranks_), n_(kTokens / plan.c) {}

  TaskGraph Build();

 private:
  struct Saved {
    Operand x, act;  // Slices of one buffer, where the forward left them.
    BufferId slot = kNone, host = kNone, tail = kNone;
    BufferId mask = kNone, logits = kNone, stats = kNone, labels = kNone, tokens = kNone;
  };
  struct Rank {
    BufferId parameters, gradients, master, moment1, moment2, loss = kNone;
    std::vector<Saved> saved;
  };
  using Buffers = std::vector<Operand>;  // By rank.

  std::uint32_t tp(std::uint32_t rank) const { return rank % plan_.t; }
  std::uint32_t cp(std::uint32_t rank) const { return rank / plan_.t % plan_.c; }
  std::uint32_t dp(std::uint32_t rank) const { return rank / plan_.t / plan_.c; }
  std::uint32_t shards() const { return plan_.c * plan_.d; }
  std::uint32_t shard(std::uint32_t rank) const { return rank / plan_.t; }

  // Tensor i of the chunk: embedding, first and second layer's weight.
  std::int64_t Elements(int tensor) const {
    return tensor == 0 ? kVocab * kHidden : kFfn * kHidden / plan_.t;
  }
  std::int64_t Begin(int tensor) const {
    return (tensor > 0 ? Elements(0) : 0) + (tensor > 1 ? Elements(1) : 0);
  }
  std::int64_t ChunkElements() const { return Begin(2) + Elements(2); }
  Operand TensorOf(BufferId chunk, int tensor, std::int64_t element_bytes) {
    return builder_.Part(chunk, Begin(tensor) * element_bytes, Elements(tensor) * element_bytes);
  }
  Operand ShardOf(BufferId chunk, std::uint32_t rank, std::int64_t element_bytes) {
    const std::int64_t bytes = ChunkElements() / shards() * element_bytes;
    return builder_.Part(chunk, shard(rank) * bytes, bytes);
  }

  void Register(BufferId buffer, std::uint32_t rank, StateKind state, std::int64_t element_bytes);
  BufferId AddData(std::uint32_t rank, TensorKind kind, std::uint32_t micro_batch,
                   std::int64_t bytes);
  Operand New(std::uint32_t rank, std::int64_t bytes) { return {builder_.AddBuffer(rank, bytes)}; }

  void Compute(std::uint32_t rank, OpShape shape, std::vector<Operand> reads,
               std::vector<Operand> writes) {
    builder_.Add({.rank = rank,
                  .shape = shape,
                  .reads = std::move(reads),
                  .writes = std::move(writes),
                  .micro_batch = micro_batch_});
  }
  void Copy(std::uint32_t rank, OpCode op, Lane lane, TaskKind kind, Operand from, Operand to,
            std::int64_t bytes) {
    builder_.Add({.rank = rank,
                  .kind = kind,
                  .lane = lane,
                  .shape = {.op = op, .dims = {bytes}},
                  .reads = {from},
                  .writes = {to},
                  .micro_batch = micro_batch_});
  }
  // A collective in every group of ranks that differ only in tp, or only in cp and dp.
  void TpCollective(OpCode op, const Buffers& in, const Buffers& out, std::int64_t bytes);
  void DpCollective(OpCode op, const Buffers& in, const Buffers& out, std::int64_t bytes);
  // Sum over tensor parallel: all-reduce in place, or reduce-scatter and all-gather.
  Buffers SumOverTp(const Buffers& partial, std::int64_t bytes);

  void AddStates();
  void Forward(std::uint32_t micro_batch);
  void Backward(std::uint32_t micro_batch);
  void Optimizer();

  TinyPlan plan_;
  std::uint32_t ranks_;
  GraphBuilder builder_;
  std::int64_t n_;
  std::uint16_t micro_batch_ = kNoTag;
  std::vector<Rank> rank_;
  std::vector<TensorInfo> tensors_;
};

void TinyModel::Register(BufferId buffer, std::uint32_t rank, StateKind state,
                         std::int64_t element_bytes) {
  constexpr std::array<TensorKind, 3> kKinds = {TensorKind::kTokenEmbedding, TensorKind::kUpWeight,
                                                TensorKind::kDownWeight};
  constexpr std::array<ShardAxis, 3> kAxes = {ShardAxis::kWhole, ShardAxis::kRows,
                                              ShardAxis::kColumns};
  for (int i = 0; i < 3; ++i) {
    const auto at = static_cast<std::size_t>(i);
    TensorInfo info;
    info.buffer = buffer;
    info.slice = {Begin(i) * element_bytes, Elements(i) * element_bytes};
    info.kind = kKinds[at];
    info.state = state;
    info.block = 0;
    info.shard_index = shard(rank);
    info.shard_count = shards();
    if (i > 0 && plan_.t > 1) {
      info.axis = kAxes[at];
      info.axis_index = static_cast<std::uint16_t>(tp(rank));
      info.axis_count = static_cast<std::uint16_t>(plan_.t);
    }
    tensors_.push_back(info);
  }
}

BufferId TinyModel::AddData(std::uint32_t rank, TensorKind kind, std::uint32_t micro_batch,
                            std::int64_t bytes) {
  const BufferId buffer = builder_.AddBuffer(rank, bytes, {.persistent = true});
  TensorInfo info;
  info.buffer = buffer;
  info.slice = {0, bytes};
  info.kind = kind;
  info.state = StateKind::kData;
  info.micro_batch = dp(rank) * plan_.m + micro_batch;
  info.cp_index = static_cast<std::uint16_t>(cp(rank));
  info.cp_count = static_cast<std::uint16_t>(plan_.c);
  tensors_.push_back(info);
  return buffer;
}

void TinyModel::AddStates() {
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    const std::int64_t elements = ChunkElements();
    const std::int64_t mine = elements / shards();
    Rank rank;
    rank.parameters = builder_.AddBuffer(r, elements * 2, {.persistent = true});
    rank.gradients = builder_.AddBuffer(r, elements * 4, {.role = Role::kGradient});
    const GraphBuilder::BufferSpec state{.dtype = Dtype::kFp32, .persistent = true};
    rank.master = builder_.AddBuffer(r, mine * 4, state);
    rank.moment1 = builder_.AddBuffer(r, mine * 4, state);
    rank.moment2 = builder_.AddBuffer(r, mine * 4, state);
    Register(rank.parameters, r, StateKind::kParameter, 2);
    Register(rank.master, r, StateKind::kMaster, 4);
    Register(rank.moment1, r, StateKind::kMoment1, 4);
    Register(rank.moment2, r, StateKind::kMoment2, 4);
    rank_.push_back(std::move(rank));
  }
}

void TinyModel::TpCollective(OpCode op, const Buffers& in, const Buffers& out, std::int64_t bytes) {
  for (std::uint32_t first = 0; first < ranks_; first += plan_.t) {
    builder_.Collective(op, {in.begin() + first, in.begin() + first + plan_.t},
                        {out.begin() + first, out.begin() + first + plan_.t}, bytes, Lane::kTp);
  }
}

void TinyModel::DpCollective(OpCode op, const Buffers& in, const Buffers& out, std::int64_t bytes) {
  for (std::uint32_t first = 0; first < plan_.t; ++first) {
    Buffers inputs, outputs;
    for (std::uint32_t r = first; r < ranks_; r += plan_.t) {
      inputs.push_back(in[r]);
      outputs.push_back(out[r]);
    }
    builder_.Collective(op, inputs, outputs, bytes, Lane::kDp);
  }
}

TinyModel::Buffers TinyModel::SumOverTp(const Buffers& partial, std::int64_t bytes) {
  if (plan_.t == 1) return partial;
  if (!plan_.sequence_parallel) {
    TpCollective(OpCode::kAllReduce, partial, partial, bytes);
    return partial;
  }
  Buffers shards, full;
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    shards.push_back(New(r, bytes / plan_.t));
    full.push_back(New(r, bytes));
  }
  TpCollective(OpCode::kReduceScatter, partial, shards, bytes);
  TpCollective(OpCode::kAllGather, shards, full, bytes);
  return full;
}

void TinyModel::Forward(std::uint32_t micro_batch) {
  const std::int64_t ffn = kFfn / plan_.t;
  const std::int64_t x_bytes = n_ * kHidden * 2;
  const std::int64_t act_bytes = n_ * ffn * 2;
  Buffers z;
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    Rank& rank = rank_[r];
    Saved saved;
    saved.tokens = AddData(r, TensorKind::kTokens, micro_batch, n_ * 4);
    saved.labels = AddData(r, TensorKind::kLabels, micro_batch, n_ * 4);
    saved.slot = builder_.AddBuffer(r, x_bytes + act_bytes);
    saved.x = builder_.Part(saved.slot, 0, x_bytes);
    saved.act = builder_.Part(saved.slot, x_bytes, act_bytes);
    const Operand up = New(r, act_bytes);
    Compute(r, {.op = OpCode::kEmbeddingForward}, {{saved.tokens}, TensorOf(rank.parameters, 0, 2)},
            {saved.x});
    Compute(r, {.op = OpCode::kGemmForward}, {saved.x, TensorOf(rank.parameters, 1, 2)}, {up});
    saved.mask = builder_.AddBuffer(r, act_bytes / 2);
    Compute(r, {.op = OpCode::kDropoutForward}, {up}, {saved.act, {saved.mask}});
    z.push_back(New(r, n_ * kVocab * 2));
    Compute(r, {.op = OpCode::kGemmForward}, {saved.act, TensorOf(rank.parameters, 2, 2)},
            {z.back()});
    if (plan_.offload) {
      // Half of the second tensor stays on the device.
      const std::int64_t tail_bytes = act_bytes / 2;
      const std::int64_t head_bytes = x_bytes + act_bytes - tail_bytes;
      saved.host = builder_.AddBuffer(r, head_bytes, {.pool = Pool::kPinnedHost});
      saved.tail = builder_.AddBuffer(r, tail_bytes);
      Copy(r, OpCode::kCopyD2H, Lane::kD2H, TaskKind::kD2H, {saved.slot}, {saved.host}, head_bytes);
      Copy(r, OpCode::kCopyOnDevice, Lane::kCompute, TaskKind::kCompute,
           builder_.Part(saved.slot, head_bytes, tail_bytes), {saved.tail}, tail_bytes);
    }
    rank.saved.push_back(saved);
  }
  const Buffers logits = SumOverTp(z, n_ * kVocab * 2);
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    Saved& saved = rank_[r].saved.back();
    saved.logits = logits[r].buffer;
    const Operand stats = New(r, 3 * n_ * 4);
    saved.stats = builder_.AddBuffer(r, 2 * n_ * 4);
    if (micro_batch == 0) {
      rank_[r].loss = AddData(r, TensorKind::kLoss, 0, std::int64_t{8} * plan_.m);
    }
    const Operand loss = builder_.Part(rank_[r].loss, std::int64_t{8} * micro_batch, 8);
    Compute(r, {.op = OpCode::kCrossEntropyStats}, {logits[r], {saved.labels}}, {stats});
    Compute(r, {.op = OpCode::kCrossEntropyLoss}, {stats}, {loss, {saved.stats}});
  }
}

void TinyModel::Backward(std::uint32_t micro_batch) {
  const std::int64_t ffn = kFfn / plan_.t;
  const std::int64_t x_bytes = n_ * kHidden * 2;
  const std::int64_t act_bytes = n_ * ffn * 2;
  const std::uint16_t flags = micro_batch > 0 ? kAccumulateGradient : 0;
  const auto wgrad = [&](std::uint32_t r, OpCode op, Operand a, Operand b, Operand gradient) {
    std::vector<Operand> reads{a, b};
    if (flags != 0) reads.push_back(gradient);
    Compute(r, {.op = op, .flags = flags}, reads, {gradient});
  };
  Buffers dx;
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    Rank& rank = rank_[r];
    Saved& saved = rank.saved[micro_batch];
    if (plan_.offload) {
      const std::int64_t tail_bytes = act_bytes / 2;
      const std::int64_t head_bytes = x_bytes + act_bytes - tail_bytes;
      const BufferId reload = builder_.AddBuffer(r, x_bytes + act_bytes);
      Copy(r, OpCode::kCopyH2D, Lane::kH2D, TaskKind::kH2D, {saved.host}, {reload}, head_bytes);
      Copy(r, OpCode::kCopyOnDevice, Lane::kCompute, TaskKind::kCompute, {saved.tail},
           builder_.Part(reload, head_bytes, tail_bytes), tail_bytes);
      saved.x = builder_.Part(reload, 0, x_bytes);
      saved.act = builder_.Part(reload, x_bytes, act_bytes);
    }
    const Operand dlogits{saved.logits};
    const Operand dact = New(r, act_bytes);
    const Operand dup = New(r, act_bytes);
    Compute(r, {.op = OpCode::kCrossEntropyBackward}, {dlogits, {saved.labels}, {saved.stats}},
            {dlogits});
    Compute(r, {.op = OpCode::kGemmDgrad}, {dlogits, TensorOf(rank.parameters, 2, 2)}, {dact});
    wgrad(r, OpCode::kGemmWgrad, saved.act, dlogits, TensorOf(rank.gradients, 2, 4));
    Compute(r, {.op = OpCode::kDropoutBackward}, {dact, {saved.mask}}, {dup});
    wgrad(r, OpCode::kGemmWgrad, saved.x, dup, TensorOf(rank.gradients, 1, 4));
    dx.push_back(New(r, x_bytes));
    Compute(r, {.op = OpCode::kGemmDgrad}, {dup, TensorOf(rank.parameters, 1, 2)}, {dx.back()});
  }
  const Buffers gradient = SumOverTp(dx, x_bytes);
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    wgrad(r, OpCode::kEmbeddingBackward, {rank_[r].saved[micro_batch].tokens}, gradient[r],
          TensorOf(rank_[r].gradients, 0, 4));
  }
}

void TinyModel::Optimizer() {
  micro_batch_ = kNoTag;
  const std::int64_t elements = ChunkElements();
  Buffers whole, mine, norms, coefficients, losses;
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    whole.push_back({rank_[r].gradients});
    mine.push_back(shards() > 1 ? ShardOf(rank_[r].gradients, r, 4) : whole.back());
    losses.push_back({rank_[r].loss});
    norms.push_back(New(r, 32));
    coefficients.push_back(New(r, 8));
  }
  if (shards() > 1) DpCollective(OpCode::kReduceScatter, whole, mine, elements * 4);
  if (shards() > 1) {
    DpCollective(OpCode::kAllReduce, losses, losses, std::int64_t{8} * plan_.m);
  }
  if (plan_.clip) {
    for (std::uint32_t r = 0; r < ranks_; ++r) {
      // The embedding is on every tensor-parallel rank: it counts on the first.
      OpShape shape{.op = OpCode::kGradNorm,
                    .index = static_cast<std::uint16_t>(shard(r)),
                    .count = static_cast<std::uint16_t>(shards())};
      shape.dims = {elements, tp(r) == 0 ? 0 : Elements(0), elements};
      Compute(r, shape, {mine[r]}, {norms[r]});
    }
    if (ranks_ > 1) builder_.Collective(OpCode::kAllReduce, norms, norms, 32, Lane::kDp);
    for (std::uint32_t r = 0; r < ranks_; ++r) {
      Compute(r, {.op = OpCode::kClipCoefficient}, {norms[r]}, {coefficients[r]});
    }
  }
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    const Rank& rank = rank_[r];
    const Operand parameter =
        shards() > 1 ? ShardOf(rank.parameters, r, 2) : Operand{rank.parameters};
    std::vector<Operand> reads{mine[r], {rank.master}, {rank.moment1}, {rank.moment2}};
    if (plan_.clip) reads.push_back(coefficients[r]);
    Compute(r,
            {.op = OpCode::kAdam, .flags = static_cast<std::uint16_t>(plan_.clip ? kHasClip : 0)},
            reads, {{rank.master}, {rank.moment1}, {rank.moment2}, parameter});
  }
}

TaskGraph TinyModel::Build() {
  AddStates();
  if (shards() > 1) {
    Buffers mine, whole;
    for (std::uint32_t r = 0; r < ranks_; ++r) {
      mine.push_back(ShardOf(rank_[r].parameters, r, 2));
      whole.push_back({rank_[r].parameters});
    }
    DpCollective(OpCode::kAllGather, mine, whole, ChunkElements() * 2);
  }
  for (std::uint32_t i = 0; i < plan_.m; ++i) {
    micro_batch_ = static_cast<std::uint16_t>(i);
    Forward(i);
  }
  for (std::uint32_t i = 0; i < plan_.m; ++i) {
    micro_batch_ = static_cast<std::uint16_t>(i);
    Backward(i);
  }
  Optimizer();
  TaskGraph graph = builder_.Build();
  graph.tensors = tensors_;
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    graph.ranks[r].tp = static_cast<std::uint16_t>(tp(r));
    graph.ranks[r].cp = static_cast<std::uint16_t>(cp(r));
    graph.ranks[r].dp = static_cast<std::uint16_t>(dp(r));
  }
  return graph;
}

}  // namespace

TaskGraph MakeTinyModel(const TinyPlan& plan) { return TinyModel(plan).Build(); }

TaskId FindTask(const TaskGraph& graph, RankId rank, OpCode op, int nth) {
  for (TaskId id = graph.rank_begin[rank]; id < graph.rank_begin[rank + 1]; ++id) {
    if (graph.shapes[graph.tasks[id].shape].op == op && nth-- == 0) return id;
  }
  return kNone;
}

}  // namespace twinstep
