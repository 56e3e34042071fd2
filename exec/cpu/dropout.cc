#include "exec/cpu/dropout.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "exec/cpu/element.h"
#include "exec/cpu/operands.h"
#include "exec/cpu/positions.h"
#include "exec/cpu/vector_clones.h"

namespace twinstep {
namespace {

// Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011): ten rounds that turn a counter of four words into four random words. Many counters side
// by side, so that the rounds become vector code.
constexpr int kRounds = 10;
constexpr std::uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
constexpr std::size_t kBatch = 16;
constexpr std::int64_t kWords = 4;

using Words = std::array<std::array<std::uint32_t, kBatch>, kWords>;

void Philox(std::uint64_t key, Words& x) {
  auto key0 = static_cast<std::uint32_t>(key);
  auto key1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < kBatch; ++i) {
      const std::uint64_t product0 = std::uint64_t{kMultiplier0} * x[0][i];
      const std::uint64_t product1 = std::uint64_t{kMultiplier1} * x[2][i];
      x[0][i] = static_cast<std::uint32_t>(product1 >> 32) ^ x[1][i] ^ key0;
      x[1][i] = static_cast<std::uint32_t>(product1);
      x[2][i] = static_cast<std::uint32_t>(product0 >> 32) ^ x[3][i] ^ key1;
      x[3][i] = static_cast<std::uint32_t>(product0);
    }
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
}

// One counter block is enough to mix what the mask of a whole tensor shares into a key.
std::uint64_t MixKey(std::uint64_t seed, std::int64_t step, DropoutSite site, std::int64_t layer) {
  Words x{};
  x[0][0] = static_cast<std::uint32_t>(step);
  x[1][0] = static_cast<std::uint32_t>(static_cast<std::uint64_t>(step) >> 32);
  x[2][0] = static_cast<std::uint32_t>(site);
  x[3][0] = static_cast<std::uint32_t>(layer);
  Philox(seed, x);
  return x[0][0] | std::uint64_t{x[1][0]} << 32;
}

double Probability(const StepValues& step, DropoutSite site) {
  return site == DropoutSite::kAttentionProbabilities ? step.attention_dropout
                                                      : step.hidden_dropout;
}

}  // namespace

DropoutCounter::DropoutCounter(const StepValues& step, DropoutSite site, std::int64_t layer)
    : key_(MixKey(step.seed, step.step, site, layer)) {
  const double probability = Probability(step, site);
  threshold_ = static_cast<std::uint64_t>(std::llround(std::clamp(probability, 0.0, 1.0) * 0x1p32));
  scale_ = probability < 1 ? 1 / (1 - probability) : 0;
}

TWINSTEP_VECTOR_CLONES void DropoutCounter::Draw(std::int64_t sample, std::int64_t position,
                                                 std::int64_t head, std::int64_t first,
                                                 std::int64_t count, std::uint8_t* keep) const {
  constexpr std::int64_t kBatchElements = kWords * static_cast<std::int64_t>(kBatch);
  const std::int64_t end = first + count;
  std::array<std::uint8_t, kBatchElements> flags;
  for (std::int64_t begin = first / kWords * kWords; begin < end; begin += kBatchElements) {
    Words x;
    for (std::size_t i = 0; i < kBatch; ++i) {
      x[0][i] = static_cast<std::uint32_t>(begin / kWords) + static_cast<std::uint32_t>(i);
      x[1][i] = static_cast<std::uint32_t>(position);
      x[2][i] = static_cast<std::uint32_t>(sample);
      x[3][i] = static_cast<std::uint32_t>(head);
    }
    Philox(key_, x);
    for (std::size_t i = 0; i < kBatch; ++i) {
      for (std::size_t word = 0; word < kWords; ++word) {
        flags[i * kWords + word] = x[word][i] >= threshold_ ? 1 : 0;
      }
    }
    const std::int64_t from = std::max(first, begin);
    const std::int64_t to = std::min(end, begin + kBatchElements);
    std::copy(flags.begin() + (from - begin), flags.begin() + (to - begin), keep + (from - first));
  }
}

