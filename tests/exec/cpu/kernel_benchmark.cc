// Speed of the kernels at a tiny model's shapes and at larger ones.
//
//   bazel run //tests/exec/cpu:kernel_benchmark
#include <benchmark/benchmark.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "exec/cpu/kernel.h"
#include "tests/exec/cpu/kernel_tester.h"

namespace twinstep {
namespace {

// A model's sizes: tokens n = samples * sequence, hidden h = heads * head_dim.
struct Sizes {
  const char* name;
  std::int64_t samples, sequence, heads, kv_heads, head_dim, ffn, vocabulary;
  std::int64_t n() const { return samples * sequence; }
  std::int64_t h() const { return heads * head_dim; }
  std::int64_t kv() const { return 2 * kv_heads * head_dim; }
};
constexpr Sizes kTiny{"tiny", 4, 128, 4, 4, 16, 176, 256};
constexpr Sizes kSmall{"small", 1, 1024, 12, 12, 64, 3072, 32000};

// `bytes`: read and written, for the rate.
void RunOp(benchmark::State& state, const OpShape& shape, const Sizes& size,
           std::vector<Buffer> reads, std::vector<Buffer> writes) {
  std::vector<const std::byte*> read_pointers;
  std::vector<std::byte*> write_pointers;
  std::size_t bytes = 0;
  for (Buffer& buffer : reads) {
    read_pointers.push_back(buffer.data());
    bytes += buffer.bytes().size();
  }
  for (Buffer& buffer : writes) {
    write_pointers.push_back(buffer.data());
    bytes += buffer.bytes().size();
  }
  const StepValues step{.clip_norm = 1, .hidden_dropout = 0.1, .attention_dropout = 0.1};
  const KernelCall call{.shape = shape,
                        .gradient_dtype = Dtype::kFp32,
                        .state_dtype = Dtype::kFp32,
                        .reads = read_pointers,
                        .writes = write_pointers,
                        .step = step,
                        .place = {.micro_batch_size = size.samples,
                                  .sequence_length = size.sequence,
                                  .position_rows = size.sequence}};
  for ([[maybe_unused]] auto iteration : state) RunKernel(call);
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
  const double flops = Flops(shape);
  if (flops > 0) {
    state.counters["flop/s"] =
        benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
  }
}

struct Item {
  OpCode op;
  std::vector<std::int64_t> dims;
  unsigned flags;
  std::vector<std::int64_t> reads, writes;
  std::size_t wide_reads = 0, wide_writes = 0;  // Trailing operands that are fp32 in any case.
};

void Register(const Sizes& size, Dtype dtype, const Item& item) {
  OpShape shape{.op = item.op, .dtype = dtype, .flags = static_cast<std::uint16_t>(item.flags)};
  std::copy(item.dims.begin(), item.dims.end(), shape.dims.begin());
  const std::string name = std::string(size.name) + "/" + Name(dtype) + "/" + Name(item.op) +
                           (item.flags == 0 ? "" : "/" + std::to_string(item.flags));
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    const auto make = [&](const std::vector<std::int64_t>& counts, std::size_t wide) {
      std::vector<Buffer> buffers;
      for (std::size_t i = 0; i < counts.size(); ++i) {
        const bool is_wide = i + wide >= counts.size();
        buffers.emplace_back(Random(counts[i], 1), is_wide ? Dtype::kFp32 : dtype);
      }
      return buffers;
    };
    RunOp(state, shape, size, make(item.reads, item.wide_reads),
          make(item.writes, item.wide_writes));
  });
}

void RegisterAll(const Sizes& s, Dtype dtype) {
  const std::int64_t n = s.n(), h = s.h(), f = s.ffn, kv = s.kv(), v = s.vocabulary;
  const std::vector<std::int64_t> attention{s.samples,  s.heads,    s.kv_heads,
                                            s.sequence, s.sequence, s.head_dim};
  const std::int64_t square = s.samples * s.heads * s.sequence * s.sequence;
  const std::vector<Item> items{
      {OpCode::kGemmForward, {n, f, h}, 0, {n * h, f * h}, {n * f}},
      {OpCode::kGemmDgrad, {n, f, h}, 0, {n * f, f * h}, {n * h}},
      {OpCode::kGemmWgrad, {n, f, h}, kAccumulateGradient, {n * h, n * f, f * h}, {f * h}, 1, 1},
      {OpCode::kNormForward, {n, h}, kRmsNorm, {n * h, h}, {n * h}},
      {OpCode::kNormBackward, {n, h}, kRmsNorm, {n * h, n * h, h}, {n * h, h}, 0, 1},
      {OpCode::kSplitQkv, attention, kRotary, {n * (h + kv)}, {n * h, n * kv}},
      {OpCode::kAttentionForward, attention, 0, {n * h, n * kv}, {n * h, n * s.heads}, 0, 1},
      {OpCode::kAttentionForward,
       attention,
       kHasDropout,
       {n * h, n * kv},
       {n * h, n * s.heads},
       0,
       1},
      {OpCode::kAttentionBackward,
       attention,
       0,
       {n * h, n * h, n * kv, n * h, n * s.heads},
       {n * h, n * kv},
       1},
      {OpCode::kAttentionScores, attention, 0, {n * h, n * kv}, {square}},
      {OpCode::kSoftmaxForward, attention, 0, {square}, {square}},
      {OpCode::kActivationForward, {n, f}, 0, {n * f}, {n * f}},
      {OpCode::kActivationBackward, {n, f}, 0, {n * f, n * f}, {n * f}},
      {OpCode::kSiluForward, {n, f}, 0, {2 * n * f}, {n * f}},
      {OpCode::kAdd, {n, h}, 0, {n * h, n * h}, {n * h}},
      {OpCode::kCrossEntropyStats, {n, v, n}, 0, {n * v, n}, {3 * n}, 1, 1},
      {OpCode::kAdam, {f * h}, 0, {f * h, f * h, f * h, f * h}, {f * h, f * h, f * h, f * h}, 4, 0},
      {OpCode::kGradNorm, {f * h, 0, f * h}, 0, {f * h}, {8}, 0, 1},
  };
  for (const Item& item : items) {
    if (item.op == OpCode::kAdam && dtype != Dtype::kFp32) continue;
    Register(s, dtype, item);
  }
}

}  // namespace
}  // namespace twinstep

int main(int argc, char** argv) {
  using twinstep::Dtype;
  for (const Dtype dtype : {Dtype::kFp32, Dtype::kBf16}) {
    twinstep::RegisterAll(twinstep::kTiny, dtype);
    twinstep::RegisterAll(twinstep::kSmall, dtype);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
