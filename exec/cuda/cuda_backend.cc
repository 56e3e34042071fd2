#include "exec/cuda/cuda_backend.h"

#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "exec/cuda/cuda_error.h"
#include "exec/cuda/kernels/elementwise.h"
#include "exec/cuda/libraries.h"
#include "exec/cuda/placement.h"
#include "sim/str_cat.h"

namespace twinstep::cuda {
namespace {

// Of the host tasks of one of `gpus`.
int HostThreads(const CudaOptions& options, std::size_t gpus) {
  const int threads = options.host_threads > 0
                          ? options.host_threads
                          : static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, threads / static_cast<int>(gpus));
}

// Of Read in several processes.
constexpr std::size_t kSharedBytes = std::size_t{16} << 20;
// Between looks at what may keep work from ending.
constexpr auto kLookInterval = std::chrono::seconds(1);

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
    : options_(options),
      place_(options.processes == nullptr ? ProcessPlace{} : options.processes->place()) {}

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
  if (error_.has_value() || stalled_) {
    for (const std::unique_ptr<NcclGroup>& group : groups_) group->Abort();
    if (world_ != nullptr) world_->Abort();
  }
  // Host functions of a broken iteration may still use this object.
  for (const Gpu& gpu : gpus_) {
    cudaSetDevice(gpu.device);
    cudaDeviceSynchronize();
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
  for (const auto step : {&CudaBackend::MakeGpus, &CudaBackend::ConnectGpus,
                          &CudaBackend::JoinGroups, &CudaBackend::Allocate, &CudaBackend::MakeLanes,
                          &CudaBackend::AllocateScratch, &CudaBackend::MakeTimes}) {
    if (const Status done = (this->*step)(); !done.ok()) return done;
  }
  BindOperands();
  pairs_ = FindFusedPairs(*program_, /*same_bits=*/options_.deterministic);
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
    Result<std::unique_ptr<Operators>> operators =
        Operators::Create({.device = gpu.device, .deterministic = options_.deterministic});
    if (!operators.ok()) return operators.error();
    gpu.operators = std::move(operators).value();
    for (const OpShape& shape : graph.shapes) {
      if (const Status planned = gpu.operators->Plan(shape); !planned.ok()) return planned;
    }
    gpu.worker = std::make_unique<HostWorker>(HostThreads(options_, gpus_.size()));
    const Status made = CudaCall(cudaStreamCreateWithFlags(&gpu.control, cudaStreamNonBlocking),
                                 "cudaStreamCreate");
    if (!made.ok()) return made;
    Result<DeviceMemory> step = AllocateDevice(sizeof(DeviceStep));
    if (!step.ok()) return step.error();
    gpu.step = std::move(step).value();
  }
  return Unit{};
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

Status CudaBackend::JoinGroups() {
  const TaskGraph& graph = *program_->graph;
  group_of_rendezvous_.resize(graph.rendezvous.size(), nullptr);
  const Result<std::vector<NcclPlan>> plans = PlanNcclGroups();
  if (!plans.ok()) return plans.error();
  const std::vector<NcclPlan>& joined = plans.value();
  const int processes = place_.size;
  if (joined.empty() && processes == 1) return Unit{};
  // One more for all processes.
  std::vector<std::byte> bytes((joined.size() + 1) * sizeof(NcclId));
  for (std::size_t i = 0; place_.rank == 0 && i <= joined.size(); ++i) {
    const Result<NcclId> id = MakeNcclId();
    if (!id.ok()) return id.error();
    std::memcpy(bytes.data() + i * sizeof(NcclId), &id.value(), sizeof(NcclId));
  }
  if (processes > 1) {
    Result<std::vector<std::byte>> ids = options_.processes->ShareFirst(bytes);
    if (!ids.ok()) return ids.error();
    if (ids.value().size() != bytes.size()) {
      return Error{.message = "process 0 trains another plan", .rule = "processes"};
    }
    bytes = std::move(ids).value();
  }
  const auto join = [&](std::size_t i, std::span<const NcclGroup::Member> own, int size,
                        bool has_messages) {
    NcclId id;
    std::memcpy(&id, bytes.data() + i * sizeof id, sizeof id);
    return NcclGroup::Create(id, own, size, has_messages);
  };
  for (std::size_t i = 0; i < joined.size(); ++i) {
    if (joined[i].own.empty()) continue;
    Result<std::unique_ptr<NcclGroup>> group =
        join(i, joined[i].own, joined[i].size, joined[i].has_messages);
    if (!group.ok()) return group.error();
    for (const RendezvousId id : joined[i].rendezvous) {
      group_of_rendezvous_[id] = group.value().get();
    }
    groups_.push_back(std::move(group).value());
  }
  if (processes == 1) return Unit{};
  const std::array self{NcclGroup::Member{.index = place_.rank, .device = gpus_[0].device}};
  Result<std::unique_ptr<NcclGroup>> world =
      join(joined.size(), self, processes, /*has_messages=*/false);
  if (!world.ok()) return world.error();
  world_ = std::move(world).value();
  Result<DeviceMemory> memory = AllocateDevice(kSharedBytes);
  if (!memory.ok()) return memory.error();
  shared_ = std::move(memory).value();
  return Unit{};
}

Result<std::vector<CudaBackend::NcclPlan>> CudaBackend::PlanNcclGroups() const {
  const TaskGraph& graph = *program_->graph;
  const std::size_t share = ranks_.end - ranks_.first;
  std::vector<NcclPlan> plans;
  std::map<std::pair<GroupId, Lane>, std::size_t> index;
  for (RendezvousId id = 0; id < graph.rendezvous.size(); ++id) {
    const std::span<const TaskId> tasks = program_->Members(id);
    std::set<std::size_t> owners;
    for (const TaskId task : tasks) owners.insert(graph.tasks[task].rank / share);
    if (owners.size() == 1 && options_.peer_memory) continue;
    const Task& first = graph.tasks[tasks[0]];
    const OpShape& shape = graph.shapes[first.shape];
    const bool sums = shape.op == OpCode::kAllReduce || shape.op == OpCode::kReduceScatter;
    if (options_.deterministic && sums && (shape.flags & kExactSum) == 0) {
      return Error{.code = ExitCode::kNo,
                   .message =
                       "NCCL's sums are not in rank order: deterministic training needs all "
                       "ranks in one process",
                   .rule = "deterministic"};
    }
    const auto [at, is_new] =
        index.try_emplace({graph.rendezvous[id].group, first.lane}, plans.size());
    if (is_new)
      plans.push_back({.own = {}, .size = static_cast<int>(tasks.size()), .rendezvous = {}});
    NcclPlan& plan = plans[at->second];
    plan.has_messages = plan.has_messages || NcclGroup::IsMessage(shape.op);
    plan.rendezvous.push_back(id);
    if (!is_new) continue;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const RankId rank = graph.tasks[tasks[i]].rank;
      if (!IsOwn(rank)) continue;
      const int device = GpuOf(tasks[i]).device;
      for (const NcclGroup::Member& other : plan.own) {
        if (other.device != device) continue;
        return Error{.code = ExitCode::kNo,
                     .message = StrCat("rank ", rank, " shares GPU ", device,
                                       " with another of its group: NCCL needs a GPU a rank"),
                     .rule = "cuda-devices",
                     .rank = rank};
      }
      plan.own.push_back({.index = static_cast<int>(i), .device = device});
    }
  }
  return plans;
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

Status CudaBackend::Allocate() {
  const std::size_t ranks = program_->graph->ranks.size();
  device_arenas_.resize(ranks);
  host_arenas_.resize(ranks);
  for (std::size_t rank = ranks_.first; rank < ranks_.end; ++rank) {
    if (const Status used = UseGpuOfRank(rank); !used.ok()) return used;
    for (const Pool pool : {Pool::kGpu, Pool::kPinnedHost, Pool::kHost}) {
      if (const Status done = AllocateArena(rank, pool); !done.ok()) return done;
    }
  }
  Result<HostMemory> staged = HostMemory::Allocate(sizeof(DeviceStep), /*pinned=*/true);
  if (!staged.ok()) return staged.error();
  staged_step_ = std::move(staged).value();
  return Unit{};
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
  events_.resize(program_->event_count, nullptr);
  arrived_.resize(program_->members.size(), nullptr);
  done_.resize(program_->members.size(), nullptr);
  // An event belongs to the GPU that is current when it is made.
  const auto make_event = [](cudaEvent_t* event) {
    return CudaCall(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "cudaEventCreate");
  };
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    if (!IsOwnTask(id)) continue;
    Status made = UseGpuOfRank(graph.tasks[id].rank);
    LaneStream& lane = StreamOf(id);
    if (made.ok() && lane.stream == nullptr) {
      made = CudaCall(cudaStreamCreateWithFlags(&lane.stream, cudaStreamNonBlocking),
                      "cudaStreamCreate");
      if (made.ok()) made = make_event(&lane.end);
    }
    if (made.ok() && program_->event[id] != kNone) made = make_event(&events_[program_->event[id]]);
    if (!made.ok()) return made;
  }
  for (std::size_t i = 0; i < program_->members.size(); ++i) {
    if (!IsOwnTask(program_->members[i])) continue;
    Status made = UseGpuOfRank(graph.tasks[program_->members[i]].rank);
    if (made.ok()) made = make_event(&arrived_[i]);
    if (made.ok()) made = make_event(&done_[i]);
    if (!made.ok()) return made;
  }
  return Unit{};
}

