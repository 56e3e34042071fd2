#include "exec/profile/memory_profile.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "exec/profile/operation_fields.h"
#include "sim/graph/operator_memory.h"

namespace twinstep {
namespace {

void AddEntry(const TaskGraph& graph, const OperatorMemoryUse& use, std::int64_t allocated_before,
              Profile* profile) {
  const Task& task = graph.tasks[use.task];
  const OpShape& shape = graph.shapes[task.shape];
  OperatorMemorySample* sample = profile->add_operator_memory();
  SetOperation(shape, sample);
  sample->set_phase(Name(task.phase));
  sample->set_block(task.block);
  sample->set_workspace_bytes(use.workspace_bytes);
  sample->set_allocated_before_bytes(allocated_before);
  sample->set_allocated_after_bytes(allocated_before + use.intra_current_bytes);
  sample->set_inter_peak_bytes(use.inter_peak_bytes);
  sample->set_intra_peak_bytes(use.intra_peak_bytes);
  sample->set_released_bytes(use.released_bytes);
}

// By the names that profiles use.
std::pair<std::string, std::vector<std::int64_t>> KeyOf(const std::string& op,
                                                        const std::string& dtype,
                                                        std::uint32_t flags,
                                                        std::vector<std::int64_t> dims) {
  while (!dims.empty() && dims.back() == 0) dims.pop_back();
  dims.push_back(flags);
  return {op + " " + dtype, std::move(dims)};
}

}  // namespace

Status ProfileMemory(const LoweredPlan& lowered, Profile* profile) {
  const TaskGraph& graph = lowered.graph;
  std::vector<std::int64_t> scratch_bytes(graph.TaskCount());
  const auto kernel = [&scratch_bytes](TaskId id, const KernelCall& call) {
    scratch_bytes[id] = static_cast<std::int64_t>(RunKernelAndMeasureScratch(call));
  };
  const Result<std::unique_ptr<PlanRun>> run =
      PlanRun::Create(lowered, {.threads = 1, .kernel = kernel});
  if (!run.ok()) return run.error();
  const Status done = run.value()->RunIteration();
  if (!done.ok()) return done.error();
  DescribeMemory(graph, scratch_bytes, profile);
  return Unit{};
}

void DescribeMemory(const TaskGraph& graph, std::span<const std::int64_t> scratch_bytes,
                    Profile* profile) {
  profile->clear_operator_memory();
  const auto workspace = [scratch_bytes](TaskId id) { return scratch_bytes[id]; };
  std::int64_t allocated = 0;
  for (const OperatorMemoryUse& use : MeasureOperatorMemory(graph, /*rank=*/0, workspace)) {
    allocated += use.inter_current_bytes;
    if (graph.tasks[use.task].micro_batch == 0) AddEntry(graph, use, allocated, profile);
    allocated += use.intra_current_bytes;
  }
  std::map<std::pair<std::string, std::vector<std::int64_t>>, std::int64_t> of_shape;
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    const OpShape shape = WorkShape(graph.shapes[graph.tasks[id].shape]);
    std::int64_t& bytes = of_shape[KeyOf(Name(shape.op), Name(shape.dtype), shape.flags,
                                         {shape.dims.begin(), shape.dims.end()})];
    bytes = std::max(bytes, scratch_bytes[id]);
  }
  for (OperatorSample& sample : *profile->mutable_operators()) {
    const auto found = of_shape.find(KeyOf(sample.op(), sample.dtype(), sample.flags(),
                                           {sample.dims().begin(), sample.dims().end()}));
    if (found != of_shape.end()) sample.set_workspace_bytes(found->second);
  }
}

}  // namespace twinstep
