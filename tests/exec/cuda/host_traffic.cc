#include "tests/exec/cuda/host_traffic.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stop_token>
#include <vector>

#include "exec/cuda/host_worker.h"
#include "exec/cuda/memory.h"
#include "exec/profile/machine.h"
#include "sim/cost/link_map.h"
#include "sim/hardware_threads.h"
#include "tests/exec/cuda/value_or_die.h"

namespace twinstep {
namespace {

constexpr std::size_t kUp = 0, kDown = 1;  // Directions: H2D, D2H.
constexpr std::array<const char*, 2> kNames{"h2d", "d2h"};

void Check(cudaError_t code) {
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "link: %s\n", cudaGetErrorString(code));
  std::exit(3);
}

constexpr std::int64_t kMostElements = std::int64_t{1} << 26;  // Of Adam.

// What runs beside a copy: bits of these.
enum Company : unsigned { kAlone = 0, kBesideCopies = 1, kBesideAdam = 2, kCompanies = 4 };
constexpr std::array<const char*, kCompanies> kCompanyNames{"alone", "beside the other direction",
                                                            "beside CPU Adam", "beside both"};

// Bytes a second, by direction and company.
using LinkRates = std::array<std::array<double, kCompanies>, 2>;

// CPU Adam again and again, on all cores, while this lives.
class AdamLoad {
 public:
  explicit AdamLoad(std::int64_t elements) : elements_(elements) {
    for (cuda::HostMemory& x : memory_) {
      x = ValueOrDie(cuda::HostMemory::Allocate(static_cast<std::size_t>(elements) * sizeof(float),
                                                /*pinned=*/true, HardwareThreads()));
    }
    thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
  }

 private:
  void Run(const std::stop_token& stop) {
    cuda::HostWorker worker(HardwareThreads());
    // Gradient, master, moments; parameter.
    const std::array<const std::byte*, 4> reads{memory_[0].get(), memory_[1].get(),
                                                memory_[2].get(), memory_[3].get()};
    const std::array<std::byte*, 4> writes{memory_[1].get(), memory_[2].get(), memory_[3].get(),
                                           memory_[4].get()};
    OpShape shape{.op = OpCode::kAdam, .dtype = Dtype::kBf16};
    shape.dims[0] = elements_;
    while (!stop.stop_requested()) {
      worker.Run({.shape = shape, .reads = reads, .writes = writes, .step = {}, .place = {}});
    }
  }

  std::int64_t elements_;
  std::array<cuda::HostMemory, 5> memory_;
  std::jthread thread_;
};

// Copies as large as a plan's, one behind the other, of a gigabyte of the host's memory in turn.
class LinkProbe {
 public:
  explicit LinkProbe(std::int64_t bytes)
      : bytes_(static_cast<std::size_t>(bytes)),
        buffers_((kHostBytes + bytes_ - 1) / bytes_),
        copies_((kCopiedBytes + bytes_ - 1) / bytes_) {
    Check(cudaEventCreate(&begin_));
    for (Direction& x : directions_) {
      x.host = ValueOrDie(
          cuda::HostMemory::Allocate(bytes_ * buffers_, /*pinned=*/true, HardwareThreads()));
      x.device = ValueOrDie(cuda::AllocateDevice(bytes_));
      Check(cudaStreamCreateWithFlags(&x.stream, cudaStreamNonBlocking));
      x.ends.resize(copies_);
      for (cudaEvent_t& event : x.ends) Check(cudaEventCreate(&event));
    }
  }
  LinkProbe(const LinkProbe&) = delete;
  LinkProbe& operator=(const LinkProbe&) = delete;
  ~LinkProbe() {
    for (Direction& x : directions_) {
      for (cudaEvent_t event : x.ends) cudaEventDestroy(event);
      cudaStreamDestroy(x.stream);
    }
    cudaEventDestroy(begin_);
  }