Status CudaBackend::MakeTimes() {
  if (!options_.record_times) return Unit{};
  std::vector<int> device_of_task;
  for (TaskId id = 0; id < program_->graph->TaskCount(); ++id) {
    device_of_task.push_back(GpuOf(id).device);
  }
  Result<std::unique_ptr<TaskEvents>> times = TaskEvents::Create(device_of_task);
  if (!times.ok()) return times.error();
  times_ = std::move(times).value();
  return Unit{};
}

Status CudaBackend::AllocateScratch() {
  const TaskGraph& graph = *program_->graph;
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    const Task& task = graph.tasks[id];
    if (task.kind == TaskKind::kHost || !IsOwn(task.rank)) continue;
    LaneStream& lane = StreamOf(id);
    lane.scratch_bytes =
        std::max(lane.scratch_bytes, GpuOf(id).operators->WorkspaceBytes(graph.shapes[task.shape]));
  }
  for (std::size_t i = ranks_.first * kLaneCount; i < ranks_.end * kLaneCount; ++i) {
    LaneStream& lane = lanes_[i];
    if (const Status used = UseGpuOfRank(i / kLaneCount); !used.ok()) return used;
    Result<DeviceMemory> scratch = AllocateDevice(lane.scratch_bytes);
    if (!scratch.ok()) {
      return OutOfMemory("scratch of library kernels", lane.scratch_bytes,
                         graph.ranks[i / kLaneCount].global_rank, Name(Pool::kGpu),
                         scratch.error().message);
    }
    lane.scratch = std::move(scratch).value();
  }
  return CheckMemoryLimit();
}

