#include "exec/cuda/cuda_backend.h"

#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "exec/cuda/cuda_error.h"
#include "exec/cuda/kernels/elementwise.h"
#include "sim/str_cat.h"

namespace twinstep::cuda {
namespace {

int ThreadsOf(const CudaOptions& options) {
  if (options.host_threads > 0) return options.host_threads;
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

bool IsCopy(OpCode op) { return op == OpCode::kCopyH2D || op == OpCode::kCopyD2H; }

// A range of a profiler's timeline, from the thread that launches.
class Range {
 public:
  explicit Range(OpCode op) { nvtxRangePushA(Name(op)); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
  ~Range() { nvtxRangePop(); }
};

Error OutOfMemory(const std::string& what, std::size_t bytes, std::uint32_t rank, const char* pool,
                  const std::string& reason) {
  return {.code = ExitCode::kNo,
          .message =
              StrCat("out of memory: ", bytes, " bytes for rank ", rank, "'s ", what, ": ", reason),
          .rule = "arena-memory",
          .rank = rank,
          .pool = pool,
          .excess_bytes = static_cast<std::int64_t>(bytes)};
}

}  // namespace

CudaBackend::CudaBackend(const CudaOptions& options)
    : options_(options), worker_(ThreadsOf(options)) {}

Result<std::unique_ptr<CudaBackend>> CudaBackend::Create(const CudaOptions& options) {
  const Result<CudaDevice> device = DescribeCudaDevice(options.device);
  if (!device.ok()) return device.error();
  std::unique_ptr<CudaBackend> backend(new CudaBackend(options));
  const Status set = CudaCall(cudaSetDevice(options.device), "cudaSetDevice");
  if (!set.ok()) return set.error();
  Result<std::unique_ptr<Operators>> operators =
      Operators::Create({.device = options.device, .deterministic = options.deterministic});
  if (!operators.ok()) return operators.error();
  backend->operators_ = std::move(operators).value();
  return backend;
}

CudaBackend::~CudaBackend() {
  // Host functions of a broken iteration may still use this object.
  cudaDeviceSynchronize();
  for (LaneStream& lane : lanes_) {
    if (lane.end != nullptr) cudaEventDestroy(lane.end);
    if (lane.stream != nullptr) cudaStreamDestroy(lane.stream);
  }
  for (const std::vector<cudaEvent_t>& events : {events_, meeting_events_}) {
    for (cudaEvent_t event : events) {
      if (event != nullptr) cudaEventDestroy(event);
    }
  }
  if (control_ != nullptr) cudaStreamDestroy(control_);
}

Status CudaBackend::Prepare(std::shared_ptr<const Program> program) {
  program_ = std::move(program);
  const TaskGraph& graph = *program_->graph;
  for (const OpShape& shape : graph.shapes) {
    if (const Status planned = operators_->Plan(shape); !planned.ok()) return planned;
  }
  for (const auto step :
       {&CudaBackend::Allocate, &CudaBackend::MakeLanes, &CudaBackend::AllocateScratch}) {
    if (const Status done = (this->*step)(); !done.ok()) return done;
  }
  BindOperands();
  pairs_ = FindFusedPairs(*program_, /*same_bits=*/options_.deterministic);
  if (options_.record_times) {
    Result<std::unique_ptr<TaskEvents>> times = TaskEvents::Create(graph.tasks.size());
    if (!times.ok()) return times.error();
    times_ = std::move(times).value();
  }
  // Tuning writes to the operands' memory.
  if (const Status tuned = TuneOperators(); !tuned.ok()) return tuned;
  return ZeroArenas();
}

Status CudaBackend::Allocate() {
  const std::size_t ranks = program_->graph->ranks.size();
  device_arenas_.resize(ranks);
  host_arenas_.resize(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (const Pool pool : {Pool::kGpu, Pool::kPinnedHost, Pool::kHost}) {
      if (const Status done = AllocateArena(rank, pool); !done.ok()) return done;
    }
  }
  Result<DeviceMemory> step = AllocateDevice(sizeof(DeviceStep));
  if (!step.ok()) return step.error();
  device_step_ = std::move(step).value();
  Result<HostMemory> staged = HostMemory::Allocate(sizeof(DeviceStep), /*pinned=*/true);
  if (!staged.ok()) return staged.error();
  staged_step_ = std::move(staged).value();
  return CudaCall(cudaStreamCreateWithFlags(&control_, cudaStreamNonBlocking), "cudaStreamCreate");
}

Status CudaBackend::AllocateArena(std::size_t rank, Pool pool) {
  const auto p = static_cast<std::size_t>(pool);
  const auto bytes = static_cast<std::size_t>(program_->arena->arena_bytes[rank][p]);
  const std::string what = StrCat("arena of pool ", Name(pool));
  const std::uint32_t global_rank = program_->graph->ranks[rank].global_rank;
  if (pool == Pool::kGpu) {
    Result<DeviceMemory> arena = AllocateDevice(bytes);
    if (!arena.ok()) {
      return OutOfMemory(what, bytes, global_rank, Name(pool), arena.error().message);
    }
    device_arenas_[rank] = std::move(arena).value();
    return Unit{};
  }
  Result<HostMemory> arena = HostMemory::Allocate(bytes, pool == Pool::kPinnedHost);
  if (!arena.ok()) return OutOfMemory(what, bytes, global_rank, Name(pool), arena.error().message);
  host_arenas_[rank][p] = std::move(arena).value();
  return Unit{};
}

Status CudaBackend::MakeLanes() {
  const TaskGraph& graph = *program_->graph;
  lanes_.resize(graph.ranks.size() * kLaneCount);
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    LaneStream& lane = StreamOf(id);
    if (lane.stream != nullptr) continue;
    for (const Status& made :
         {CudaCall(cudaStreamCreateWithFlags(&lane.stream, cudaStreamNonBlocking),
                   "cudaStreamCreate"),
          CudaCall(cudaEventCreateWithFlags(&lane.end, cudaEventDisableTiming),
                   "cudaEventCreate")}) {
      if (!made.ok()) return made;
    }
  }
  const auto make_event = [](cudaEvent_t* event) {
    return CudaCall(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "cudaEventCreate");
  };
  events_.resize(program_->event_count, nullptr);
  for (cudaEvent_t& event : events_) {
    if (const Status made = make_event(&event); !made.ok()) return made;
  }
  meeting_events_.resize(program_->members.size(), nullptr);
  for (cudaEvent_t& event : meeting_events_) {
    if (const Status made = make_event(&event); !made.ok()) return made;
  }
  return Unit{};
}

Status CudaBackend::AllocateScratch() {
  const TaskGraph& graph = *program_->graph;
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    const Task& task = graph.tasks[id];
    if (task.kind == TaskKind::kHost) continue;
    LaneStream& lane = StreamOf(id);
    lane.scratch_bytes =
        std::max(lane.scratch_bytes, operators_->WorkspaceBytes(graph.shapes[task.shape]));
  }
  std::int64_t total = 0;
  for (const auto& bytes : program_->arena->arena_bytes) {
    total += bytes[static_cast<std::size_t>(Pool::kGpu)];
  }
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    LaneStream& lane = lanes_[i];
    const std::uint32_t rank = graph.ranks[i / kLaneCount].global_rank;
    Result<DeviceMemory> scratch = AllocateDevice(lane.scratch_bytes);
    if (!scratch.ok()) {
      return OutOfMemory("scratch of library kernels", lane.scratch_bytes, rank, Name(Pool::kGpu),
                         scratch.error().message);
    }
    lane.scratch = std::move(scratch).value();
    total += static_cast<std::int64_t>(lane.scratch_bytes);
  }
  if (options_.memory_limit_bytes > 0 && total > options_.memory_limit_bytes) {
    return Error{.code = ExitCode::kNo,
                 .message = StrCat("arenas and scratch take ", total, " bytes of GPU memory, ",
                                   options_.memory_limit_bytes, " are allowed"),
                 .rule = "gpu-memory",
                 .rank = 0,
                 .pool = Name(Pool::kGpu),
                 .excess_bytes = total - options_.memory_limit_bytes};
  }
  return Unit{};
}

