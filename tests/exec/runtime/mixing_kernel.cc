#include "tests/exec/runtime/mixing_kernel.h"

#include <algorithm>
#include <cstring>

namespace twinstep {
namespace {

std::uint32_t Load(const std::byte* bytes, std::int64_t word) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes + 4 * word, sizeof(value));
  return value;
}

// As fp32 and as the halves of fp64 a small normal number, whose sums stay finite.
void Store(std::uint64_t hash, std::byte* bytes, std::int64_t word) {
  const auto value = static_cast<std::uint32_t>(0x3f000000u | (hash >> 41));
  std::memcpy(bytes + 4 * word, &value, sizeof(value));
}

std::uint64_t Combine(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 32;
}

// Element by element: what lies between a chunk's tensors is nobody's, and must stay there.
void MixElements(const TaskGraph& graph, TaskId id, const KernelCall& call) {
  const std::span<const Operand> reads = graph.Reads(id);
  const std::span<const Operand> writes = graph.Writes(id);
  const std::int64_t words = graph.OperandBytes(writes[0]) / 4;
  for (std::int64_t k = 0; k < words; ++k) {
    std::uint64_t hash = id;
    for (std::size_t i = 0; i < reads.size(); ++i) {
      // Scalars (the clip coefficient) go into every element.
      hash = Combine(hash, Load(call.reads[i], k % (graph.OperandBytes(reads[i]) / 4)));
    }
    for (std::size_t i = 0; i < writes.size(); ++i) Store(Combine(hash, i), call.writes[i], k);
  }
}

void MixAll(const TaskGraph& graph, TaskId id, const KernelCall& call) {
  std::uint64_t hash = id;
  const std::span<const Operand> reads = graph.Reads(id);
  for (std::size_t i = 0; i < reads.size(); ++i) {
    std::int64_t begin = 0;
    std::int64_t end = graph.OperandBytes(reads[i]) / 4;
    if (call.shape.op == OpCode::kGradNorm && i == 0) {
      const std::int64_t shard_begin = call.shape.index * end;
      begin = std::max(begin, call.shape.dims[1] - shard_begin);
      end = std::min(end, call.shape.dims[2] - shard_begin);
    }
    for (std::int64_t k = begin; k < end; ++k) hash = Combine(hash, Load(call.reads[i], k));
  }
  const std::span<const Operand> writes = graph.Writes(id);
  for (std::size_t i = 0; i < writes.size(); ++i) {
    const std::int64_t words = graph.OperandBytes(writes[i]) / 4;
    for (std::int64_t k = 0; k < words; ++k) Store(hash = Combine(hash, i), call.writes[i], k);
  }
}

}  // namespace

std::function<void(TaskId, const KernelCall&)> MixingKernel(const TaskGraph& graph) {
  return [&graph](TaskId id, const KernelCall& call) {
    if (call.shape.op == OpCode::kAdam || call.shape.op == OpCode::kAccumulate) {
      MixElements(graph, id, call);
    } else {
      MixAll(graph, id, call);
    }
  };
}

}  // namespace twinstep