Status CudaBackend::CheckMemoryLimit() const {
  if (options_.memory_limit_bytes == 0) return Unit{};
  std::vector<std::int64_t> totals(gpus_.size(), 0);
  for (std::size_t rank = ranks_.first; rank < ranks_.end; ++rank) {
    std::int64_t& total = totals[gpu_of_rank_[rank]];
    const BackendMemory memory = MemoryOfRank(rank);
    total += memory.arena_bytes + memory.scratch_bytes;
    if (total <= options_.memory_limit_bytes) continue;
    return Error{.code = ExitCode::kNo,
                 .message = StrCat("arenas and scratch of the ranks up to ", rank, " take ", total,
                                   " bytes of GPU ", gpus_[gpu_of_rank_[rank]].device, ", ",
                                   options_.memory_limit_bytes, " are allowed"),
                 .rule = "gpu-memory",
                 .rank = program_->graph->ranks[rank].global_rank,
                 .pool = Name(Pool::kGpu),
                 .excess_bytes = total - options_.memory_limit_bytes};
  }
  return Unit{};
}

Status CudaBackend::ZeroArenas() {
  for (std::size_t rank = ranks_.first; rank < ranks_.end; ++rank) {
    const auto bytes = static_cast<std::size_t>(
        program_->arena->arena_bytes[rank][static_cast<std::size_t>(Pool::kGpu)]);
    if (bytes == 0) continue;
    const cudaStream_t control = gpus_[gpu_of_rank_[rank]].control;
    Status zeroed = UseGpuOfRank(rank);
    if (zeroed.ok()) {
      zeroed =
          CudaCall(cudaMemsetAsync(device_arenas_[rank].get(), 0, bytes, control), "cudaMemset");
    }
    if (zeroed.ok()) zeroed = CudaCall(cudaStreamSynchronize(control), "cudaStreamSynchronize");
    if (!zeroed.ok()) return zeroed;
  }
  return Unit{};
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
    if (!IsOwn(graph.buffers[x.buffer].rank)) {
      operands_.push_back(nullptr);
      continue;
    }
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
    if (task.kind == TaskKind::kHost || task.rendezvous != kNone || !IsOwn(task.rank)) continue;
    const std::byte* residual = nullptr;
    const KernelCall call = GemmCallOf(id, &residual);
    Status tuned = UseGpuOfRank(task.rank);
    if (tuned.ok()) tuned = GpuOf(id).operators->Tune(call, residual);
    if (!tuned.ok()) return tuned;
  }
  for (const Gpu& gpu : gpus_) {
    Status tuned = CudaCall(cudaSetDevice(gpu.device), "cudaSetDevice");
    if (tuned.ok()) tuned = CudaCall(cudaDeviceSynchronize(), "tuning");
    if (!tuned.ok()) return tuned;
  }
  return Unit{};
}