namespace {

DropoutSite Site(const KernelCall& call) { return static_cast<DropoutSite>(call.shape.index); }

// The mask of a tensor [rows, width] of activations, or of attention probabilities [b, heads, s_q]
// by gathered keys, into `mask`.
void DrawMask(const KernelCall& call, const DropoutCounter& counter, std::uint8_t* mask) {
  const std::int64_t rows = Dim(call, 0), width = Dim(call, 1);
  const TaskPlace& place = call.place;
  if (Site(call) != DropoutSite::kAttentionProbabilities) {
    const TokenRows tokens(place, rows);
    for (std::int64_t i = 0; i < rows; ++i) {
      counter.Draw(tokens.Sample(i), tokens.Position(i), 0, 0, width, mask + i * width);
    }
    return;
  }
  const std::int64_t queries = place.sequence_length / place.context_parallel;
  const std::int64_t heads = rows / (queries * place.micro_batch_size);
  const LocalPositions positions(place.sequence_length, place.cp, place.context_parallel);
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t head = i / queries;
    const std::int64_t sample = place.first_sample + head / heads;
    const std::int64_t position = positions.Global(i % queries);
    ForEachGatheredRun(width, place.context_parallel, [&](const PositionRun& keys) {
      counter.Draw(sample, position, place.tp * heads + head % heads, keys.global, keys.length,
                   mask + i * width + keys.local);
    });
  }
}

template <typename T>
void Forward(const KernelCall& call) {
  using C = Compute<T>;
  const std::int64_t elements = Dim(call, 0) * Dim(call, 1);
  const DropoutCounter counter(call.step, Site(call), call.place.block);
  const C scale = static_cast<C>(counter.scale());
  const T* x = Read<T>(call, 0);
  T* y = Write<T>(call, 0);
  std::uint8_t* mask = Write<std::uint8_t>(call, 1);
  DrawMask(call, counter, mask);
  for (std::int64_t i = 0; i < elements; ++i) {
    Store(mask[i] != 0 ? Load(x[i]) * scale : C{0}, &y[i]);
  }
}

template <typename T>
void Add(const KernelCall& call) {
  using C = Compute<T>;
  const std::int64_t n = Dim(call, 0), width = Dim(call, 1);
  const DropoutCounter counter(call.step, Site(call), call.place.block);
  const C scale = static_cast<C>(counter.scale());
  const T* bias = Has(call, kHasBias) ? Read<T>(call, 2) : nullptr;
  DrawMask(call, counter, Write<std::uint8_t>(call, 1));
  for (std::int64_t i = 0; i < n; ++i) {
    const T* z = Read<T>(call, 0) + i * width;
    const T* residual = Read<T>(call, 1) + i * width;
    const std::uint8_t* mask = Write<std::uint8_t>(call, 1) + i * width;
    T* y = Write<T>(call, 0) + i * width;
    if (bias != nullptr) {
      for (std::int64_t j = 0; j < width; ++j) {
        const C dropped = mask[j] != 0 ? (Load(z[j]) + Load(bias[j])) * scale : C{0};
        Store(dropped + Load(residual[j]), &y[j]);
      }
    } else {
      for (std::int64_t j = 0; j < width; ++j) {
        const C dropped = mask[j] != 0 ? Load(z[j]) * scale : C{0};
        Store(dropped + Load(residual[j]), &y[j]);
      }
    }
  }
}

template <typename T>
void Backward(const KernelCall& call) {
  using C = Compute<T>;
  const std::int64_t elements = Dim(call, 0) * Dim(call, 1);
  const double probability = Probability(call.step, Site(call));
  const C scale = static_cast<C>(probability < 1 ? 1 / (1 - probability) : 0);
  const T* dy = Read<T>(call, 0);
  const std::uint8_t* mask = Read<std::uint8_t>(call, 1);
  T* dx = Write<T>(call, 0);
  for (std::int64_t i = 0; i < elements; ++i) {
    Store(mask[i] != 0 ? Load(dy[i]) * scale : C{0}, &dx[i]);
  }
}

}  // namespace

TWINSTEP_VECTOR_CLONES void DropoutForward(const KernelCall& call) {
  WithElement(call.shape.dtype, [&](auto element) { Forward<decltype(element)>(call); });
}

TWINSTEP_VECTOR_CLONES void DropoutAdd(const KernelCall& call) {
  WithElement(call.shape.dtype, [&](auto element) { Add<decltype(element)>(call); });
}

TWINSTEP_VECTOR_CLONES void DropoutBackward(const KernelCall& call) {
  WithElement(call.shape.dtype, [&](auto element) { Backward<decltype(element)>(call); });
}

}  // namespace twinstep
