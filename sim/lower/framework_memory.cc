#include "sim/lower/framework_memory.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "sim/graph/find_op.h"

namespace twinstep {
namespace {

std::int64_t Times(std::int64_t bytes, double factor) {
  return std::llround(static_cast<double>(bytes) * factor);
}

class FrameworkMemory {
 public:
  FrameworkMemory(const Framework& framework, TaskGraph* graph) : graph_(*graph) {
    for (const OperationKernels& kernels : framework.kernels()) {
      if (const auto op = FindOp(kernels.op())) {
        kernels_[static_cast<std::size_t>(*op)] = &kernels;
      }
    }
  }

  void ResizeOutputs() {
    std::vector<std::int64_t> bytes(graph_.buffers.size(), -1);  // -1 = as it is.
    for (TaskId id = 0; id < graph_.TaskCount(); ++id) {
      const OperationKernels* kernels = KernelsOf(id);
      if (kernels == nullptr) continue;
      const std::size_t writes = graph_.Writes(id).size();
      for (std::size_t i = 0; i < writes; ++i) {
        const Operand& output = graph_.Writes(id)[i];
        const bool keeps_input = i + 1 == writes && kernels->kept_input() > 0;
        const bool listed = i < static_cast<std::size_t>(kernels->output_bytes_size());
        if (output.slice != 0 || (!listed && !keeps_input)) continue;
        std::int64_t size = graph_.buffers[output.buffer].bytes;
        if (listed) size = Times(size, kernels->output_bytes(static_cast<int>(i)));
        if (keeps_input) size += Times(FirstInputBytes(id), kernels->kept_input());
        bytes[output.buffer] = std::max(bytes[output.buffer], size);
      }
      if (kernels->scratch() > 0) AddScratch(id, Times(FirstInputBytes(id), kernels->scratch()));
    }
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] >= 0 && !graph_.buffers[i].persistent) graph_.buffers[i].bytes = bytes[i];
    }
  }

  // One a rank, of all that its GPU updates.
  void AddOptimizerSegments(double bytes_per_param) {
    std::vector<std::int64_t> params(graph_.ranks.size(), 0);
    for (TaskId id = 0; id < graph_.TaskCount(); ++id) {
      const Task& task = graph_.tasks[id];
      if (task.kind != TaskKind::kCompute || ShapeOf(id).op != OpCode::kAdam) continue;
      params[task.rank] += ShapeOf(id).dims[0];
    }
    for (RankId rank = 0; rank < graph_.ranks.size(); ++rank) {
      graph_.buffers.push_back({.bytes = Times(params[rank], bytes_per_param),
                                .rank = rank,
                                .role = Role::kWorkspace,
                                .persistent = true});
    }
  }

  // The optimizer's master weights are the parameters. Products read 2-byte copies of them.
  void WidenParameters() {
    FindMasters();
    for (TaskId id = 0; id < graph_.TaskCount(); ++id) {
      const Task& task = graph_.tasks[id];
      for (std::size_t k = 0; k < std::size_t{task.read_count} + task.write_count; ++k) {
        Operand& operand = graph_.operands[task.operand_begin + k];
        const auto master = masters_.find(operand.buffer);
        if (master == masters_.end()) continue;
        if (IsProduct(id)) {
          operand.buffer = CopyFor(operand.buffer, task);
        } else {
          operand = {.buffer = master->second};
        }
      }
    }
    for (const auto& [parameter, master] : masters_) {
      graph_.buffers[parameter].persistent = false;
      graph_.buffers[parameter].bytes = 0;
    }
  }

 private:
  using CopyKey = std::tuple<BufferId, std::uint16_t, bool>;

  const OpShape& ShapeOf(TaskId id) const { return graph_.shapes[graph_.tasks[id].shape]; }
  const OperationKernels* KernelsOf(TaskId id) const {
    return graph_.tasks[id].kind == TaskKind::kCompute
               ? kernels_[static_cast<std::size_t>(ShapeOf(id).op)]
               : nullptr;
  }
  std::int64_t FirstInputBytes(TaskId id) const {
    return graph_.Reads(id).empty() ? 0 : graph_.OperandBytes(graph_.Reads(id)[0]);
  }
  bool IsProduct(TaskId id) const {
    const OpCode op = ShapeOf(id).op;
    return op == OpCode::kGemmForward || op == OpCode::kGemmDgrad;
  }

  // One more write, at the end of all operands.
  void AddScratch(TaskId id, std::int64_t bytes) {
    Task& task = graph_.tasks[id];
    graph_.buffers.push_back({.bytes = bytes, .rank = task.rank, .role = Role::kWorkspace});
    const auto begin = static_cast<std::uint32_t>(graph_.operands.size());
    for (std::size_t k = 0; k < std::size_t{task.read_count} + task.write_count; ++k) {
      graph_.operands.push_back(Operand{graph_.operands[task.operand_begin + k]});
    }
    graph_.operands.push_back({.buffer = static_cast<BufferId>(graph_.buffers.size() - 1)});
    task.operand_begin = begin;
    ++task.write_count;
  }

  // Parameters that an Adam of the GPU updates beside their master, except those that ZeRO 1 and 2
  // gather in place: these need the whole 2-byte copy between iterations.
  void FindMasters() {
    std::set<BufferId> gathered_in_place;
    for (TaskId id = 0; id < graph_.TaskCount(); ++id) {
      const Task& task = graph_.tasks[id];
      if (task.kind == TaskKind::kCollective) {
        for (const Operand& x : graph_.Writes(id)) gathered_in_place.insert(x.buffer);
      }
      if (task.phase == Phase::kRecompute) {
        for (const Operand& x : graph_.Reads(id)) recomputed_.insert(x.buffer);
      }
      const OpShape& shape = ShapeOf(id);
      if (task.kind != TaskKind::kCompute || shape.op != OpCode::kAdam) continue;
      if ((shape.flags & kMasterIsParameter) != 0) continue;
      Buffer& gradient = graph_.buffers[graph_.Reads(id)[0].buffer];
      if (gradient.dtype != Dtype::kFp32) {
        gradient.bytes = gradient.bytes / DtypeBytes(gradient.dtype) * DtypeBytes(Dtype::kFp32);
        gradient.dtype = Dtype::kFp32;
      }
      masters_[graph_.Writes(id).back().buffer] = graph_.Writes(id).front().buffer;
    }
    for (const BufferId buffer : gathered_in_place) masters_.erase(buffer);
  }

  // Made for a micro-batch's forward and kept for its backward, unless that recomputes the forward:
  // then it makes another.
  BufferId CopyFor(BufferId parameter, const Task& task) {
    const bool second = task.phase != Phase::kForward && recomputed_.count(parameter) > 0;
    const auto [it, is_new] =
        copies_.try_emplace(CopyKey{parameter, task.micro_batch, second}, kNone);
    if (is_new) {
      Buffer copy = graph_.buffers[parameter];
      copy.persistent = false;
      it->second = static_cast<BufferId>(graph_.buffers.size());
      graph_.buffers.push_back(copy);
    }
    return it->second;
  }

  TaskGraph& graph_;
  std::array<const OperationKernels*, kOpCodeCount> kernels_{};
  std::map<BufferId, BufferId> masters_;  // By parameters.
  std::set<BufferId> recomputed_;         // Read by a recomputation.
  std::map<CopyKey, BufferId> copies_;
};

}  // namespace

void ApplyFrameworkMemory(const Framework& framework, TaskGraph* graph) {
  FrameworkMemory memory(framework, graph);
  memory.ResizeOutputs();
  if (framework.fp32_parameters()) memory.WidenParameters();
  if (framework.optimizer_segment_bytes_per_param() > 0) {
    memory.AddOptimizerSegments(framework.optimizer_segment_bytes_per_param());
  }
}

}  // namespace twinstep