void CudaBackend::Write(BufferId buffer, std::int64_t offset, std::span<const std::byte> bytes) {
  if (bytes.empty() || !IsOwn(program_->graph->buffers[buffer].rank)) return;
  const cudaError_t code =
      cudaMemcpy(Address(buffer) + offset, bytes.data(), bytes.size(), cudaMemcpyDefault);
  if (code != cudaSuccess && !error_.has_value()) error_ = CudaCall(code, "writing").error();
}

void CudaBackend::Read(BufferId buffer, std::int64_t offset, std::span<std::byte> bytes) const {
  if (bytes.empty()) return;
  const Status read = world_ != nullptr
                          ? ReadForAll(buffer, offset, bytes)
                          : CudaCall(cudaMemcpy(bytes.data(), Address(buffer) + offset,
                                                bytes.size(), cudaMemcpyDefault),
                                     "reading");
  if (read.ok()) return;
  if (!error_.has_value()) error_ = read.error();
  std::memset(bytes.data(), 0xff, bytes.size());  // No numbers.
}

Status CudaBackend::ReadForAll(BufferId buffer, std::int64_t offset,
                               std::span<std::byte> bytes) const {
  const RankId rank = program_->graph->buffers[buffer].rank;
  const auto owner = static_cast<int>(rank / (ranks_.end - ranks_.first));
  const Gpu& gpu = gpus_[0];
  for (std::size_t at = 0; at < bytes.size(); at += kSharedBytes) {
    const std::span<std::byte> piece = bytes.subspan(at, std::min(kSharedBytes, bytes.size() - at));
    Status status = CudaCall(cudaSetDevice(gpu.device), "cudaSetDevice");
    if (status.ok() && IsOwn(rank)) {
      const std::byte* const from = Address(buffer) + offset + static_cast<std::int64_t>(at);
      status = CudaCall(
          cudaMemcpyAsync(shared_.get(), from, piece.size(), cudaMemcpyDefault, gpu.control),
          "reading");
    }
    if (status.ok()) status = world_->Broadcast(shared_.get(), piece.size(), owner, gpu.control);
    if (status.ok()) status = WaitFor(gpu.control);
    if (status.ok()) {
      status = CudaCall(cudaMemcpy(piece.data(), shared_.get(), piece.size(), cudaMemcpyDefault),
                        "reading");
    }
    if (!status.ok()) return status;
  }
  return Unit{};
}

Status CudaBackend::WaitFor(cudaStream_t stream) const {
  using Clock = std::chrono::steady_clock;
  auto last_look = Clock::now();
  while (true) {
    const cudaError_t code = cudaStreamQuery(stream);
    if (code != cudaErrorNotReady) return CudaCall(code, "reading");
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    if (Clock::now() - last_look < kLookInterval) continue;
    last_look = Clock::now();
    if (const Status others = CheckOthers(); !others.ok()) return others;
  }
}

Status CudaBackend::CheckOthers() const {
  if (options_.processes != nullptr) {
    if (const Status alive = options_.processes->CheckAlive(); !alive.ok()) return alive;
  }
  for (const std::unique_ptr<NcclGroup>& group : groups_) {
    if (const Status sound = group->CheckSound(); !sound.ok()) return sound;
  }
  return world_ == nullptr ? Unit{} : world_->CheckSound();
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
          .step = reinterpret_cast<const DeviceStep*>(GpuOf(id).step.get()),
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
  for (const Gpu& gpu : gpus_) {
    Check(cudaSetDevice(gpu.device), "cudaSetDevice", 0);
    Check(cudaMemcpyAsync(gpu.step.get(), staged_step_.get(), sizeof values, cudaMemcpyHostToDevice,
                          gpu.control),
          "values of the step", 0);
  }
  // No lane waits for these copies, nor for those of Write, so they must be done.
  for (const Gpu& gpu : gpus_) {
    Check(cudaSetDevice(gpu.device), "cudaSetDevice", 0);
    Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize", 0);
  }
  for (LaneStream& lane : lanes_) lane.follows = kNone;
  if (times_ == nullptr) return;
  for (const Gpu& gpu : gpus_) {
    Check(times_->BeginIteration(gpu.device, gpu.control), "cudaEventRecord", 0);
  }
}

