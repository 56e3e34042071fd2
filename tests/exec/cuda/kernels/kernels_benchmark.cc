// Bandwidth of every operator at the shapes of a 1.345B Llama-like model (h 2048, 16 heads, ffn
// 5504, vocabulary 32000) at micro-batch 32 and sequence 1024, in bf16 with fp32 gradients: CUDA
// events around single launches, the caches cleared before each, medians. Behind them TFLOP/s of
// flash attention, whole sequences and what ranks of two have of them.
//
//   kernels_benchmark [launches, default 20] [part of an operator's name]
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "exec/cuda/attention.h"
#include "exec/cuda/kernels/elementwise.h"
#include "tests/exec/cuda/kernels/device_case.h"
#include "tests/exec/cuda/kernels/operator_cases.h"

namespace twinstep {
namespace {

constexpr std::size_t kPatternBytes = std::size_t{1} << 20;
constexpr std::size_t kCacheBytes = std::size_t{1} << 28;  // Several times the L2.

// Random numbers: a pattern, repeated. Kernels on zeros can be faster than on data.
void FillRandomly(const OperatorCase& of, const CaseBuffer& buffer, std::byte* memory,
                  std::int64_t bytes) {
  static std::mt19937 generator(1);
  std::vector<std::byte> pattern(std::min(kPatternBytes, static_cast<std::size_t>(bytes)));
  const auto fill = [&](auto example, auto&& draw) {
    using T = decltype(example);
    T* values = reinterpret_cast<T*>(pattern.data());
    for (std::size_t i = 0; i < pattern.size() / sizeof(T); ++i) values[i] = static_cast<T>(draw());
  };
  std::uniform_real_distribution<double> uniform(0.1, 1);
  const auto bits = [&] { return static_cast<std::uint32_t>(generator()); };
  switch (buffer.content == Content::kAccumulator ? Dtype::kFp64 : DtypeOf(of, buffer.content)) {
    case Dtype::kBf16:
      // Signs and mantissas of numbers in 1/4 ... 1.
      fill(std::uint16_t{}, [&] { return 0x3e80u + (bits() & 0x80ffu); });
      break;
    case Dtype::kFp16:
      fill(std::uint16_t{}, [&] { return 0x3400u + (bits() & 0x87ffu); });
      break;
    case Dtype::kFp32:
      fill(float{}, [&] { return uniform(generator); });
      break;
    case Dtype::kFp64:
      fill(double{}, [&] { return uniform(generator); });
      break;
    case Dtype::kInt32:
      // A few tokens come often, as in text.
      fill(std::int32_t{}, [&] {
        const double u = (uniform(generator) - 0.1) / 0.9;
        return u * u * u * u * static_cast<double>(of.tokens_end);
      });
      break;
    case Dtype::kUint8:
      fill(std::uint8_t{}, [&] { return bits() & 1u; });
      break;
  }
  Check(cudaMemcpy(memory, pattern.data(), pattern.size(), cudaMemcpyHostToDevice), "fill");
  const auto size = static_cast<std::size_t>(bytes);
  for (std::size_t filled = pattern.size(); filled < size; filled *= 2) {
    Check(cudaMemcpy(memory + filled, memory, std::min(filled, size - filled),
                     cudaMemcpyDeviceToDevice),
          "fill");
  }
}

class Timer {
 public:
  explicit Timer(int launches) : launches_(launches), cache_(Allocate(kCacheBytes)) {
    Check(cudaEventCreate(&begin_), "event");
    Check(cudaEventCreate(&end_), "event");
  }

  // Median milliseconds of launch().
  double Median(const std::function<cudaError_t()>& launch) {
    std::vector<float> times;
    for (int i = -3; i < launches_; ++i) {
      Check(cudaMemsetAsync(cache_.get(), i & 0x7f, kCacheBytes), "clear the caches");
      Check(cudaEventRecord(begin_), "record");
      Check(launch(), "launch");
      Check(cudaEventRecord(end_), "record");
      Check(cudaEventSynchronize(end_), "run");
      float ms = 0;
      Check(cudaEventElapsedTime(&ms, begin_, end_), "time");
      if (i >= 0) times.push_back(ms);
    }
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    return times[times.size() / 2];
  }

