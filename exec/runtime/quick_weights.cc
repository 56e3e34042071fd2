#include "exec/runtime/quick_weights.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <random>
#include <vector>

#include "exec/runtime/element_io.h"
#include "sim/graph/symbolic_tensors.h"

namespace twinstep {
namespace {

constexpr std::size_t kDrawn = std::size_t{1} << 22;
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

// Of the drawn numbers. The reference holds for ever.
const std::vector<std::byte>& DrawnBlock(Dtype dtype) {
  static std::mutex mutex;
  static std::map<Dtype, std::vector<std::byte>> blocks;
  const std::lock_guard lock(mutex);
  std::vector<std::byte>& block = blocks[dtype];
  if (block.empty()) {
    block = Stored(dtype, kDrawn, [](std::size_t i) { return static_cast<double>(Drawn()[i]); });
  }
  return block;
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
      backend->WriteRepeated(tensor.buffer, places[i].offset, places[i].bytes, DrawnBlock(dtype));
    }
  }
}

void FillBuffers(const TaskGraph& graph, Backend* backend) {
  for (BufferId id = 0; id < graph.buffers.size(); ++id) {
    const Buffer& buffer = graph.buffers[id];
    if (buffer.dtype == Dtype::kInt32 || buffer.dtype == Dtype::kUint8) continue;
    backend->WriteRepeated(id, 0, buffer.bytes, DrawnBlock(buffer.dtype));
  }
}

}  // namespace twinstep
