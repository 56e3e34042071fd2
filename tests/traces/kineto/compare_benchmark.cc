// How long `twinstep compare` takes for large profiles, and its most memory:
//
//   bazel run //tests/traces/kineto:compare_benchmark            # 200 MB
//   bazel run //tests/traces/kineto:compare_benchmark -- 500
//
// It writes a profile of that size in the form that PyTorch writes (operators on the host,
// launches, kernels and their arrows), compresses it, and compares the one with the other.

#include <sys/resource.h>
#include <zlib.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "sim/format.h"
#include "traces/compare_command.h"

namespace twinstep {
namespace {

constexpr const char* kKernels[] = {
    "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float, true>(int, "
    "float, float const*, float const*, float const*, float*, float*, float*)",
    "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_64x64x128_1x4x1_cga1x1x1",
};

// The events of one launch, about 1.9 kB.
std::string Launch(std::int64_t i) {
  char text[4096];
  const std::int64_t ts = 5'134'893'792'252 + 50 * i;
  const char* kernel = kKernels[i % 5];
  const int stream = i % 5 == 2 ? 20 : 7;
  std::snprintf(text, sizeof text,
                R"json(  {
    "ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 565, "tid": 565,
    "ts": %lld.248, "dur": 40.154,
    "args": {
      "External id": %lld,"Record function id": 0, "Concrete Inputs": ["", ""], "Input type": ["c10::BFloat16", "c10::BFloat16"], "Input Strides": [[2048, 1], [1, 2048]], "Input Dims": [[8192, 2048], [2048, 5504]], "Ev Idx": %lld
    }
  },
  {
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 565, "tid": 565,
    "ts": %lld.631, "dur": 5.942,
    "args": {
      "External id": %lld, "cbid": 211, "correlation": %lld
    }
  },
  {
    "ph": "s", "id": %lld, "pid": 565, "tid": 565, "ts": %lld.631,
    "cat": "ac2g", "name": "ac2g"
  },
  {
    "ph": "X", "cat": "kernel", "name": "%s", "pid": 0, "tid": %d,
    "ts": %lld.125, "dur": 41.376,
    "args": {
      "External id": %lld, "queued": 0, "device": 0, "context": 1,
      "stream": %d, "correlation": %lld,
      "registers per thread": 168, "shared memory": 213264,
      "blocks per SM": 1.000000, "warps per SM": 12.000000,
      "grid": [132, 1, 1], "block": [384, 1, 1],
      "est. achieved occupancy %%": 19
    }
  },
  {
    "ph": "f", "id": %lld, "pid": 0, "tid": %d, "ts": %lld.125,
    "cat": "ac2g", "name": "ac2g", "bp": "e"
  }
)json",
                static_cast<long long>(ts), static_cast<long long>(i), static_cast<long long>(i),
                static_cast<long long>(ts + 10), static_cast<long long>(i),
                static_cast<long long>(i), static_cast<long long>(i),
                static_cast<long long>(ts + 10), kernel, stream, static_cast<long long>(ts + 20),
                static_cast<long long>(i), stream, static_cast<long long>(i),
                static_cast<long long>(i), stream, static_cast<long long>(ts + 20));
  return text;
}

std::int64_t WriteProfile(const std::string& path, std::int64_t bytes) {
  std::ofstream out(path, std::ios::binary);
  gzFile compressed = gzopen((path + ".gz").c_str(), "wb1");
  std::int64_t written = 0;
  const auto write = [&](const std::string& text) {
    out << text;
    gzwrite(compressed, text.data(), static_cast<unsigned>(text.size()));
    written += static_cast<std::int64_t>(text.size());
  };
  write("{\"schemaVersion\": 1, \"deviceProperties\": [], \"traceEvents\": [\n");
  for (std::int64_t i = 0; written < bytes; ++i) write((i == 0 ? "" : ",") + Launch(i));
  write("]}\n");
  gzclose(compressed);
  return written;
}

int Run(double megabytes) {
  const std::string folder = std::filesystem::temp_directory_path() / "twinstep_compare_benchmark";
  std::filesystem::create_directories(folder);
  const std::string path = folder + "/profile.json";
  const std::int64_t bytes = WriteProfile(path, static_cast<std::int64_t>(megabytes * 1e6));
  const auto start = std::chrono::steady_clock::now();
  std::ostringstream out;
  const ExitCode code = RunCompareCommand({path, path + ".gz"}, out, std::cerr);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::cout << out.str().substr(0, 1500) << "...\n\ncompare of " << Count(bytes / 1'000'000)
            << " MB of JSON with the same compressed: " << Fixed(took.count(), 2)
            << " s, most memory " << Count(usage.ru_maxrss / 1024) << " MiB\n";
  std::filesystem::remove_all(folder);
  return static_cast<int>(code);
}

}  // namespace
}  // namespace twinstep

int main(int argc, char** argv) {
  return twinstep::Run(argc > 1 ? std::strtod(argv[1], nullptr) : 200);
}
