// Where a graph's logical tensors lie when an iteration starts and ends, in symbolic values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/graph/symbolic_memory.h"
#include "sim/graph/symbolic_value.h"
#include "sim/result.h"

namespace twinstep {

// The bytes of a tensor that a buffer holds: `bytes` at `offset` of the buffer are
// [begin, begin + bytes) of the `total` bytes of the rank's tensor-parallel shard (of data: of the
// whole micro-batch, of which context parallel ranks hold parts).
struct TensorPlace {
  std::int64_t offset = 0, bytes = 0;
  std::int64_t begin = 0, total = 0;
};

// Places of TaskGraph::tensors; bytes = 0 where a ZeRO shard holds nothing of the tensor.
std::vector<TensorPlace> PlaceTensors(const TaskGraph& graph);

// The block by which a logical tensor is known: kNoTag for what the model has once, copies of which
// (tied embeddings on the first and the last stage) are one tensor.
std::uint16_t LogicalBlock(const TensorInfo& tensor);

// What a tensor holds before the iteration: a hash of what it is. Losses hold nothing.
SymbolicValue InitialValue(const TensorInfo& tensor);

// A weight or an optimizer state after the iteration, or what was found on all ranks' pieces of it.
struct SymbolicTensor {
  std::uint16_t block = kNoTag;  // LogicalBlock.
  TensorKind kind = TensorKind::kTokens;
  StateKind state = StateKind::kParameter;
  std::uint64_t hash = 0;
  bool operator==(const SymbolicTensor&) const = default;
};
// "master of qkv_weight of block 3"
std::string Describe(const SymbolicTensor& tensor);

struct SymbolicResult {
  std::vector<SymbolicTensor> tensors;  // Sorted by block, kind, state.
  std::uint64_t loss = 0;               // The batch's, which every rank that has it agrees on.
  bool operator==(const SymbolicResult&) const = default;
};

// Reads the result from memory: all pieces of a tensor must hold one value and cover the tensor,
// and every rank that holds losses must hold the whole batch's (their sum counts, however they are
// spread over micro-batches). Else an Error (kNo, rule "symbolic").
Result<SymbolicResult> CollectTensors(const TaskGraph& graph,
                                      const std::vector<TensorPlace>& places,
                                      const SymbolicMemory& memory);

}  // namespace twinstep