Status CudaBackend::ZeroArenas() {
  for (std::size_t rank = 0; rank < device_arenas_.size(); ++rank) {
    const auto bytes = static_cast<std::size_t>(
        program_->arena->arena_bytes[rank][static_cast<std::size_t>(Pool::kGpu)]);
    if (bytes == 0) continue;
    const Status zeroed =
        CudaCall(cudaMemsetAsync(device_arenas_[rank].get(), 0, bytes, control_), "cudaMemset");
    if (!zeroed.ok()) return zeroed;
  }
  return CudaCall(cudaStreamSynchronize(control_), "cudaStreamSynchronize");
}

std::byte* CudaBackend::Address(BufferId buffer) const {
  const Buffer& x = program_->graph->buffers[buffer];
  std::byte* const arena = x.pool == Pool::kGpu
                               ? device_arenas_[x.rank].get()
                               : host_arenas_[x.rank][static_cast<std::size_t>(x.pool)].get();
  return arena + program_->arena->offset[buffer];
}

void CudaBackend::BindOperands() {
  const TaskGraph& graph = *program_->graph;
  operands_.reserve(graph.operands.size());
  for (const Operand& x : graph.operands) {
    operands_.push_back(Address(x.buffer) + graph.slices[x.slice].offset);
  }
  members_.reserve(program_->members.size());
  for (const TaskId id : program_->members) {
    const Task& task = graph.tasks[id];
    std::byte* const* first = operands_.data() + task.operand_begin;
    members_.push_back({.read = task.read_count > 0 ? first[0] : nullptr,
                        .write = task.write_count > 0 ? first[task.read_count] : nullptr});
  }
  host_calls_.reserve(graph.tasks.size());
  for (TaskId id = 0; id < graph.TaskCount(); ++id) host_calls_.push_back({this, id});
}