  // With Adam of so many elements if there are any.
  LinkRates Measure(std::int64_t adam_elements) {
    LinkRates rates{};
    Copy({kUp, kDown});  // Not counted.
    for (const unsigned company : {kAlone, kBesideAdam}) {
      if (company == kBesideAdam && adam_elements == 0) break;
      std::optional<AdamLoad> load;
      if (company == kBesideAdam) load.emplace(adam_elements);
      for (const std::size_t direction : {kUp, kDown}) {
        Copy({direction});
        rates[direction][company] = Rate(direction, EndOf(direction));
      }
      Copy({kUp, kDown});
      const double both_ms = std::min(EndOf(kUp), EndOf(kDown));
      for (const std::size_t direction : {kUp, kDown}) {
        rates[direction][company | kBesideCopies] = Rate(direction, both_ms);
      }
    }
    return rates;
  }

 private:
  static constexpr std::size_t kHostBytes = std::size_t{1} << 30;    // Far beyond caches.
  static constexpr std::size_t kCopiedBytes = std::size_t{4} << 30;  // Of a measurement.
  struct Direction {
    cuda::HostMemory host;
    cuda::DeviceMemory device;
    cudaStream_t stream = nullptr;
    std::vector<cudaEvent_t> ends;  // Of the copies.
  };

  void Copy(const std::vector<std::size_t>& which) {
    Check(cudaEventRecord(begin_, directions_[which[0]].stream));
    for (const std::size_t direction : which) {
      Check(cudaStreamWaitEvent(directions_[direction].stream, begin_));
    }
    for (std::size_t i = 0; i < copies_; ++i) {
      for (const std::size_t direction : which) {
        Direction& x = directions_[direction];
        std::byte* const host = x.host.get() + i % buffers_ * bytes_;
        void* const to = direction == kUp ? x.device.get() : host;
        const void* const from = direction == kUp ? host : x.device.get();
        Check(cudaMemcpyAsync(to, from, bytes_, cudaMemcpyDefault, x.stream));
        Check(cudaEventRecord(x.ends[i], x.stream));
      }
    }
    Check(cudaDeviceSynchronize());
  }

  double Milliseconds(cudaEvent_t end) const {
    float milliseconds = 0;
    Check(cudaEventElapsedTime(&milliseconds, begin_, end));
    return static_cast<double>(milliseconds);
  }
  double EndOf(std::size_t direction) const {
    return Milliseconds(directions_[direction].ends.back());
  }
  // Of the copies that had ended by then.
  double Rate(std::size_t direction, double until_ms) const {
    double copied = 0, milliseconds = 1;
    for (cudaEvent_t end : directions_[direction].ends) {
      const double at = Milliseconds(end);
      if (at > until_ms) break;
      copied += static_cast<double>(bytes_);
      milliseconds = at;
    }
    return copied / (milliseconds * 1e-3);
  }

  std::size_t bytes_, buffers_, copies_;
  cudaEvent_t begin_ = nullptr;
  std::array<Direction, 2> directions_;
};

struct Span {
  std::int64_t begin_ps = 0, end_ps = 0;
  double bytes = 0;
  std::int64_t ready_ps = 0;
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
  double bytes = 0, seconds = 0;
  double possible = 0;  // Bytes that the link moves in this time and company.

