#include "exec/runtime/quick_weights.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "exec/runtime/element_io.h"
#include "sim/graph/symbolic_tensors.h"

namespace twinstep {
namespace {

constexpr std::size_t kDrawn = std::size_t{1} << 22;
constexpr float kDeviation = 0.02f;

class QuickWeights {
 public:
  QuickWeights() {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, kDeviation);
    for (float& x : drawn_) x = normal(random);
  }

  void Write(const TaskGraph& graph, Backend* backend) {
    const std::vector<TensorPlace> places = PlaceTensors(graph);
    for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
      const TensorInfo& tensor = graph.tensors[i];
      if (tensor.state != StateKind::kParameter && tensor.state != StateKind::kMaster) continue;
      const bool norm = tensor.kind == TensorKind::kNorm1Weight ||
                        tensor.kind == TensorKind::kNorm2Weight ||
                        tensor.kind == TensorKind::kFinalNormWeight;
      Fill(Block(graph.buffers[tensor.buffer].dtype, norm), tensor.buffer, places[i].offset,
           places[i].bytes, backend);
    }
  }

  void FillAll(const TaskGraph& graph, Backend* backend) {
    for (BufferId id = 0; id < graph.buffers.size(); ++id) {
      const Buffer& buffer = graph.buffers[id];
      if (buffer.dtype == Dtype::kInt32 || buffer.dtype == Dtype::kUint8) continue;
      Fill(Block(buffer.dtype, /*norm=*/false), id, 0, buffer.bytes, backend);
    }
  }

 private:
  static void Fill(const std::vector<std::byte>& block, BufferId buffer, std::int64_t offset,
                   std::int64_t bytes, Backend* backend) {
    const auto size = static_cast<std::int64_t>(block.size());
    for (std::int64_t at = 0; at < bytes; at += size) {
      backend->Write(buffer, offset + at,
                     std::span(block).first(static_cast<std::size_t>(std::min(size, bytes - at))));
    }
  }

  const std::vector<std::byte>& Block(Dtype dtype, bool norm) {
    std::vector<std::byte>& block = blocks_[{dtype, norm}];
    if (!block.empty()) return block;
    block.resize(drawn_.size() * static_cast<std::size_t>(DtypeBytes(dtype)));
    for (std::size_t i = 0; i < drawn_.size(); ++i) {
      StoreElement(dtype, norm ? 1 : static_cast<double>(drawn_[i]), block.data(),
                   static_cast<std::int64_t>(i));
    }
    return block;
  }

  std::vector<float> drawn_ = std::vector<float>(kDrawn);
  std::map<std::pair<Dtype, bool>, std::vector<std::byte>> blocks_;
};

}  // namespace

void WriteQuickWeights(const TaskGraph& graph, Backend* backend) {
  QuickWeights().Write(graph, backend);
}

void FillBuffers(const TaskGraph& graph, Backend* backend) {
  QuickWeights().FillAll(graph, backend);
}

}  // namespace twinstep