Status CudaBackend::TuneOperators() {
  const TaskGraph& graph = *program_->graph;
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    const Task& task = graph.tasks[id];
    if (task.kind == TaskKind::kHost || task.rendezvous != kNone) continue;
    const std::byte* residual = nullptr;
    const KernelCall call = GemmCallOf(id, &residual);
    const Status tuned = operators_->Tune(call, residual);
    if (!tuned.ok()) return tuned;
  }
  return CudaCall(cudaDeviceSynchronize(), "tuning");
}

void CudaBackend::Write(BufferId buffer, std::int64_t offset, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const cudaError_t code =
      cudaMemcpy(Address(buffer) + offset, bytes.data(), bytes.size(), cudaMemcpyDefault);
  if (code != cudaSuccess && !error_.has_value()) error_ = CudaCall(code, "writing").error();
}

void CudaBackend::Read(BufferId buffer, std::int64_t offset, std::span<std::byte> bytes) const {
  if (bytes.empty()) return;
  const cudaError_t code =
      cudaMemcpy(bytes.data(), Address(buffer) + offset, bytes.size(), cudaMemcpyDefault);
  // The next iteration would fail with the same error; numbers read now are no numbers.
  if (code != cudaSuccess) std::memset(bytes.data(), 0xff, bytes.size());
}

std::size_t CudaBackend::LaneOf(TaskId id) const {
  const Task& task = program_->graph->tasks[id];
  return task.rank * std::size_t{kLaneCount} + static_cast<std::size_t>(task.lane);
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
          .step = reinterpret_cast<const DeviceStep*>(device_step_.get()),
          .workspace = lane.scratch.get(),
          .stream = lane.stream};
}

