#include "tests/exec/cuda/host_traffic.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "exec/cuda/memory.h"
#include "exec/profile/machine.h"

namespace twinstep {
namespace {

constexpr int kUp = 0, kDown = 1;  // Directions: H2D, D2H.
constexpr std::array<const char*, 2> kNames{"h2d", "d2h"};

void Check(cudaError_t code) {
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "link: %s\n", cudaGetErrorString(code));
  std::exit(3);
}

template <typename T>
T ValueOrDie(Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "link: %s\n", result.error().message.c_str());
    std::exit(3);
  }
  return std::move(result).value();
}

// Bytes a second, by direction.
struct LinkRates {
  std::array<double, 2> alone{}, beside{};  // The other direction idle, or as busy.
};

class Link {
 public:
  explicit Link(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes)) {
    for (Direction& x : directions_) {
      x.host = ValueOrDie(cuda::HostMemory::Allocate(bytes_, /*pinned=*/true));
      x.device = ValueOrDie(cuda::AllocateDevice(bytes_));
      Check(cudaStreamCreateWithFlags(&x.stream, cudaStreamNonBlocking));
      for (cudaEvent_t& event : x.events) Check(cudaEventCreate(&event));
    }
  }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  ~Link() {
    for (Direction& x : directions_) {
      for (cudaEvent_t event : x.events) cudaEventDestroy(event);
      cudaStreamDestroy(x.stream);
    }
  }

  LinkRates Measure() {
    LinkRates rates;
    for (const bool warm : {false, true}) {  // The first round is not counted.
      for (const int direction : {kUp, kDown}) {
        Copy({direction});
        rates.alone[static_cast<std::size_t>(direction)] = Rate(direction);
      }
      Copy({kUp, kDown});
      for (const int direction : {kUp, kDown}) {
        rates.beside[static_cast<std::size_t>(direction)] = Rate(direction);
      }
      if (warm) break;
    }
    return rates;
  }

 private:
  static constexpr int kCopies = 8;
  struct Direction {
    cuda::HostMemory host;
    cuda::DeviceMemory device;
    cudaStream_t stream = nullptr;
    std::array<cudaEvent_t, 2> events{};
  };

  Direction& At(int direction) { return directions_[static_cast<std::size_t>(direction)]; }

  void Copy(const std::vector<int>& which) {
    for (const int direction : which) {
      Check(cudaEventRecord(At(direction).events[0], At(direction).stream));
    }
    for (int i = 0; i < kCopies; ++i) {
      for (const int direction : which) {
        Direction& x = At(direction);
        void* const to = direction == kUp ? x.device.get() : x.host.get();
        const void* const from = direction == kUp ? x.host.get() : x.device.get();
        Check(cudaMemcpyAsync(to, from, bytes_, cudaMemcpyDefault, x.stream));
      }
    }
    for (const int direction : which) {
      Check(cudaEventRecord(At(direction).events[1], At(direction).stream));
    }
    Check(cudaDeviceSynchronize());
  }

  double Rate(int direction) {
    float milliseconds = 0;
    const Direction& x = At(direction);
    Check(cudaEventElapsedTime(&milliseconds, x.events[0], x.events[1]));
    return static_cast<double>(bytes_) * kCopies / (static_cast<double>(milliseconds) * 1e-3);
  }

  std::size_t bytes_;
  std::array<Direction, 2> directions_;
};

struct Span {
  std::int64_t begin_ps = 0, end_ps = 0;
  double bytes = 0;
  std::int64_t Length() const { return end_ps - begin_ps; }
};

// Time of `x` in which one of `others`, which do not overlap, runs too.
std::int64_t Shared(const Span& x, const std::vector<Span>& others) {
  std::int64_t shared = 0;
  for (const Span& other : others) {
    shared += std::max<std::int64_t>(
        0, std::min(x.end_ps, other.end_ps) - std::max(x.begin_ps, other.begin_ps));
  }
  return shared;
}

struct Total {
  int tasks = 0;
  double bytes = 0, seconds = 0, possible = 0;  // Bytes that the link moves in this time.

