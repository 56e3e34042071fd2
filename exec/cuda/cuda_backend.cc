// The life of a backend, and its GPUs.

#include "exec/cuda/cuda_backend.h"

#include <algorithm>
#include <utility>

#include "exec/cuda/cuda_device.h"
#include "exec/cuda/cuda_error.h"
#include "exec/cuda/placement.h"
#include "sim/hardware_threads.h"
#include "sim/str_cat.h"

namespace twinstep::cuda {
namespace {

// Of this process.
int HostThreads(const CudaOptions& options) {
  if (options.host_threads > 0) return options.host_threads;
  if (options.processes != nullptr) return options.processes->cores();
  return HardwareThreads();
}

}  // namespace

CudaBackend::CudaBackend(const CudaOptions& options)
    : options_(options),
      host_threads_(HostThreads(options)),
      place_(options.processes == nullptr ? ProcessPlace{} : options.processes->place()),
      operators_(options.operators == nullptr ? std::make_shared<OperatorCache>()
                                              : options.operators) {}

Result<std::unique_ptr<CudaBackend>> CudaBackend::Create(const CudaOptions& options) {
  const Result<CudaDevice> device = DescribeCudaDevice(options.device);
  if (!device.ok()) return device.error();
  if (options.record_times && options.processes != nullptr && options.processes->place().size > 1) {
    return Error{.message = "a process does not know when tasks of the others run",
                 .rule = "processes"};
  }
  return std::unique_ptr<CudaBackend>(new CudaBackend(options));
}

CudaBackend::~CudaBackend() {
  if (HasEnded()) {
    for (const std::unique_ptr<NcclGroup>& group : groups_) group->Abort();
    if (world_ != nullptr) world_->Abort();
  }
  late_.reset();
  // Host functions of a broken iteration may still use this object.
  for (const Gpu& gpu : gpus_) {
    cudaSetDevice(gpu.device);
    cudaDeviceSynchronize();
    if (gpu.operators != nullptr) gpu.operators->ForgetStream();
  }
  // Communicators may know the streams.
  groups_.clear();
  world_.reset();
  for (const Gpu& gpu : gpus_) {
    if (gpu.control != nullptr) cudaStreamDestroy(gpu.control);
  }
  for (LaneStream& lane : lanes_) {
    if (lane.end != nullptr) cudaEventDestroy(lane.end);
    if (lane.stream != nullptr) cudaStreamDestroy(lane.stream);
  }
  for (const std::vector<cudaEvent_t>& events : {events_, arrived_, done_}) {
    for (cudaEvent_t event : events) {
      if (event != nullptr) cudaEventDestroy(event);
    }
  }
}

Status CudaBackend::Prepare(std::shared_ptr<const Program> program) {
  program_ = std::move(program);
  for (const auto step :
       {&CudaBackend::MakeGpus, &CudaBackend::ConnectGpus, &CudaBackend::JoinGroups,
        &CudaBackend::Allocate, &CudaBackend::MakeLanes, &CudaBackend::MakeLateLanes,
        &CudaBackend::AllocateScratch, &CudaBackend::MakeTimes}) {
    if (const Status done = (this->*step)(); !done.ok()) return done;
  }
  BindOperands();
  pairs_ = FindFusedPairs(*program_->graph, PairRuleOf(options_), program_->arena);
  // Tuning writes to the operands' memory.
  if (const Status tuned = TuneOperators(); !tuned.ok()) return tuned;
  return ZeroArenas();
}

Status CudaBackend::MakeGpus() {
  const TaskGraph& graph = *program_->graph;
  int visible = 0;
  const Status counted = CudaCall(cudaGetDeviceCount(&visible), "cudaGetDeviceCount");
  if (!counted.ok()) return counted;
  visible -= options_.device;
  if (options_.gpus > 0) visible = std::min(visible, options_.gpus);
  const Result<RankRange> own = RanksOfProcess(graph.ranks.size(), place_);
  if (!own.ok()) return own.error();
  ranks_ = own.value();
  int first = options_.device;
  if (place_.size > 1) {
    const Result<int> of_host =
        FirstGpuOfProcess(static_cast<int>(ranks_.end - ranks_.first), place_.local_rank, visible);
    if (!of_host.ok()) return of_host.error();
    first += of_host.value();
    visible -= of_host.value();
  }
  const std::size_t ranks = ranks_.end - ranks_.first;
  if (options_.gpu_a_rank && static_cast<std::size_t>(visible) < ranks) {
    return Error{.code = ExitCode::kNo,
                 .message = StrCat("the plan has ", ranks, " ranks, and the driver shows ", visible,
                                   " GPUs: each rank needs one of its own"),
                 .rule = "cuda-device"};
  }
  const std::vector<std::size_t> placed = PlaceRanks(ranks, static_cast<std::size_t>(visible));
  gpu_of_rank_.resize(graph.ranks.size());
  std::copy(placed.begin(), placed.end(),
            gpu_of_rank_.begin() + static_cast<std::ptrdiff_t>(ranks_.first));
  gpus_.resize(placed.back() + 1);
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    Gpu& gpu = gpus_[i];
    gpu.device = first + static_cast<int>(i);
    const Status set = CudaCall(cudaSetDevice(gpu.device), "cudaSetDevice");
    if (!set.ok()) return set;
    const Result<Operators*> operators =
        operators_->Of({.device = gpu.device, .deterministic = options_.deterministic});
    if (!operators.ok()) return operators.error();
    gpu.operators = operators.value();
    gpu.worker =
        std::make_unique<HostWorker>(std::max(1, host_threads_ / static_cast<int>(gpus_.size())));
    const Status made = CudaCall(cudaStreamCreateWithFlags(&gpu.control, cudaStreamNonBlocking),
                                 "cudaStreamCreate");
    if (!made.ok()) return made;
    Result<DeviceMemory> step = AllocateDevice(sizeof(DeviceStep));
    if (!step.ok()) return step.error();
    gpu.step = std::move(step).value();
  }
  return OnEachGpu([&graph](Gpu& gpu) -> Status {
    for (const OpShape& shape : graph.shapes) {
      if (const Status planned = gpu.operators->Plan(shape); !planned.ok()) return planned;
    }
    return Unit{};
  });
}