// The call of a task, which writes the sum with the residual where a pair's product does.
KernelCall CudaBackend::GemmCallOf(TaskId id, const std::byte** residual) {
  KernelCall call = CallOf(id);
  if (pairs_.fusion[id] == Fusion::kGemmAdd) {
    const KernelCall sum = CallOf(pairs_.partner[id]);
    call.writes = sum.writes;
    *residual = sum.reads[1];
  }
  return call;
}

void CudaBackend::Check(cudaError_t code, const char* what, TaskId task) {
  if (code != cudaSuccess) Check(CudaCall(code, what), task);
}

void CudaBackend::Check(const Status& status, TaskId task) {
  if (status.ok() || error_.has_value()) return;
  error_ = status.error();
  error_->rank = program_->graph->ranks[program_->graph->tasks[task].rank].global_rank;
  error_->message =
      StrCat("task ", task, " (", program_->graph->TaskName(task), "): ", error_->message);
}

void CudaBackend::BeginIteration(const StepValues& step,
                                 std::optional<std::uint64_t> /*shuffle_seed*/) {
  step_ = step;
  const DeviceStep values = MakeDeviceStep(step);
  std::memcpy(staged_step_.get(), &values, sizeof values);
  Check(cudaMemcpyAsync(device_step_.get(), staged_step_.get(), sizeof values,
                        cudaMemcpyHostToDevice, control_),
        "values of the step", 0);
  if (times_ != nullptr) Check(times_->BeginIteration(control_), "cudaEventRecord", 0);
  for (LaneStream& lane : lanes_) lane.follows = kNone;
  // No lane waits for the control stream, so it must be done.
  Check(cudaStreamSynchronize(control_), "cudaStreamSynchronize", 0);
}

void CudaBackend::RunOnHost(TaskId id) {
  const Task& task = program_->graph->tasks[id];
  std::byte* const* operands = operands_.data() + task.operand_begin;
  worker_.Run({.shape = program_->graph->shapes[task.shape],
               .gradient_dtype = program_->gradient_dtype,
               .state_dtype = program_->state_dtype,
               .reads = {operands, task.read_count},
               .writes = {operands + task.read_count, task.write_count},
               .step = step_,
               .place = program_->places[id]});
}

Status CudaBackend::LaunchOperator(TaskId id) {
  const std::byte* residual = nullptr;
  const KernelCall call = GemmCallOf(id, &residual);
  switch (pairs_.fusion[id]) {
    case Fusion::kNone:
    case Fusion::kGemmAdd:
      return operators_->Launch(call, residual);
    case Fusion::kWithNext:
    case Fusion::kWithPrevious:
      return Unit{};
    default:
      break;
  }
  const KernelCall first = CallOf(pairs_.partner[id]);
  const std::int64_t n = call.shape.dims[0], f = call.shape.dims[1];
  if (pairs_.fusion[id] == Fusion::kSwiGluBackward) {
    return CudaCall(LaunchSwiGluBackward(call.shape.dtype, n, f, first.reads[0], first.reads[2],
                                         call.writes[0], call.stream),
                    "SwiGLU backward");
  }
  std::byte* const silu = pairs_.fusion[id] == Fusion::kSwiGluWithSilu ? first.writes[0] : nullptr;
  return CudaCall(LaunchSwiGluForward(call.shape.dtype, n, f, first.reads[0], silu, call.writes[0],
                                      call.stream),
                  "SwiGLU");
}

void CudaBackend::RecordStart(TaskId id) {
  if (times_ == nullptr) return;
  const LaneStream& lane = StreamOf(id);
  if (lane.follows == kNone) {
    Check(times_->Start(id, lane.stream), "cudaEventRecord", id);
  } else {
    times_->StartAtEndOf(lane.follows, id);
  }
}