void CudaBackend::RunOnHost(TaskId id) {
  const Task& task = program_->graph->tasks[id];
  std::byte* const* operands = operands_.data() + task.operand_begin;
  GpuOf(id).worker->Run({.shape = program_->graph->shapes[task.shape],
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
      return GpuOf(id).operators->Launch(call, residual);
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
  if (!IsOwnTask(id)) return;
  const Task& task = program_->graph->tasks[id];
  const OpShape& shape = program_->graph->shapes[task.shape];
  const Range range(shape.op);
  const cudaStream_t stream = StreamOf(id).stream;
  UseGpuOf(id);
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

void CudaBackend::Meet(std::span<const TaskId> tasks, std::uint32_t first_member,
                       const std::vector<cudaEvent_t>& events) {
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    Check(cudaEventRecord(events[first_member + i], StreamOf(tasks[i]).stream), "cudaEventRecord",
          tasks[i]);
  }
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    for (std::size_t other = 0; other < tasks.size(); ++other) {
      if (other == i) continue;
      Check(cudaStreamWaitEvent(StreamOf(tasks[i]).stream, events[first_member + other]),
            "cudaStreamWaitEvent", tasks[i]);
    }
  }
}

void CudaBackend::Exchange(RendezvousId rendezvous) {
  if (group_of_rendezvous_[rendezvous] != nullptr) return ExchangeByNccl(rendezvous);
  const TaskGraph& graph = *program_->graph;
  const std::span<const TaskId> tasks = program_->Members(rendezvous);
  if (!IsOwnTask(tasks[0])) return;
  const std::uint32_t first_member = program_->member_begin[rendezvous];
  const OpShape& shape = graph.shapes[graph.tasks[tasks[0]].shape];
  const Range range(shape.op);
  const auto members = std::span<const MemberBuffers>(members_).subspan(first_member, tasks.size());
  Meet(tasks, first_member, arrived_);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    LaneStream& lane = StreamOf(tasks[i]);
    UseGpuOf(tasks[i]);
    if (times_ != nullptr) Check(times_->Start(tasks[i], lane.stream), "cudaEventRecord", tasks[i]);
    Check(RunGroupPart(shape, shape.dims[0], members, i, lane.stream), Name(shape.op), tasks[i]);
    lane.follows = kNone;
  }
  // Until then a member's operands are read and written by the others.
  Meet(tasks, first_member, done_);
  if (times_ == nullptr) return;
  for (const TaskId id : tasks) Check(times_->End(id, StreamOf(id).stream), "cudaEventRecord", id);
}

void CudaBackend::ExchangeByNccl(RendezvousId rendezvous) {
  const TaskGraph& graph = *program_->graph;
  const std::span<const TaskId> tasks = program_->Members(rendezvous);
  const std::uint32_t first_member = program_->member_begin[rendezvous];
  const OpShape& shape = graph.shapes[graph.tasks[tasks[0]].shape];
  const Range range(shape.op);
  // Times are recorded in one process only, which has all members.
  if (times_ != nullptr) Meet(tasks, first_member, arrived_);
  own_members_.clear();
  own_streams_.clear();
  TaskId own = tasks[0];
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (!IsOwnTask(tasks[i])) continue;
    own = tasks[i];
    LaneStream& lane = StreamOf(own);
    own_members_.push_back(members_[first_member + i]);
    own_streams_.push_back(lane.stream);
    lane.follows = kNone;
    if (times_ != nullptr) Check(times_->Start(own, lane.stream), "cudaEventRecord", own);
  }
  Check(group_of_rendezvous_[rendezvous]->Run(shape, shape.dims[0], own_members_, own_streams_),
        own);
  if (times_ == nullptr) return;
  for (const TaskId id : tasks) Check(times_->End(id, StreamOf(id).stream), "cudaEventRecord", id);
}

void CudaBackend::Record(EventId event, TaskId task) {
  if (!IsOwnTask(task)) return;
  Check(cudaEventRecord(events_[event], StreamOf(task).stream), "cudaEventRecord", task);
}