Status CudaBackend::OnEachGpu(const std::function<Status(Gpu&)>& work) {
  std::vector<Status> done(gpus_.size(), Unit{});
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      threads.emplace_back([this, i, &work, &done] {
        done[i] = CudaCall(cudaSetDevice(gpus_[i].device), "cudaSetDevice");
        if (done[i].ok()) done[i] = work(gpus_[i]);
      });
    }
  }
  const auto failed = std::ranges::find_if(done, [](const Status& status) { return !status.ok(); });
  return failed == done.end() ? Status(Unit{}) : *failed;
}

Status CudaBackend::ConnectGpus() {
  if (!options_.peer_memory) return Unit{};
  for (const Gpu& gpu : gpus_) {
    Status status = CudaCall(cudaSetDevice(gpu.device), "cudaSetDevice");
    if (!status.ok()) return status;
    for (const Gpu& peer : gpus_) {
      if (peer.device == gpu.device) continue;
      int reachable = 0;
      status = CudaCall(cudaDeviceCanAccessPeer(&reachable, gpu.device, peer.device),
                        "cudaDeviceCanAccessPeer");
      if (!status.ok()) return status;
      if (reachable == 0) {
        return Error{.code = ExitCode::kNo,
                     .message = StrCat("GPU ", gpu.device, " cannot reach the memory of GPU ",
                                       peer.device, "; start a process for each of them"),
                     .rule = "cuda-peer-access"};
      }
      const cudaError_t enabled = cudaDeviceEnablePeerAccess(peer.device, 0);
      if (enabled == cudaErrorPeerAccessAlreadyEnabled) {
        cudaGetLastError();  // By another backend of this process.
      } else if (enabled != cudaSuccess) {
        return CudaCall(enabled, "cudaDeviceEnablePeerAccess");
      }
    }
  }
  return Unit{};
}

const CudaBackend::Gpu& CudaBackend::GpuOf(TaskId id) const {
  return gpus_[gpu_of_rank_[program_->graph->tasks[id].rank]];
}

void CudaBackend::UseGpuOf(TaskId id) {
  Check(cudaSetDevice(GpuOf(id).device), "cudaSetDevice", id);
}

Status CudaBackend::UseGpuOfRank(std::size_t rank) const {
  return CudaCall(cudaSetDevice(gpus_[gpu_of_rank_[rank]].device), "cudaSetDevice");
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

Error CudaBackend::error() const { return error_.value_or(Error{}); }

bool CudaBackend::Finished(TaskId id) const {
  if (!IsOwnTask(id)) return true;  // As far as this process knows.
  // Events of tasks that were not launched are the last iteration's.
  const LaneStream& lane = lanes_[LaneOf(id)];
  if (id >= lane.launched_end) return false;
  if (times_ != nullptr) return times_->Ended(id);
  // A lane is in order: what a later event of it shows is true of the task too.
  const TaskGraph& graph = *program_->graph;
  const Task& task = graph.tasks[id];
  for (TaskId later = id; later < lane.launched_end; ++later) {
    if (graph.tasks[later].lane != task.lane || program_->event[later] == kNone) continue;
    return cudaEventQuery(events_[program_->event[later]]) == cudaSuccess;
  }
  return cudaEventQuery(lane.end) == cudaSuccess;
}

}  // namespace twinstep::cuda

namespace twinstep {

std::shared_ptr<cuda::OperatorCache> MakeOperatorCache() {
  return std::make_shared<cuda::OperatorCache>();
}

std::vector<std::string> KernelNotes(const cuda::OperatorCache* operators) {
  return operators == nullptr ? std::vector<std::string>() : operators->Notes();
}

Result<std::unique_ptr<Backend>> MakeCudaBackend(const CudaOptions& options) {
  Result<std::unique_ptr<cuda::CudaBackend>> backend = cuda::CudaBackend::Create(options);
  if (!backend.ok()) return backend.error();
  return std::unique_ptr<Backend>(std::move(backend).value());
}

}  // namespace twinstep