void CudaBackend::RecordEnd(TaskId id) {
  if (times_ == nullptr) return;
  LaneStream& lane = StreamOf(id);
  Check(times_->End(id, lane.stream), "cudaEventRecord", id);
  lane.follows = id;
}

void CudaBackend::Launch(TaskId id) {
  const Task& task = program_->graph->tasks[id];
  const OpShape& shape = program_->graph->shapes[task.shape];
  const Range range(shape.op);
  const cudaStream_t stream = StreamOf(id).stream;
  RecordStart(id);
  if (task.kind == TaskKind::kHost) {
    const auto call = [](void* data) {
      const auto* const host_call = static_cast<const HostCall*>(data);
      host_call->backend->RunOnHost(host_call->task);
    };
    Check(cudaLaunchHostFunc(stream, call, &host_calls_[id]), "cudaLaunchHostFunc", id);
  } else if (IsCopy(shape.op)) {
    std::byte* const* operands = operands_.data() + task.operand_begin;
    Check(cudaMemcpyAsync(operands[1], operands[0], static_cast<std::size_t>(shape.dims[0]),
                          cudaMemcpyDefault, stream),
          Name(shape.op), id);
  } else {
    Check(LaunchOperator(id), id);
  }
  RecordEnd(id);
}

void CudaBackend::Exchange(RendezvousId rendezvous) {
  const TaskGraph& graph = *program_->graph;
  const std::span<const TaskId> tasks = program_->Members(rendezvous);
  const std::uint32_t first_member = program_->member_begin[rendezvous];
  const OpShape& shape = graph.shapes[graph.tasks[tasks[0]].shape];
  const Range range(shape.op);
  // The first member's stream does the work of all, after all have come; then all go on.
  const cudaStream_t stream = StreamOf(tasks[0]).stream;
  for (std::size_t i = 1; i < tasks.size(); ++i) {
    const cudaEvent_t arrived = meeting_events_[first_member + i];
    Check(cudaEventRecord(arrived, StreamOf(tasks[i]).stream), "cudaEventRecord", tasks[i]);
    Check(cudaStreamWaitEvent(stream, arrived), "cudaStreamWaitEvent", tasks[i]);
  }
  if (times_ != nullptr) {
    for (const TaskId id : tasks) Check(times_->Start(id, stream), "cudaEventRecord", id);
  }
  Check(RunGroupOperation(
            shape, shape.dims[0],
            std::span<const MemberBuffers>(members_).subspan(first_member, tasks.size()), stream),
        Name(shape.op), tasks[0]);
  if (times_ != nullptr) {
    for (const TaskId id : tasks) Check(times_->End(id, stream), "cudaEventRecord", id);
  }
  const cudaEvent_t done = meeting_events_[first_member];
  Check(cudaEventRecord(done, stream), "cudaEventRecord", tasks[0]);
  StreamOf(tasks[0]).follows = kNone;
  for (const TaskId id : tasks.subspan(1)) {
    Check(cudaStreamWaitEvent(StreamOf(id).stream, done), "cudaStreamWaitEvent", id);
    StreamOf(id).follows = kNone;
  }
}

void CudaBackend::Record(EventId event, TaskId task) {
  Check(cudaEventRecord(events_[event], StreamOf(task).stream), "cudaEventRecord", task);
}

void CudaBackend::Wait(EventId event, TaskId task) {
  LaneStream& lane = StreamOf(task);
  Check(cudaStreamWaitEvent(lane.stream, events_[event]), "cudaStreamWaitEvent", task);
  lane.follows = kNone;
}