  void Add(const Span& x) {
    ++tasks;
    bytes += x.bytes;
    seconds += static_cast<double>(x.Length()) * 1e-12;
  }
  double Rate() const { return seconds > 0 ? bytes / seconds : 0; }
};

// CPU Adam takes the host's memory from a copy beside it: such copies are counted apart.
void PrintCopies(const std::array<std::vector<Span>, 2>& copies, const std::vector<Span>& updates,
                 const LinkRates& rates) {
  for (const std::size_t i : {0, 1}) {
    Total all, alone;
    std::array<Total, 2> updating;
    for (const Span& x : copies[i]) {
      const auto shared = static_cast<double>(Shared(x, copies[1 - i])) * 1e-12;
      const double seconds = static_cast<double>(x.Length()) * 1e-12;
      const bool beside_update = Shared(x, updates) > x.Length() / 100;
      const double possible = shared * rates.beside[i] + (seconds - shared) * rates.alone[i];
      all.Add(x);
      updating[beside_update ? 1 : 0].Add(x);
      updating[beside_update ? 1 : 0].possible += possible;
      if (shared < 0.01 * seconds && !beside_update) alone.Add(x);
    }
    std::printf("copies %s: %d at %.1f GB/s; of what the link moves in their time: ", kNames[i],
                all.tasks, all.Rate() * 1e-9);
    for (const std::size_t beside : {0, 1}) {
      const Total& total = updating[beside];
      std::printf("%d %s %.1f %%, ", total.tasks, beside == 0 ? "without CPU Adam" : "beside it",
                  total.possible > 0 ? 100 * total.bytes / total.possible : 0);
    }
    std::printf("%d alone at %.1f GB/s %.1f %% (link %.1f, with both directions busy %.1f)\n",
                alone.tasks, alone.Rate() * 1e-9, 100 * alone.Rate() / rates.alone[i],
                rates.alone[i] * 1e-9, rates.beside[i] * 1e-9);
  }
}

void PrintAdam(const std::vector<Span>& updates, const std::array<std::vector<Span>, 2>& copies) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const double triad = MeasureRates(cores).dram_bytes_per_s;
  Total all, beside;
  for (const Span& x : updates) {
    all.Add(x);
    const std::int64_t shared = std::max(Shared(x, copies[0]), Shared(x, copies[1]));
    if (shared > x.Length() / 20) beside.Add(x);
  }
  std::printf(
      "CPU Adam (28 bytes a parameter): %d at %.1f GB/s, %.0f %% of triad's %.1f; those with "
      "copies "
      "in a twentieth of their time %d at %.1f GB/s, %.0f %%\n",
      all.tasks, all.Rate() * 1e-9, 100 * all.Rate() / triad, triad * 1e-9, beside.tasks,
      beside.Rate() * 1e-9, 100 * beside.Rate() / triad);
}

}  // namespace

void PrintHostTraffic(const TaskGraph& graph, const Execution& execution) {
  std::array<std::vector<Span>, 2> copies;
  std::vector<Span> updates;
  std::int64_t largest = 0;
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    const Task& task = graph.tasks[id];
    const OpShape& shape = graph.shapes[task.shape];
    Span span{execution.start_ps[id], execution.end_ps[id], static_cast<double>(shape.dims[0])};
    if (shape.op == OpCode::kCopyH2D || shape.op == OpCode::kCopyD2H) {
      copies[shape.op == OpCode::kCopyH2D ? kUp : kDown].push_back(span);
      largest = std::max(largest, shape.dims[0]);
    } else if (task.kind == TaskKind::kHost && shape.op == OpCode::kAdam) {
      span.bytes *= 28;  // Gradient 2, master and moments 12 read and 12 written, parameter 2.
      updates.push_back(span);
    }
  }
  if (largest == 0) return;
  PrintCopies(copies, updates, Link(largest).Measure());
  if (!updates.empty()) PrintAdam(updates, copies);
}

}  // namespace twinstep
