#include "exec/runtime/quick_weights.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <random>
#include <span>
#include <vector>

#include "exec/runtime/element_io.h"
#include "sim/graph/symbolic_tensors.h"

namespace twinstep {
namespace {

// A prime: rows of no matrix begin at the same number.
constexpr std::size_t kDrawn = 4194301;
// How far apart tensors that follow each other begin.
constexpr std::size_t kStride = 1000003;
constexpr std::size_t kOnes = std::size_t{1} << 12;
constexpr float kDeviation = 0.02f;

// Made once a process: a measurement starts many runs.
const std::vector<float>& Drawn() {
  static const std::vector<float> drawn = [] {
    std::vector<float> numbers(kDrawn);
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, kDeviation);
    for (float& x : numbers) x = normal(random);
    return numbers;
  }();
  return drawn;
}

template <typename Number>
std::vector<std::byte> Stored(Dtype dtype, std::size_t count, Number number) {
  std::vector<std::byte> block(count * static_cast<std::size_t>(DtypeBytes(dtype)));
  for (std::size_t i = 0; i < count; ++i) {
    StoreElement(dtype, number(i), block.data(), static_cast<std::int64_t>(i));
  }
  return block;
}

// The drawn numbers, from the `which`-th place on. They hold for ever.
std::span<const std::byte> DrawnBlock(Dtype dtype, std::size_t which) {
  static std::mutex mutex;
  static std::map<Dtype, std::vector<std::byte>> blocks;
  const std::lock_guard lock(mutex);
  std::vector<std::byte>& twice = blocks[dtype];
  if (twice.empty()) {
    twice = Stored(dtype, 2 * kDrawn,
                   [](std::size_t i) { return static_cast<double>(Drawn()[i % kDrawn]); });
  }
  const auto bytes = static_cast<std::size_t>(DtypeBytes(dtype));
  return std::span(twice).subspan(which * kStride % kDrawn * bytes, kDrawn * bytes);
}

// The same for a tensor's parameter and master.
std::size_t WhichOf(const TensorInfo& tensor) {
  constexpr std::size_t kKinds = 64;
  return (tensor.block * std::size_t{tensor.axis_count} + tensor.axis_index) * kKinds +
         static_cast<std::size_t>(tensor.kind);
}

bool IsNorm(TensorKind kind) {
  return kind == TensorKind::kNorm1Weight || kind == TensorKind::kNorm2Weight ||
         kind == TensorKind::kFinalNormWeight;
}

}  // namespace

void WriteQuickWeights(const TaskGraph& graph, Backend* backend) {
  const std::vector<TensorPlace> places = PlaceTensors(graph);
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const TensorInfo& tensor = graph.tensors[i];
    if (tensor.state != StateKind::kParameter && tensor.state != StateKind::kMaster) continue;
    const Dtype dtype = graph.buffers[tensor.buffer].dtype;
    if (IsNorm(tensor.kind)) {
      backend->WriteRepeated(tensor.buffer, places[i].offset, places[i].bytes,
                             Stored(dtype, kOnes, [](std::size_t) { return 1.0; }));
    } else {
      backend->WriteRepeated(tensor.buffer, places[i].offset, places[i].bytes,
                             DrawnBlock(dtype, WhichOf(tensor)));
    }
  }
}

void FillBuffers(const TaskGraph& graph, Backend* backend) {
  for (BufferId id = 0; id < graph.buffers.size(); ++id) {
    const Buffer& buffer = graph.buffers[id];
    if (buffer.dtype == Dtype::kInt32 || buffer.dtype == Dtype::kUint8) continue;
    backend->WriteRepeated(id, 0, buffer.bytes, DrawnBlock(buffer.dtype, id));
  }
}

}  // namespace twinstep
