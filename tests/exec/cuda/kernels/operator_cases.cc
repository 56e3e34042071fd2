#include "tests/exec/cuda/kernels/operator_cases.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

namespace twinstep {
namespace {

Dtype ComputeDtype(Dtype dtype) { return dtype == Dtype::kFp64 ? Dtype::kFp64 : Dtype::kFp32; }

// Builds one case; operands in the order of reads and writes.
class Builder {
 public:
  Builder(OpCode op, Dtype dtype, Dtype gradient_dtype, std::initializer_list<std::int64_t> dims,
          unsigned flags = 0) {
    case_.name = Name(op);
    case_.shape = {.op = op, .dtype = dtype, .flags = static_cast<std::uint16_t>(flags)};
    std::copy(dims.begin(), dims.end(), case_.shape.dims.begin());
    case_.gradient_dtype = gradient_dtype;
    case_.step = {.step = 4,
                  .learning_rate = 1e-2,
                  .weight_decay = 0.1,
                  .clip_norm = 0.7,
                  .hidden_dropout = 0.2,
                  .attention_dropout = 0.4,
                  .seed = 77};
    if (flags != 0) case_.name += "/" + std::to_string(flags);
  }

  Builder& Shard(std::int64_t index, std::int64_t count) {
    case_.shape.index = static_cast<std::uint16_t>(index);
    case_.shape.count = static_cast<std::uint16_t>(count);
    return *this;
  }
  Builder& Site(DropoutSite site) {
    case_.shape.index = static_cast<std::uint16_t>(site);
    return *this;
  }
  Builder& Place(const CaseSizes& s) {
    case_.place = {.tp = s.tp,
                   .tensor_parallel = s.tensor_parallel,
                   .cp = s.cp,
                   .context_parallel = s.context_parallel,
                   .micro_batch_size = s.samples,
                   .sequence_length = s.sequence,
                   .first_sample = 2 * s.samples,
                   .block = 3,
                   .position_rows = s.sequence + 2};
    return *this;
  }
  Builder& Tokens(std::int64_t end) {
    case_.tokens_end = end;
    return *this;
  }
  Builder& Named(const std::string& suffix) {
    case_.name += "/" + suffix;
    return *this;
  }

  // `touched`: how much of the operand is accessed.
  Builder& Read(Content content, std::int64_t elements, double touched = 1) {
    case_.reads.push_back(case_.buffers.size());
    case_.buffers.push_back({content, elements, true, false, touched});
    return *this;
  }
  Builder& Write(Content content, std::int64_t elements, double touched = 1) {
    case_.writes.push_back(case_.buffers.size());
    case_.buffers.push_back({content, elements, false, true, touched});
    return *this;
  }
  // Writes the i-th read in place; `touched` more accesses.
  Builder& Update(std::size_t read, double touched = 1) {
    case_.writes.push_back(case_.reads[read]);
    CaseBuffer& buffer = case_.buffers[case_.reads[read]];
    buffer.is_output = true;
    buffer.touched += touched;
    return *this;
  }

  OperatorCase Done() { return std::move(case_); }

 private:
  OperatorCase case_;
};

using enum Content;

// Every operator with the same dtypes.
struct Maker {
  const CaseSizes& s;
  Dtype dtype, gradient_dtype;
  std::vector<OperatorCase>& cases;

  Builder Make(OpCode op, std::initializer_list<std::int64_t> dims, unsigned flags = 0) const {
    Builder builder(op, dtype, gradient_dtype, dims, flags);
    builder.Place(s);
    return builder;
  }
  void Keep(Builder& builder) { cases.push_back(builder.Done()); }