  void Add(const Span& x) {
    ++tasks;
    bytes += x.bytes;
    seconds += static_cast<double>(x.Length()) * 1e-12;
  }
  double Rate() const { return seconds > 0 ? bytes / seconds : 0; }
};

// The shares of a copy's time in each company.
std::array<double, kCompanies> CompanyOf(const Span& copy, const std::vector<Span>& others,
                                         const std::vector<Span>& updates) {
  std::int64_t both = 0;
  for (const Span& other : others) {
    const Span shared{std::max(copy.begin_ps, other.begin_ps), std::min(copy.end_ps, other.end_ps)};
    if (shared.Length() > 0) both += Shared(shared, updates);
  }
  const std::int64_t beside_copies = Shared(copy, others) - both,
                     beside_adam = Shared(copy, updates) - both;
  std::array<double, kCompanies> shares{};
  shares[kAlone] = static_cast<double>(copy.Length() - beside_copies - beside_adam - both);
  shares[kBesideCopies] = static_cast<double>(beside_copies);
  shares[kBesideAdam] = static_cast<double>(beside_adam);
  shares[kBesideCopies | kBesideAdam] = static_cast<double>(both);
  for (double& x : shares) x /= static_cast<double>(std::max<std::int64_t>(1, copy.Length()));
  return shares;
}

void PrintCopies(std::size_t direction, const std::array<std::vector<Span>, 2>& copies,
                 const std::vector<Span>& updates, const LinkRates& rates) {
  constexpr double kMostly = 0.8;
  Total all;
  std::array<Total, kCompanies> totals;
  std::vector<std::int64_t> waited_ps;
  for (const Span& x : copies[direction]) {
    const auto shares = CompanyOf(x, copies[1 - direction], updates);
    double possible = 0;
    for (std::size_t i = 0; i < kCompanies; ++i) {
      possible += shares[i] * rates[direction][i] * static_cast<double>(x.Length()) * 1e-12;
    }
    all.Add(x);
    all.possible += possible;
    waited_ps.push_back(x.begin_ps - x.ready_ps);
    for (std::size_t i = 0; i < kCompanies; ++i) {
      if (shares[i] < kMostly) continue;
      totals[i].Add(x);
      totals[i].possible += possible;
    }
  }
  if (all.tasks == 0) return;
  std::sort(waited_ps.begin(), waited_ps.end());
  std::printf(
      "copies %s: %d of %.0f MB at %.1f GB/s, %.1f %% of what the link moves in the same company; "
      "begin %.1f us (median; most %.1f) after what they wait for\n",
      kNames[direction], all.tasks, all.bytes / all.tasks * 1e-6, all.Rate() * 1e-9,
      100 * all.bytes / all.possible, static_cast<double>(waited_ps[waited_ps.size() / 2]) * 1e-6,
      static_cast<double>(waited_ps.back()) * 1e-6);
  for (std::size_t i = 0; i < kCompanies; ++i) {
    if (totals[i].tasks == 0) continue;
    std::printf("copies %s %s: %d at %.1f GB/s, %.1f %% of the link's %.1f (alone %.1f)\n",
                kNames[direction], kCompanyNames[i], totals[i].tasks, totals[i].Rate() * 1e-9,
                100 * totals[i].bytes / totals[i].possible, rates[direction][i] * 1e-9,
                rates[direction][kAlone] * 1e-9);
  }
}

void PrintAdam(const std::vector<Span>& updates, const std::array<std::vector<Span>, 2>& copies) {
  const double triad = MeasureRates(HardwareThreads()).dram_bytes_per_s;
  Total all, beside;
  for (const Span& x : updates) {
    all.Add(x);
    const std::int64_t shared = std::max(Shared(x, copies[0]), Shared(x, copies[1]));
    if (shared > x.Length() / 20) beside.Add(x);
  }
  std::printf(
      "CPU Adam (%g bytes a parameter): %d at %.1f GB/s, %.0f %% of triad's %.1f; those with "
      "copies in a twentieth of their time %d at %.1f GB/s, %.0f %%\n",
      kAdamBytesPerParam, all.tasks, all.Rate() * 1e-9, 100 * all.Rate() / triad, triad * 1e-9,
      beside.tasks, beside.Rate() * 1e-9, 100 * beside.Rate() / triad);
}

}  // namespace

void PrintHostTraffic(const TaskGraph& graph, const Execution& execution) {
  std::array<std::vector<Span>, 2> copies;
  std::vector<Span> updates;
  std::array<std::int64_t, 2> largest{};
  std::int64_t update_elements = 0;
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    const Task& task = graph.tasks[id];
    const OpShape& shape = graph.shapes[task.shape];
    Span span{execution.start_ps[id], execution.end_ps[id], static_cast<double>(shape.dims[0]),
              execution.ready_ps[id]};
    if (IsCopy(shape.op)) {
      const std::size_t direction = shape.op == OpCode::kCopyH2D ? kUp : kDown;
      copies[direction].push_back(span);
      largest[direction] = std::max(largest[direction], shape.dims[0]);
    } else if (task.kind == TaskKind::kHost && shape.op == OpCode::kAdam) {
      span.bytes *= kAdamBytesPerParam;
      updates.push_back(span);
      update_elements = std::max(update_elements, shape.dims[0]);
    }
  }
  for (const std::size_t direction : {kUp, kDown}) {
    if (largest[direction] == 0) continue;
    PrintCopies(direction, copies, updates,
                LinkProbe(largest[direction]).Measure(std::min(update_elements, kMostElements)));
  }
  if (!updates.empty()) PrintAdam(updates, copies);
}

}  // namespace twinstep
