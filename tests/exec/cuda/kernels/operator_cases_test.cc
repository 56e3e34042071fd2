// The cases are sound: the CPU backend runs each of them, and writes all that is to be compared.
#include "tests/exec/cuda/kernels/operator_cases.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/exec/cpu/kernel_tester.h"

namespace twinstep {
namespace {

void ExpectOutputsWritten(const OperatorCase& x) {
  SCOPED_TRACE(x.name);
  std::vector<Buffer> buffers;
  for (const CaseBuffer& buffer : x.buffers) {
    const std::int64_t elements =
        (buffer.content == Content::kAccumulator ? 4 : 1) * buffer.elements;
    const Dtype dtype = DtypeOf(x, buffer.content);
    Values values = Random(elements, 1);
    for (double& value : values) value = 0.55 + 0.45 * value;
    buffers.push_back(buffer.is_input ? Buffer(values, dtype) : Buffer::Poisoned(elements, dtype));
  }
  std::vector<const std::byte*> reads;
  std::vector<std::byte*> writes;
  for (const std::size_t i : x.reads) reads.push_back(buffers[i].data());
  for (const std::size_t i : x.writes) writes.push_back(buffers[i].data());
  RunKernel({.shape = x.shape,
             .gradient_dtype = x.gradient_dtype,
             .state_dtype = Dtype::kFp32,
             .reads = reads,
             .writes = writes,
             .step = x.step,
             .place = x.place});
  for (std::size_t i = 0; i < x.buffers.size(); ++i) {
    if (!x.buffers[i].is_output) continue;
    for (const double value : buffers[i].values())
      ASSERT_FALSE(std::isnan(value)) << "buffer " << i;
  }
}

TEST(OperatorCasesTest, TheCpuBackendRunsThem) {
  CaseSizes sizes{.samples = 2,
                  .sequence = 12,
                  .heads = 4,
                  .kv_heads = 2,
                  .head_dim = 6,
                  .ffn = 9,
                  .vocabulary = 40};
  for (const std::int64_t context_parallel : {1, 2}) {
    sizes.context_parallel = context_parallel;
    sizes.cp = context_parallel - 1;
    for (const OperatorCase& x : OperatorCases(sizes, Dtype::kFp32, Dtype::kFp32, true)) {
      ExpectOutputsWritten(x);
    }
    for (const OperatorCase& x : OperatorCases(sizes, Dtype::kBf16, Dtype::kFp32, true)) {
      ExpectOutputsWritten(x);
    }
  }
}

}  // namespace
}  // namespace twinstep