void CudaBackend::Wait(EventId event, TaskId task) {
  if (!IsOwnTask(task)) return;
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
    return std::count_if(events_.begin(), events_.end(), [](cudaEvent_t event) {
      return event != nullptr && cudaEventQuery(event) == cudaSuccess;
    });
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
    if (now - last_look < kLookInterval) continue;
    last_look = now;
    if (const Status others = CheckOthers(); !others.ok()) error_ = others.error();
    if (const std::int64_t done = finished(); done != progress) {
      progress = done;
      last_progress = now;
    }
    if (std::chrono::duration<double>(now - last_progress).count() > stall_limit_s) {
      stalled_ = true;
      return Outcome::kStalled;
    }
  }
  return error_.has_value() ? Outcome::kFailed : Outcome::kDone;
}

Error CudaBackend::error() const { return error_.value_or(Error{}); }

bool CudaBackend::Finished(TaskId id) const {
  if (!IsOwnTask(id)) return true;  // As far as this process knows.
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

std::int64_t CudaBackend::ScratchBytes(TaskId id) const {
  const Task& task = program_->graph->tasks[id];
  if (task.kind == TaskKind::kHost) return 0;
  return static_cast<std::int64_t>(
      GpuOf(id).operators->WorkspaceBytes(program_->graph->shapes[task.shape]));
}

BackendMemory CudaBackend::MemoryOfRank(std::size_t rank) const {
  BackendMemory memory;
  memory.arena_bytes = program_->arena->arena_bytes[rank][static_cast<std::size_t>(Pool::kGpu)];
  for (std::size_t lane = 0; lane < kLaneCount; ++lane) {
    memory.scratch_bytes +=
        static_cast<std::int64_t>(lanes_[rank * kLaneCount + lane].scratch_bytes);
  }
  return memory;
}

std::optional<BackendMemory> CudaBackend::Memory() const {
  std::optional<BackendMemory> fullest;
  for (std::size_t gpu = 0; gpu < gpus_.size(); ++gpu) {
    std::size_t free = 0, total = 0;
    if (cudaSetDevice(gpus_[gpu].device) != cudaSuccess ||
        cudaMemGetInfo(&free, &total) != cudaSuccess) {
      return std::nullopt;
    }
    BackendMemory memory{.used_bytes = static_cast<std::int64_t>(total - free),
                         .total_bytes = static_cast<std::int64_t>(total)};
    for (std::size_t rank = ranks_.first; rank < ranks_.end; ++rank) {
      if (gpu_of_rank_[rank] != gpu) continue;
      const BackendMemory of_rank = MemoryOfRank(rank);
      memory.arena_bytes += of_rank.arena_bytes;
      memory.scratch_bytes += of_rank.scratch_bytes;
    }
    if (!fullest.has_value() || memory.used_bytes > fullest->used_bytes) fullest = memory;
  }
  return fullest;
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
                    .memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem),
                    .multiprocessors = properties.multiProcessorCount,
                    .l2_bytes = properties.l2CacheSize};
}

std::vector<std::string> CudaVersions() {
  std::vector<std::string> versions;
  // "NVRM version: NVIDIA UNIX ... Kernel Module for x86_64  580.159.04  Release Build ..."
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;) {
    if (word.find_first_not_of("0123456789.") != std::string::npos ||
        word.find('.') == std::string::npos) {
      continue;
    }
    versions.push_back("driver " + word);
    break;
  }
  const auto of_thousands = [](auto version) {
    return StrCat(version / 1000, ".", version % 1000 / 10);
  };
  if (int runtime = 0; cudaRuntimeGetVersion(&runtime) == cudaSuccess) {
    versions.push_back("CUDA " + of_thousands(runtime));
  }
  // cublasLtGetVersion: 10000 major + 100 minor + patch, as cuDNN 9 counts.
  const auto of_ten_thousands = [](auto version) {
    return StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100);
  };
  if (const auto blas = LoadCublasLt(); blas.ok()) {
    versions.push_back("cuBLASLt " + of_ten_thousands(blas.value()->Version()));
  }
  if (const auto dnn = LoadCudnn(); dnn.ok()) {
    versions.push_back("cuDNN " + of_ten_thousands(dnn.value()->Version()));
  }
  return versions;
}

Result<std::unique_ptr<Backend>> MakeCudaBackend(const CudaOptions& options) {
  Result<std::unique_ptr<cuda::CudaBackend>> backend = cuda::CudaBackend::Create(options);
  if (!backend.ok()) return backend.error();
  return std::unique_ptr<Backend>(std::move(backend).value());
}

}  // namespace twinstep
