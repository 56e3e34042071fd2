// What a task of one rank runs: an operator, a copy or a host task.

#include "exec/cpu/task_call.h"
#include "exec/cuda/cuda_backend.h"
#include "exec/cuda/cuda_error.h"
#include "exec/cuda/kernels/elementwise.h"
#include "exec/cuda/profiler_range.h"
#include "exec/runtime/operand_addresses.h"

namespace twinstep::cuda {

void CudaBackend::BindOperands() {
  const TaskGraph& graph = *program_->graph;
  operands_ = OperandAddresses(graph, [&](BufferId buffer) {
    return IsOwn(graph.buffers[buffer].rank) ? Address(buffer) : nullptr;
  });
  members_ = MemberAddresses(*program_, operands_);
  host_calls_.reserve(graph.tasks.size());
  for (TaskId id = 0; id < graph.TaskCount(); ++id) host_calls_.push_back({this, id});
}

Status CudaBackend::TuneOperators() {
  return OnEachGpu([this](const Gpu& gpu) -> Status {
    const TaskGraph& graph = *program_->graph;
    for (TaskId id = 0; id < graph.TaskCount(); ++id) {
      const Task& task = graph.tasks[id];
      if (task.kind == TaskKind::kHost || task.rendezvous != kNone || !IsOwn(task.rank)) continue;
      if (&GpuOf(id) != &gpu) continue;
      const std::byte* residual = nullptr;
      const KernelCall call = GemmCallOf(id, &residual);
      if (const Status tuned = gpu.operators->Tune(call, residual); !tuned.ok()) return tuned;
    }
    return CudaCall(cudaDeviceSynchronize(), "tuning");
  });
}

KernelCall CudaBackend::CallOf(TaskId id) {
  const Task& task = program_->graph->tasks[id];
  std::byte* const* operands = operands_.data() + task.operand_begin;
  const LaneStream& lane = StreamOf(id);
  return {.shape = program_->graph->shapes[task.shape],
          .gradient_dtype = program_->gradient_dtype,
          .reads = {operands, task.read_count},
          .writes = {operands + task.read_count, task.write_count},
          .place = program_->places[id],
          .step = reinterpret_cast<const DeviceStep*>(GpuOf(id).step.get()),
          .workspace = lane.scratch.get(),
          .stream = lane.stream};
}

// The call of a task, which writes the sum with the residual where a pair's product does.
KernelCall CudaBackend::GemmCallOf(TaskId id, const std::byte** residual) {
  KernelCall call = CallOf(id);
  if (pairs_.Of(id) == Fusion::kGemmAdd) {
    const KernelCall sum = CallOf(pairs_.partner[id]);
    call.writes = sum.writes;
    *residual = sum.reads[1];
  }
  return call;
}

void CudaBackend::RunOnHost(TaskId id) {
  GpuOf(id).worker->Run(CpuCallOf(*program_, id, operands_, step_));
}

Status CudaBackend::LaunchOperator(TaskId id) {
  const std::byte* residual = nullptr;
  const KernelCall call = GemmCallOf(id, &residual);
  switch (pairs_.Of(id)) {
    case Fusion::kAlone:
    case Fusion::kGemmAdd:
      return GpuOf(id).operators->Launch(call, residual);
    case Fusion::kWithNext:
    case Fusion::kWithPrevious:
      return Unit{};
    default:
      break;
  }
  const KernelCall first = CallOf(pairs_.partner[id]);
  const std::int64_t n = call.shape.dims[0], f = call.shape.dims[1];
  if (pairs_.Of(id) == Fusion::kSwiGluBackward) {
    return CudaCall(LaunchSwiGluBackward(call.shape.dtype, n, f, first.reads[0], first.reads[2],
                                         call.writes[0], call.stream),
                    "SwiGLU backward");
  }
  std::byte* const silu = pairs_.Of(id) == Fusion::kSwiGluWithSilu ? first.writes[0] : nullptr;
  return CudaCall(LaunchSwiGluForward(call.shape.dtype, n, f, first.reads[0], silu, call.writes[0],
                                      call.stream),
                  "SwiGLU");
}

void CudaBackend::Launch(TaskId id) {
  if (!IsOwnTask(id) || HasEnded()) return;
  if (IsLate(id)) return late_->Launch(LaneOf(id), id);
  UseGpuOf(id);
  Check(LaunchNow(id), id);
}

Status CudaBackend::LaunchNow(TaskId id) {
  const Task& task = program_->graph->tasks[id];
  const OpShape& shape = program_->graph->shapes[task.shape];
  const ProfilerRange range(shape.op);
  LaneStream& lane = StreamOf(id);
  Status done = RecordStart(id);
  if (!done.ok()) return done;
  if (task.kind == TaskKind::kHost) {
    const auto call = [](void* data) {
      const auto* const host_call = static_cast<const HostCall*>(data);
      host_call->backend->RunOnHost(host_call->task);
    };
    done = CudaCall(cudaLaunchHostFunc(lane.stream, call, &host_calls_[id]), "cudaLaunchHostFunc");
  } else if (IsCopy(shape.op)) {
    std::byte* const* operands = operands_.data() + task.operand_begin;
    done =
        CudaCall(cudaMemcpyAsync(operands[1], operands[0], static_cast<std::size_t>(shape.dims[0]),
                                 cudaMemcpyDefault, lane.stream),
                 Name(shape.op));
  } else {
    done = LaunchOperator(id);
  }
  if (!done.ok()) return done;
  lane.launched_end = id + 1;
  return RecordEnd(id);
}

}  // namespace twinstep::cuda