 private:
  int launches_;
  DeviceMemory cache_;
  cudaEvent_t begin_, end_;
};

void Print(const std::string& name, double ms, double bytes, double copy_rate) {
  const double rate = bytes / (ms * 1e-3);
  std::printf("%-34s %9.4f %9.1f %8.0f %6.1f\n", name.c_str(), ms, bytes * 1e-6, rate * 1e-9,
              100 * rate / copy_rate);
}

void Run(int launches, std::string_view filter) {
  const CaseSizes sizes{.samples = 32,
                        .sequence = 1024,
                        .heads = 16,
                        .kv_heads = 16,
                        .head_dim = 128,
                        .ffn = 5504,
                        .vocabulary = 32000};
  Timer timer(launches);
  double copy_rate = 0;
  {
    constexpr std::size_t kBytes = std::size_t{1} << 31;
    const DeviceMemory from = Allocate(kBytes), to = Allocate(kBytes);
    const double ms = timer.Median(
        [&] { return cudaMemcpyAsync(to.get(), from.get(), kBytes, cudaMemcpyDeviceToDevice); });
    copy_rate = 2 * static_cast<double>(kBytes) / (ms * 1e-3);
    std::printf("%-34s %9s %9s %8s %6s\n", "operator/flags", "ms", "MB", "GB/s", "% copy");
    Print("cudaMemcpy", ms, 2 * static_cast<double>(kBytes), copy_rate);
  }
  for (const OperatorCase& x : OperatorCases(sizes, Dtype::kBf16, Dtype::kFp32, /*unfused=*/true)) {
    if (x.name.find(filter) == std::string::npos) continue;
    DeviceCase device(x);
    double bytes = 0;
    for (std::size_t i = 0; i < x.buffers.size(); ++i) {
      bytes += x.buffers[i].touched * static_cast<double>(device.Bytes(i));
      if (x.buffers[i].is_input) FillRandomly(x, x.buffers[i], device.data(i), device.Bytes(i));
    }
    Print(x.name, timer.Median([&] { return device.Launch(nullptr); }), bytes, copy_rate);
  }
  const std::int64_t n = sizes.n(), f = sizes.ffn, e = n * f;
  const DeviceMemory gate_up = Allocate(static_cast<std::size_t>(4 * e)),
                     dgate_up = Allocate(static_cast<std::size_t>(4 * e)),
                     silu = Allocate(static_cast<std::size_t>(2 * e)),
                     act = Allocate(static_cast<std::size_t>(2 * e));
  OperatorCase of;
  FillRandomly(of, {}, gate_up.get(), 4 * e);
  FillRandomly(of, {}, act.get(), 2 * e);
  Print("swiglu_forward, fused", timer.Median([&] {
    return cuda::LaunchSwiGluForward(Dtype::kBf16, n, f, gate_up.get(), silu.get(), act.get(),
                                     nullptr);
  }),
        8.0 * static_cast<double>(e), copy_rate);
  Print("swiglu_backward, fused", timer.Median([&] {
    return cuda::LaunchSwiGluBackward(Dtype::kBf16, n, f, act.get(), gate_up.get(), dgate_up.get(),
                                      nullptr);
  }),
        10.0 * static_cast<double>(e), copy_rate);
}

struct AttentionSizes {
  std::int64_t samples, heads, kv_heads, sequence, head_dim;
};

// One rank's forward or backward of causal attention, on random operands.
double AttentionMs(const OpShape& shape, cuda::AttentionEngine* engine, Timer* timer) {
  const auto& [b, heads, kv_heads, s_q, s_kv, d] = shape.dims;
  const std::int64_t of_q = 2 * b * s_q * heads * d, of_kv = 4 * b * s_kv * kv_heads * d;
  const std::int64_t of_rows = 4 * b * s_q * heads;
  const bool forward = shape.op == OpCode::kAttentionForward;
  const std::vector<std::int64_t> read_bytes =
      forward ? std::vector{of_q, of_kv} : std::vector{of_q, of_q, of_kv, of_q, of_rows};
  const std::vector<std::int64_t> write_bytes =
      forward ? std::vector{of_q, of_rows} : std::vector{of_q, of_kv};
  std::vector<DeviceMemory> memory;
  std::vector<const std::byte*> reads;
  std::vector<std::byte*> writes;
  OperatorCase of;
  for (const std::int64_t bytes : read_bytes) {
    memory.push_back(Allocate(static_cast<std::size_t>(bytes)));
    FillRandomly(of, {}, memory.back().get(), bytes);
    reads.push_back(memory.back().get());
  }
  for (const std::int64_t bytes : write_bytes) {
    memory.push_back(Allocate(static_cast<std::size_t>(bytes)));
    writes.push_back(memory.back().get());
  }
  const DeviceMemory workspace = Allocate(engine->WorkspaceBytes(shape) + 1);
  const cuda::KernelCall call{.shape = shape,
                              .reads = reads,
                              .writes = writes,
                              .place = {.cp = shape.index,
                                        .context_parallel = shape.count,
                                        .micro_batch_size = b,
                                        .sequence_length = s_kv},
                              .workspace = workspace.get(),
                              .stream = nullptr};
  return timer->Median([&] {
    const Status launched = engine->Launch(call);
    if (launched.ok()) return cudaSuccess;
    std::fprintf(stderr, "%s\n", launched.error().message.c_str());
    return cudaErrorUnknown;
  });
}

void RunAttention(int launches, std::string_view filter) {
  std::printf("\n%-34s %24s %-5s %9s %8s\n", "operator", "b x heads x kv x s x d", "rank", "ms",
              "TFLOP/s");
  Timer timer(launches);
  for (const bool deterministic : {false, true}) {
    cuda::AttentionEngine engine({.deterministic = deterministic});
    for (const AttentionSizes& x :
         std::array<AttentionSizes, 2>{{{16, 16, 16, 1024, 128}, {4, 32, 8, 4096, 128}}}) {
      for (const auto& [index, count] : {std::pair{0, 1}, {0, 2}, {1, 2}}) {
        for (const OpCode op : {OpCode::kAttentionForward, OpCode::kAttentionBackward}) {
          OpShape shape{.op = op, .dtype = Dtype::kBf16};
          shape.index = static_cast<std::uint16_t>(index);
          shape.count = static_cast<std::uint16_t>(count);
          shape.dims = {x.samples, x.heads, x.kv_heads, x.sequence / count, x.sequence, x.head_dim};
          const std::string name = std::string(Name(op)) + (deterministic ? ", deterministic" : "");
          if (name.find(filter) == std::string::npos) continue;
          const Status prepared = engine.Prepare(shape);
          if (!prepared.ok()) {
            std::fprintf(stderr, "%s\n", prepared.error().message.c_str());
            std::exit(1);
          }
          const double ms = AttentionMs(shape, &engine, &timer);
          const std::string sizes = std::to_string(x.samples) + " x " + std::to_string(x.heads) +
                                    " x " + std::to_string(x.kv_heads) + " x " +
                                    std::to_string(x.sequence) + " x " + std::to_string(x.head_dim);
          std::printf("%-34s %24s %d/%-3d %9.4f %8.1f%s\n", name.c_str(), sizes.c_str(), index,
                      count, ms, Flops(shape) / (ms * 1e-3) * 1e-12,
                      engine.UsesCudnn(shape) ? "" : "  own kernel");
        }
      }
    }
  }
}

}  // namespace
}  // namespace twinstep

int main(int argc, char** argv) {
  if (!twinstep::HasGpu()) {
    std::fprintf(stderr, "no GPU\n");
    return 1;
  }
  const int launches = argc > 1 ? std::max(1, std::atoi(argv[1])) : 20;
  const char* const filter = argc > 2 ? argv[2] : "";
  twinstep::Run(launches, filter);
  twinstep::RunAttention(launches, filter);
}