  Builder Attention(OpCode op, unsigned flags = 0) const {
    Builder builder =
        Make(op, {s.samples, s.heads, s.kv_heads, s.positions(), s.sequence, s.head_dim}, flags);
    builder.Shard(s.cp, s.context_parallel);
    return builder;
  }
};

void Gates(Maker m) {
  const std::int64_t n = m.s.n(), f = m.s.ffn, e = n * f;
  for (const unsigned flags : {0u, unsigned{kRelu}}) {
    m.Keep(m.Make(OpCode::kActivationForward, {n, f}, flags).Read(kElement, e).Write(kElement, e));
    m.Keep(m.Make(OpCode::kActivationBackward, {n, f}, flags)
               .Read(kElement, e)
               .Read(kElement, e)
               .Write(kElement, e));
  }
  m.Keep(m.Make(OpCode::kSiluForward, {n, f}).Read(kElement, 2 * e, 0.5).Write(kElement, e));
  m.Keep(m.Make(OpCode::kSiluBackward, {n, f})
             .Read(kElement, e)
             .Read(kElement, 2 * e, 0.5)
             .Read(kElement, 2 * e, 0)
             .Update(2, 0.5));
  m.Keep(m.Make(OpCode::kMulForward, {n, f})
             .Read(kElement, e)
             .Read(kElement, 2 * e, 0.5)
             .Write(kElement, e));
  {
    // The gate half of dgate_up is not written: it is given, so that it can be compared.
    Builder builder = m.Make(OpCode::kMulBackward, {n, f});
    builder.Read(kElement, e).Read(kElement, e).Read(kElement, 2 * e, 0.5).Write(kElement, e);
    builder.Read(kElement, 2 * e, 0).Update(3, 0.5);
    OperatorCase done = builder.Done();
    done.reads.pop_back();
    m.cases.push_back(std::move(done));
  }
}

void Sums(Maker m) {
  const std::int64_t n = m.s.n(), h = m.s.h(), e = n * h;
  m.Keep(m.Make(OpCode::kAdd, {n, h}).Read(kElement, e).Read(kElement, e).Write(kElement, e));
  m.Keep(m.Make(OpCode::kAdd, {n, h}, kHasBias)
             .Read(kElement, e)
             .Read(kElement, e)
             .Read(kElement, h)
             .Write(kElement, e));
  m.Keep(m.Make(OpCode::kAccumulate, {e}).Read(kElement, e).Read(kElement, e).Update(1));
  {
    OperatorCase copy =
        m.Make(OpCode::kCopyOnDevice, {0}).Read(kElement, e).Write(kElement, e).Done();
    copy.shape.dims[0] = e * DtypeBytes(m.dtype);
    m.cases.push_back(std::move(copy));
  }
}

void Dropouts(Maker m, bool unfused) {
  const std::int64_t n = m.s.n(), h = m.s.h(), e = n * h;
  for (const unsigned flags : {0u, unsigned{kHasBias}}) {
    Builder builder = m.Make(OpCode::kDropoutAdd, {n, h}, flags);
    builder.Site(DropoutSite::kMlpResidual).Read(kElement, e).Read(kElement, e);
    if (flags != 0) builder.Read(kElement, h);
    m.Keep(builder.Write(kElement, e).Write(kMask, e));
  }
  m.Keep(m.Make(OpCode::kDropoutForward, {n, h})
             .Site(DropoutSite::kEmbedding)
             .Read(kElement, e)
             .Write(kElement, e)
             .Write(kMask, e));
  m.Keep(m.Make(OpCode::kDropoutBackward, {n, h})
             .Site(DropoutSite::kEmbedding)
             .Read(kElement, e)
             .Read(kMask, e)
             .Write(kElement, e));
  if (!unfused) return;
  const std::int64_t rows = n * m.s.heads, square = rows * m.s.sequence;
  m.Keep(m.Make(OpCode::kDropoutForward, {rows, m.s.sequence})
             .Named("probabilities")
             .Site(DropoutSite::kAttentionProbabilities)
             .Read(kElement, square)
             .Write(kElement, square)
             .Write(kMask, square));
}

void Norms(Maker m, std::int64_t n, std::int64_t h) {
  const std::int64_t e = n * h;
  for (const unsigned kind : {0u, unsigned{kRmsNorm}}) {
    const bool rms = kind != 0;
    Builder forward = m.Make(OpCode::kNormForward, {n, h}, kind);
    forward.Read(kElement, e).Read(kElement, h);
    if (!rms) forward.Read(kElement, h);
    m.Keep(forward.Write(kElement, e));
    for (const unsigned more : {0u, unsigned{kHasResidual | kAccumulateGradient}}) {
      Builder backward = m.Make(OpCode::kNormBackward, {n, h}, kind | more);
      backward.Read(kElement, e).Read(kElement, e).Read(kElement, h);
      if (more != 0) {
        backward.Read(kElement, e).Read(kGradient, h);
        if (!rms) backward.Read(kGradient, h);
        backward.Write(kElement, e).Update(4);
        if (!rms) backward.Update(5);
      } else {
        backward.Write(kElement, e).Write(kGradient, h);
        if (!rms) backward.Write(kGradient, h);
      }
      m.Keep(backward);
    }
  }
}

void Splits(Maker m) {
  const std::int64_t q = m.s.n() * m.s.h(), kv = m.s.n() * 2 * m.s.kv_heads * m.s.head_dim;
  for (const unsigned flags : {0u, unsigned{kRotary}}) {
    m.Keep(m.Attention(OpCode::kSplitQkv, flags)
               .Read(kElement, q + kv)
               .Write(kElement, q)
               .Write(kElement, kv));
    m.Keep(m.Attention(OpCode::kSplitQkvBackward, flags)
               .Read(kElement, q)
               .Read(kElement, kv)
               .Write(kElement, q + kv));
  }
}

void UnfusedAttention(Maker m) {
  const std::int64_t q = m.s.n() * m.s.h();
  const std::int64_t kv = m.s.samples * m.s.sequence * 2 * m.s.kv_heads * m.s.head_dim;
  const std::int64_t square = m.s.n() * m.s.heads * m.s.sequence;
  m.Keep(m.Attention(OpCode::kAttentionScores)
             .Read(kElement, q)
             .Read(kElement, kv, 0.5)
             .Write(kElement, square));
  m.Keep(m.Attention(OpCode::kSoftmaxForward).Read(kElement, square).Write(kElement, square));
  m.Keep(m.Attention(OpCode::kAttentionContext)
             .Read(kElement, square)
             .Read(kElement, kv, 0.5)
             .Write(kElement, q));
  {
    // The half of dkv that is not written is given, so that it can be compared.
    Builder builder = m.Attention(OpCode::kAttentionContextBackward);
    builder.Read(kElement, q).Read(kElement, square).Read(kElement, kv, 0.5);
    builder.Write(kElement, square).Read(kElement, kv, 0).Update(3, 0.5);
    OperatorCase done = builder.Done();
    done.reads.pop_back();
    m.cases.push_back(std::move(done));
  }
  m.Keep(m.Attention(OpCode::kSoftmaxBackward)
             .Read(kElement, square)
             .Read(kElement, square)
             .Write(kElement, square));
  m.Keep(m.Attention(OpCode::kAttentionScoresBackward)
             .Read(kElement, square)
             .Read(kElement, q)
             .Read(kElement, kv, 0.5)
             .Read(kElement, kv, 0)
             .Write(kElement, q)
             .Update(3, 0.5));
}

void Embeddings(Maker m) {
  const CaseSizes& s = m.s;
  const std::int64_t n = s.n(), h = s.h(), v = s.vocabulary, e = n * h;
  const std::int64_t position_rows = s.sequence + 2;
  const double read_rows = static_cast<double>(n) / static_cast<double>(v);
  for (const std::int64_t shard : {0, 1}) {
    for (const unsigned flags : {0u, unsigned{kHasPositions}}) {
      const std::int64_t shards = shard == 0 ? 1 : 2;
      Builder forward =
          m.Make(OpCode::kEmbeddingForward, {n, h, v, s.samples, s.cp, s.context_parallel}, flags);
      forward.Shard(shard, shards)
          .Tokens(v * shards)
          .Read(kTokens, n)
          .Read(kElement, v * h, read_rows);
      if (flags != 0) forward.Read(kElement, position_rows * h);
      m.Keep(forward.Write(kElement, e).Named("shard" + std::to_string(shard)));
    }
    for (const unsigned flags :
         {0u, unsigned{kAccumulateGradient}, unsigned{kHasPositions},
          unsigned{kHasPositions | kAccumulateGradient | kAccumulatePositions}}) {
      Builder backward =
          m.Make(OpCode::kEmbeddingBackward, {n, h, v, s.samples, s.cp, s.context_parallel}, flags);
      backward.Shard(shard, shard + 1).Tokens(v * (shard + 1)).Read(kTokens, n).Read(kElement, e);
      if ((flags & kAccumulateGradient) != 0) {
        // Rows without tokens are not touched: at most one row a token.
        backward.Read(kGradient, v * h, std::min(1.0, read_rows))
            .Update(2, std::min(1.0, read_rows));
      } else {
        backward.Write(kGradient, v * h);
      }
      if ((flags & kAccumulatePositions) != 0) {
        backward.Read(kGradient, position_rows * h).Update(3);
      } else if ((flags & kHasPositions) != 0) {
        backward.Write(kGradient, position_rows * h);
      }
      m.Keep(backward.Named("shard" + std::to_string(shard)));
    }
  }
}

void Losses(Maker m) {
  const std::int64_t n = m.s.n(), v = m.s.vocabulary, e = n * v;
  // The second shard's last columns are padding.
  for (const std::int64_t shard : {0, 1}) {
    const std::int64_t unpadded = shard == 0 ? 0 : 2 * v - std::min<std::int64_t>(5, v - 1);
    m.Keep(m.Make(OpCode::kCrossEntropyStats, {n, v, 2 * n, unpadded})
               .Shard(shard, shard + 1)
               .Tokens(v * (shard + 1))
               .Read(kElement, e)
               .Read(kTokens, n)
               .Write(kStatistics, 3 * n)
               .Named("shard" + std::to_string(shard)));
    m.Keep(m.Make(OpCode::kCrossEntropyLoss, {n, v, 2 * n, unpadded})
               .Shard(0, shard + 1)
               .Read(kStatistics, (shard + 1) * 3 * n)
               .Write(kScalar, 1)
               .Write(kStatistics, 2 * n)
               .Named("shards" + std::to_string(shard + 1)));
    m.Keep(m.Make(OpCode::kCrossEntropyBackward, {n, v, 2 * n, unpadded})
               .Shard(shard, shard + 1)
               .Tokens(v * (shard + 1))
               .Read(kElement, e)
               .Read(kTokens, n)
               .Read(kStatistics, 2 * n)
               .Update(0)
               .Named("shard" + std::to_string(shard)));
  }
}

void Optimizer(Maker m) {
  const std::int64_t e = m.s.h() * m.s.ffn;
  for (const unsigned clip : {0u, unsigned{kHasClip}}) {
    Builder adam = m.Make(OpCode::kAdam, {e, e / 3}, clip);
    adam.Read(kGradient, e).Read(kState, e).Read(kState, e).Read(kState, e);
    if (clip != 0) adam.Read(kScalar, 1);
    m.Keep(adam.Update(1).Update(2).Update(3).Write(kElement, e));
    if (m.dtype != Dtype::kFp32 && m.dtype != Dtype::kFp64) continue;
    Builder in_place = m.Make(OpCode::kAdam, {e, e / 3}, clip | kMasterIsParameter);
    in_place.Read(kGradient, e).Read(kState, e).Read(kState, e).Read(kElement, e);
    if (clip != 0) in_place.Read(kScalar, 1);
    m.Keep(in_place.Update(1).Update(2).Update(3));
  }
  Maker of_gradient{m.s, m.gradient_dtype, m.gradient_dtype, m.cases};
  m.Keep(of_gradient.Make(OpCode::kGradNorm, {e, 0, e}).Read(kElement, e).Write(kAccumulator, 1));
  // The second of two shards, of which a part counts.
  m.Keep(of_gradient.Make(OpCode::kGradNorm, {2 * e, 3, 2 * e - 5}, kAccumulateGradient)
             .Shard(1, 2)
             .Read(kElement, e)
             .Read(kAccumulator, 1)
             .Update(1));
  m.Keep(m.Make(OpCode::kClipCoefficient, {}).Read(kAccumulator, 1).Write(kScalar, 1));
}

}  // namespace

std::vector<OperatorCase> OperatorCases(const CaseSizes& sizes, Dtype dtype, Dtype gradient_dtype,
                                        bool unfused) {
  std::vector<OperatorCase> cases;
  const Maker m{sizes, dtype, gradient_dtype, cases};
  Norms(m, sizes.n(), sizes.h());
  Splits(m);
  if (unfused) UnfusedAttention(m);
  Gates(m);
  Sums(m);
  Dropouts(m, unfused);
  Embeddings(m);
  Losses(m);
  Optimizer(m);
  return cases;
}

std::vector<OperatorCase> NormCases(std::int64_t n, std::int64_t h, Dtype dtype,
                                    Dtype gradient_dtype) {
  std::vector<OperatorCase> cases;
  const CaseSizes sizes;
  Norms({sizes, dtype, gradient_dtype, cases}, n, h);
  return cases;
}

Dtype DtypeOf(const OperatorCase& of, Content content) {
  switch (content) {
    case kElement:
      return of.shape.dtype;
    case kGradient:
      return of.gradient_dtype;
    case kState:
    case kStatistics:
      return ComputeDtype(of.shape.dtype);
    case kTokens:
      return Dtype::kInt32;
    case kMask:
      return Dtype::kUint8;
    case kScalar:
    case kAccumulator:
      return Dtype::kFp64;
  }
  return Dtype::kFp64;
}

}  // namespace twinstep