Outcome CudaBackend::Synchronize(double stall_limit_s) {
  using Clock = std::chrono::steady_clock;
  if (error_.has_value()) return Outcome::kFailed;
  std::vector<const LaneStream*> running;
  for (const LaneStream& lane : lanes_) {
    if (lane.stream == nullptr) continue;
    Check(cudaEventRecord(lane.end, lane.stream), "cudaEventRecord", 0);
    running.push_back(&lane);
  }
  // Progress is what the lanes' ends and events show.
  const auto finished = [this] {
    return std::count_if(events_.begin(), events_.end(),
                         [](cudaEvent_t event) { return cudaEventQuery(event) == cudaSuccess; });
  };
  auto last_progress = Clock::now();
  auto last_look = last_progress;
  std::int64_t progress = 0;
  while (!running.empty() && !error_.has_value()) {
    const cudaError_t code = cudaEventQuery(running.back()->end);
    if (code == cudaSuccess) {
      running.pop_back();
      last_progress = Clock::now();
      continue;
    }
    if (code != cudaErrorNotReady) {
      Check(code, "iteration", 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    const auto now = Clock::now();
    if (now - last_look < std::chrono::seconds(1)) continue;
    last_look = now;
    if (const std::int64_t done = finished(); done != progress) {
      progress = done;
      last_progress = now;
    }
    if (std::chrono::duration<double>(now - last_progress).count() > stall_limit_s) {
      return Outcome::kStalled;
    }
  }
  return error_.has_value() ? Outcome::kFailed : Outcome::kDone;
}

Error CudaBackend::error() const { return error_.value_or(Error{}); }

bool CudaBackend::Finished(TaskId id) const {
  if (times_ != nullptr) return times_->Ended(id);
  // A lane is in order: what a later event of it shows is true of the task too.
  const TaskGraph& graph = *program_->graph;
  const Task& task = graph.tasks[id];
  for (TaskId later = id; later < graph.rank_begin[task.rank + 1]; ++later) {
    if (graph.tasks[later].lane != task.lane || program_->event[later] == kNone) continue;
    return cudaEventQuery(events_[program_->event[later]]) == cudaSuccess;
  }
  return cudaEventQuery(lanes_[LaneOf(id)].end) == cudaSuccess;
}

TaskTime CudaBackend::Time(TaskId task) const {
  if (times_ == nullptr) return {};
  return {times_->StartNs(task), times_->EndNs(task)};
}

std::optional<BackendMemory> CudaBackend::Memory() const {
  std::size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) return std::nullopt;
  BackendMemory memory{.used_bytes = static_cast<std::int64_t>(total - free),
                       .total_bytes = static_cast<std::int64_t>(total)};
  if (program_ == nullptr) return memory;
  for (const auto& bytes : program_->arena->arena_bytes) {
    memory.arena_bytes += bytes[static_cast<std::size_t>(Pool::kGpu)];
  }
  for (const LaneStream& lane : lanes_) {
    memory.scratch_bytes += static_cast<std::int64_t>(lane.scratch_bytes);
  }
  return memory;
}

}  // namespace twinstep::cuda

namespace twinstep {

Result<CudaDevice> DescribeCudaDevice(int device) {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess || count == 0) {
    return Error{.code = ExitCode::kNo,
                 .message = StrCat("no GPU: ", code == cudaSuccess ? "the driver shows none"
                                                                   : cudaGetErrorString(code)),
                 .rule = "cuda-device"};
  }
  if (device >= count) {
    return Error{.code = ExitCode::kNo,
                 .message = StrCat("there is no GPU ", device, ": the driver shows ", count),
                 .rule = "cuda-device"};
  }
  cudaDeviceProp properties{};
  const Status asked =
      CudaCall(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  if (!asked.ok()) return asked.error();
  return CudaDevice{.name = properties.name,
                    .memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem)};
}

Result<std::unique_ptr<Backend>> MakeCudaBackend(const CudaOptions& options) {
  Result<std::unique_ptr<cuda::CudaBackend>> backend = cuda::CudaBackend::Create(options);
  if (!backend.ok()) return backend.error();
  return std::unique_ptr<Backend>(std::move(backend).value());
}

}  // namespace twinstep
