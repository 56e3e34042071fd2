#include "exec/runtime/initialize.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <thread>
#include <vector>

#include "exec/runtime/element_io.h"
#include "exec/runtime/tensor_runs.h"
#include "sim/graph/symbolic_tensors.h"
#include "sim/hardware_threads.h"

namespace twinstep {
namespace {

constexpr double kDeviation = 0.02;

// Finaliser of SplitMix64 (Steele, Lea and Flood 2014): a bijection in which every input bit
// changes every output bit.
std::uint64_t Mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class Draw {
 public:
  Draw(std::uint64_t seed, const TensorInfo& tensor)
      : key_(Mix(Mix(seed + kStep) + static_cast<std::uint64_t>(tensor.kind) * kStep +
                 LogicalBlock(tensor))) {}

  // Standard normal, by Box and Muller's transform.
  double Normal(std::int64_t row, std::int64_t column) const {
    const std::uint64_t counter =
        Mix(key_ + static_cast<std::uint64_t>(row) * kStep) + static_cast<std::uint64_t>(column);
    const double radius = std::sqrt(-2 * std::log(Uniform(Mix(counter * kStep + 1))));
    return radius * std::cos(2 * std::numbers::pi * Uniform(Mix(counter * kStep + 2)));
  }

 private:
  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15u;  // 2^64 / golden ratio, odd.

  // In (0, 1].
  static double Uniform(std::uint64_t bits) {
    return static_cast<double>((bits >> 11) + 1) * 0x1p-53;
  }

  std::uint64_t key_;
};

// What a tensor's numbers are before the first step: a constant plus normal noise.
struct Distribution {
  double mean = 0, deviation = 0;
};

Distribution DistributionOf(const Model& model, TensorKind kind) {
  switch (kind) {
    case TensorKind::kNorm1Weight:
    case TensorKind::kNorm2Weight:
    case TensorKind::kFinalNormWeight:
      return {.mean = 1};
    case TensorKind::kTokenEmbedding:
    case TensorKind::kPositionEmbedding:
    case TensorKind::kQkvWeight:
    case TensorKind::kUpWeight:
    case TensorKind::kHeadWeight:
      return {.deviation = kDeviation};
    case TensorKind::kOutWeight:
    case TensorKind::kDownWeight:
      return {.deviation = kDeviation / std::sqrt(2 * static_cast<double>(model.layers()))};
    default:
      return {};
  }
}

// Calls body(begin, end) for parts of [0, count), on `most_threads` if there is enough to do.
template <typename Body>
void ForParts(std::int64_t count, int most_threads, const Body& body) {
  constexpr std::int64_t kLeast = 1 << 16;  // Of a thread: starting one costs as much as 1000.
  const std::int64_t threads = std::clamp<std::int64_t>(count / kLeast, 1, most_threads);
  const std::int64_t part = (count + threads - 1) / threads;
  std::vector<std::jthread> others;
  for (std::int64_t begin = part; begin < count; begin += part) {
    others.emplace_back([&body, begin, end = std::min(begin + part, count)] { body(begin, end); });
  }
  body(0, std::min(part, count));
}

}  // namespace

void InitializeStates(const Model& model, const TaskGraph& graph, std::uint64_t seed,
                      Backend* backend, int threads) {
  if (threads <= 0) threads = HardwareThreads();
  const std::vector<TensorPlace> places = PlaceTensors(graph);
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const TensorInfo& tensor = graph.tensors[i];
    if (tensor.state == StateKind::kData || tensor.state == StateKind::kGradient) continue;
    const bool weight = tensor.state == StateKind::kParameter || tensor.state == StateKind::kMaster;
    const Distribution distribution = weight ? DistributionOf(model, tensor.kind) : Distribution{};
    const Dtype dtype = graph.buffers[tensor.buffer].dtype;
    const LogicalShape shape = LogicalShapeOf(model, tensor);
    const Draw draw(seed, tensor);
    for (const TensorRun& run : TensorRuns(model, tensor, places[i], DtypeBytes(dtype))) {
      bytes.resize(static_cast<std::size_t>(run.elements * DtypeBytes(dtype)));
      // Each element is drawn for itself: threads change nothing.
      ForParts(run.elements, threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t k = begin; k < end; ++k) {
          const std::int64_t row = (run.element + k) / shape.columns;
          const std::int64_t column = (run.element + k) % shape.columns;
          double value = 0;
          if (row < shape.rows) {
            value = distribution.mean;
            if (distribution.deviation > 0) {
              value += distribution.deviation * draw.Normal(row, column);
            }
          }
          // Parameters are rounded from the fp32 master, not from the drawn number.
          StoreElement(dtype, static_cast<float>(value), bytes.data(), k);
        }
      });
      backend->Write(tensor.buffer, run.offset, bytes);
    }
  }
}

}  // namespace twinstep
