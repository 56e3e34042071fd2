// Operators of the graph with operands of a model's sizes, to be compared with the CPU backend and
// to be timed.
//
//   for (const OperatorCase& x : OperatorCases(sizes, Dtype::kBf16, Dtype::kFp32)) { ... }
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/runtime/step_values.h"
#include "sim/graph/op.h"

namespace twinstep {

// What a buffer holds, and so its type and which numbers are drawn for it.
enum class Content {
  kElement,     // Of the shape's dtype, in [-1, 1).
  kGradient,    // Of the gradients' dtype, in [-1, 1).
  kState,       // Of the type that the dtype computes in, in [0.1, 1).
  kStatistics,  // Likewise.
  kTokens,      // Token ids, some of them outside of the shard.
  kMask,        // Bytes 0 and 1.
  kScalar,      // fp64 in [0.1, 1).
  kAccumulator  // Four limbs of an exact sum.
};

struct CaseBuffer {
  Content content = Content::kElement;
  std::int64_t elements = 0;
  bool is_input = false;   // Else poisoned before the operator runs.
  bool is_output = false;  // Compared.
  double touched = 1;      // Accesses of each byte, for the bandwidth.
};

struct OperatorCase {
  std::string name;
  OpShape shape;
  Dtype gradient_dtype = Dtype::kFp32;
  StepValues step;
  TaskPlace place;
  std::vector<CaseBuffer> buffers;
  std::vector<std::size_t> reads, writes;  // Of `buffers`; one in both is updated in place.
  std::int64_t tokens_end = 0;             // Token ids are below.
};

// A model's sizes on one rank.
struct CaseSizes {
  std::int64_t samples = 1, sequence = 1;  // Of the whole sequence.
  std::int64_t heads = 1, kv_heads = 1, head_dim = 1, ffn = 1, vocabulary = 1;
  std::int64_t cp = 0, context_parallel = 1, tp = 0, tensor_parallel = 1;

  std::int64_t positions() const { return sequence / context_parallel; }  // Local.
  std::int64_t n() const { return samples * positions(); }
  std::int64_t h() const { return heads * head_dim; }
};

// `unfused`: with the operators of unfused attention, whose operands grow with the sequence's
// square.
std::vector<OperatorCase> OperatorCases(const CaseSizes& sizes, Dtype dtype, Dtype gradient_dtype,
                                        bool unfused);

// Norms of rows of h elements.
std::vector<OperatorCase> NormCases(std::int64_t n, std::int64_t h, Dtype dtype,
                                    Dtype gradient_dtype);

Dtype DtypeOf(const OperatorCase& of, Content content);

}  // namespace twinstep
