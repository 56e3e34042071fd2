#include "sim/cost/graph_costs.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <unordered_map>

#include "hw_specs/gpu_name.h"
#include "sim/cost/collective_cost.h"
#include "sim/cost/efficiency.h"
#include "sim/cost/framework_costs.h"
#include "sim/cost/gpu_speeds.h"
#include "sim/cost/host_copies.h"
#include "sim/cost/link_map.h"
#include "sim/cost/operator_cost.h"
#include "sim/cost/profile_cost.h"
#include "sim/cost/profile_overrides.h"
#include "sim/cost/profile_pairs.h"
#include "sim/graph/fused_pairs.h"
#include "sim/graph/in_place.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

// A message's flow is carried half by the SEND and half by the RECV.
constexpr double kHalf = 0.5;
// 46 days: more is a mistake in the input, and would overflow sums of picoseconds.
constexpr double kLongestSeconds = 4e6;

double GradientBytes(const Model& model) {
  const Recipe& recipe = model.recipe();
  const double parameter = recipe.precision() == FP64 ? 8 : recipe.precision() == FP32 ? 4 : 2;
  return recipe.gradient_precision() == PARAMETER_GRADIENT ? parameter : std::max(4.0, parameter);
}

class CostBuilder {
 public:
  CostBuilder(const TaskGraph& graph, const Model& model, const Cluster& cluster,
              const Profile* profile, const Framework* framework)
      : graph_(graph),
        cluster_(WithProfile(cluster, profile)),
        gradient_bytes_(GradientBytes(model)),
        framework_(framework != nullptr ? *framework : Framework::default_instance()),
        roofline_(cluster_, static_cast<int>(gradient_bytes_), framework),
        links_(graph, cluster_, OverridesOf(profile)) {
    if (profile != nullptr) {
      operators_ = std::make_unique<MeasuredOperators>(*profile, roofline_,
                                                       static_cast<int>(gradient_bytes_));
      movements_ = std::make_unique<MeasuredMovements>(*profile, cluster_);
    }
    double gpus = 0;
    for (const RankInfo& rank : graph.ranks) gpus += rank.class_size;
    adam_is_measured_ = profile != nullptr && profile->gpu_adam_params_per_s() > 0;
    host_adam_is_measured_ = profile != nullptr && profile->host_adam_params_per_s() > 0;
    if (profile != nullptr) rule_ = PairRuleOf(*profile);
    if (profile != nullptr) CheckGpu(profile->measured_on().gpu().name(), cluster.gpu().name());
    const auto ranks = static_cast<std::int64_t>(graph.rank_class.size());
    out_.workers = WorkersOf(cluster, profile);
    has_gpu_speeds_ = !HasWorkers() && HasGpuSpeeds(profile, cluster, ranks);
    if (profile != nullptr) dispatch_s_ = std::max(0.0, profile->dispatch_s());
    slowest_ = 1 + std::max(0.0, cluster.compute_jitter()) * ExpectedMaximum(gpus);
    out_.interference = FactorsOf(cluster, profile);
    if (profile != nullptr && !HasWorkers()) {
      out_.hosts = static_cast<std::uint32_t>(graph.ranks.size());
      out_.host_copies = HostCopyRatesOf(*profile, cluster);
      out_.clocks = {.boost_ps = ToPicoseconds(profile->clocks().boost_s()),
                     .boost_per_rest = profile->clocks().boost_per_rest_s(),
                     .left_ps = {}};
      out_.handoff_ps = ToPicoseconds(profile->lane_handoff_s());
      out_.meeting_ps = ToPicoseconds(profile->meeting_s());
    }
  }

  Result<GraphCosts> Run() {
    if (const Status sound = CheckGraph(); !sound.ok()) return sound.error();
    if (const Status found = FindMessageEnds(); !found.ok()) return found.error();
    const FusedPairs pairs = FindFusedPairs(graph_, rule_);
    const std::size_t gpus = has_gpu_speeds_ ? graph_.ranks.size() : 1;
    compute_costs_.assign(gpus * graph_.shapes.size() * kFusionCount, kNone);
    out_.cost_of_task.resize(graph_.tasks.size());
    RankId rank = kNone;
    for (TaskId id = 0; id < graph_.TaskCount(); ++id) {
      const Task& task = graph_.tasks[id];
      const bool is_compute = task.kind == TaskKind::kCompute;
      if (!is_compute && task.rank != rank) {
        rank = task.rank;
        local_costs_.assign(graph_.shapes.size(), {});
        more_costs_.clear();
      }
      std::uint32_t* const cost = &out_.cost_of_task[id];
      const Status status =
          is_compute ? FindComputeCost(task, pairs.Of(id), cost) : FindTransferCost(id, cost);
      if (!status.ok()) return status.error();
    }
    return Finish();
  }

 private:
  static constexpr std::uint64_t kFirstPeerKey = std::uint64_t{1} << 33;  // Above all groups.

  struct LocalCost {
    std::uint64_t key = 0;
    std::uint32_t cost = kNone;
  };
  struct KeyHash {
    std::size_t operator()(const std::pair<std::uint64_t, ShapeId>& key) const {
      return static_cast<std::size_t>((key.first * 0x9e3779b97f4a7c15u) ^
                                      (key.second * 0xbf58476d1ce4e5b9u));
    }
  };

  Status CheckGraph() const {
    if (has_gpu_speeds_ && graph_.IsFolded()) {
      return Error{.message = StrCat("the profile's GPUs differ, and of ", graph_.rank_class.size(),
                                     " ranks ", graph_.ranks.size(),
                                     " stand for all: the graph must not be folded")};
    }
    for (TaskId id = 0; id < graph_.TaskCount(); ++id) {
      const Task& task = graph_.tasks[id];
      if (task.shape >= graph_.shapes.size() || task.rank >= graph_.ranks.size()) {
        return Error{.message = StrCat("task ", id, " has shape ", task.shape, " of ",
                                       graph_.shapes.size(), " and rank ", task.rank, " of ",
                                       graph_.ranks.size())};
      }
    }
    return Unit{};
  }

  // That of an earlier task which is alike, or a new one.
  Status FindComputeCost(const Task& task, Fusion fusion, std::uint32_t* cost) {
    const std::size_t gpu = has_gpu_speeds_ ? task.rank : 0;
    std::uint32_t& found = compute_costs_[(gpu * graph_.shapes.size() + task.shape) * kFusionCount +
                                          static_cast<std::size_t>(fusion)];
    if (found == kNone) {
      const Status added = AddCompute(task.shape, fusion, gpu, &found);
      if (!added.ok()) return added;
    }
    *cost = found;
    return Unit{};
  }

  // Likewise, among the tasks of the same rank.
  Status FindTransferCost(TaskId id, std::uint32_t* cost) {
    const Task& task = graph_.tasks[id];
    GroupId group = kNone;
    if (const Status found = FindGroup(id, &group); !found.ok()) return found;
    const std::uint64_t key = KeyOf(id, group);
    LocalCost& last = local_costs_[task.shape];
    if (last.cost == kNone || last.key != key) {
      const auto [at, is_new] = more_costs_.try_emplace({key, task.shape}, kNone);
      if (is_new) {
        if (const Status added = AddTransfer(id, group, &at->second); !added.ok()) return added;
      }
      last = {.key = key, .cost = at->second};
    }
    *cost = last.cost;
    return Unit{};
  }

  // kNone: none.
  Status FindGroup(TaskId id, GroupId* group) const {
    const std::uint32_t meeting = graph_.tasks[id].rendezvous;
    if (meeting == kNone) return Unit{};
    if (meeting >= graph_.rendezvous.size()) {
      return Error{.message = StrCat("task ", id, " has rendezvous ", meeting, " of ",
                                     graph_.rendezvous.size())};
    }
    *group = graph_.rendezvous[meeting].group;
    if (*group != kNone && *group >= graph_.groups.size()) {
      return Error{.message = StrCat("rendezvous ", meeting, " has group ", *group, " of ",
                                     graph_.groups.size())};
    }
    return Unit{};
  }

  // What a cost depends on besides rank and shape: the group and where a shard lies, the other end
  // of a message without one, or what is copied.
  std::uint64_t KeyOf(TaskId id, GroupId group) const {
    const Task& task = graph_.tasks[id];
    if (group != kNone) return 2 * (std::uint64_t{group} + 1) + (IsInPlace(graph_, id) ? 1 : 0);
    if (task.kind == TaskKind::kSend) return kFirstPeerKey + receiver_[task.rendezvous];
    if (task.kind == TaskKind::kRecv) return kFirstPeerKey + sender_[task.rendezvous];
    return IsCopy(task.kind) ? static_cast<std::uint64_t>(task.phase) : 0;
  }

  // Represented ranks of each message's two tasks.
  Status FindMessageEnds() {
    sender_.assign(graph_.rendezvous.size(), kNone);
    receiver_.assign(graph_.rendezvous.size(), kNone);
    for (TaskId id = 0; id < graph_.TaskCount(); ++id) {
      const Task& task = graph_.tasks[id];
      if (task.kind != TaskKind::kSend && task.kind != TaskKind::kRecv) continue;
      if (task.rendezvous >= graph_.rendezvous.size()) {
        return Error{.message = StrCat(graph_.TaskName(id), " has rendezvous ", task.rendezvous,
                                       " of ", graph_.rendezvous.size())};
      }
      (task.kind == TaskKind::kSend ? sender_ : receiver_)[task.rendezvous] = task.rank;
    }
    return Unit{};
  }

  // `gpu`: that computes it, where GPUs differ.
  Status AddCompute(ShapeId shape_id, Fusion fusion, std::size_t gpu, std::uint32_t* cost_id) {
    const OpShape& shape = graph_.shapes[shape_id];
    TaskCost cost;
    const Work work = WorkOf(shape, /*on_host=*/false, fusion, gpu, &cost);
    // A lane cannot start kernels faster than the dispatcher launches them; a measured time has
    // that in it.
    const double least_s = cost.modelled ? dispatch_s_ : 0;
    const Status status = HasWorkers() ? AddWork(shape, work, &cost)
                                       : SetFixed(std::max(work.seconds, least_s), shape, &cost);
    if (!status.ok()) return status;
    if (work.lets_in > 0) {
      const double lets_in_ps = work.lets_in * static_cast<double>(cost.fixed_ps);
      cost.lets_in_ps = std::min<Picoseconds>(std::llround(lets_in_ps), cost.fixed_ps);
    }
    *cost_id = Append(cost, shape);
    return Unit{};
  }

  // What is done: seconds alone, bytes read and written meanwhile.
  struct Work {
    double seconds = 0, traffic_bytes = 0;
    double busy_slowdown = 0;  // As measured; 0 = not.
    double lets_in = 0;        // As MeasuredOperators::Estimate's.
  };

  bool HasWorkers() const { return out_.workers.threads > 0; }

  // What was measured; no task is faster beside another.
  void SetSlowdowns(const MeasuredOperators::Estimate& estimate, TaskCost* cost) const {
    const auto slowdown = [](double measured) {
      return measured > 0 ? static_cast<float>(std::max(1.0, measured)) : 0.0F;
    };
    cost->beside_h2d = slowdown(estimate.beside_h2d);
    cost->beside_d2h = slowdown(estimate.beside_d2h);
    cost->beside_both = slowdown(estimate.beside_both);
    cost->beside_collective = slowdown(estimate.beside_collective);
    if (out_.clocks.boost_ps > 0) {
      cost->rested_speedup = std::max(1.0F, slowdown(estimate.rested_speedup));
      cost->rested_beside_h2d = slowdown(estimate.rested_beside_h2d);
      cost->rested_beside_d2h = slowdown(estimate.rested_beside_d2h);
      cost->rested_beside_both = slowdown(estimate.rested_beside_both);
    }
    const double most = out_.interference.compute_beside_copy() - 1;
    if (estimate.beside_both > 0 && most > 0) {
      cost->interference_sensitivity =
          static_cast<float>(std::clamp((estimate.beside_both - 1) / most, 0.0, 1.0));
    }
  }

  // An operator, and what its cost says beside its time.
  Work WorkOf(const OpShape& shape, bool on_host, Fusion fusion, std::size_t gpu,
              TaskCost* cost) const {
    const OperatorTime roofline = roofline_.Of(shape);
    Work work{.seconds = roofline.seconds, .traffic_bytes = TrafficBytes(shape, gradient_bytes_)};
    cost->interference_sensitivity = static_cast<float>(roofline.sensitivity);
    if (operators_ != nullptr) {
      const auto host = on_host ? operators_->OnHost(shape) : std::nullopt;
      MeasuredOperators::Estimate estimate = host ? *host : operators_->Of(shape, fusion);
      if (has_gpu_speeds_ && !on_host) estimate = estimate.OnGpu(gpu);
      work.seconds = estimate.seconds;
      work.busy_slowdown = estimate.busy_slowdown;
      work.lets_in = HasWorkers() ? 0 : estimate.lets_in;
      const bool measured_rate = shape.op == OpCode::kAdam && adam_is_measured_;
      cost->extrapolated = estimate.extrapolated && !measured_rate;
      cost->modelled = estimate.modelled && !measured_rate;
      if (!HasWorkers()) SetSlowdowns(estimate, cost);
    }
    work.seconds *= slowest_;
    return work;
  }

  // Work that misses the cache shares the host's memory with that of other threads, unless the
  // profile knows how much they slow it. Called where the flows of `cost` are the next ones.
  Status AddWork(const OpShape& shape, const Work& work, TaskCost* cost) {
    const bool misses_cache =
        work.traffic_bytes > static_cast<double>(cluster_.gpu().l2_bytes()) && work.seconds > 0;
    const bool is_measured = work.busy_slowdown > 0;
    if (is_measured) cost->busy_slowdown = static_cast<float>(work.busy_slowdown);
    if (is_measured || !misses_cache || !(cluster_.node().host().dram_bytes_per_s() > 0)) {
      return SetFixed(work.seconds, shape, cost);
    }
    if (Status status = SetFixed(0, shape, cost); !status.ok()) return status;
    cost->flow_begin = static_cast<std::uint32_t>(out_.flows.size());
    cost->flow_count = 1;
    return AddFlow(work.traffic_bytes, work.traffic_bytes / work.seconds, shape,
                   [&] { links_.AddHostMemory(/*rank=*/0, &out_.hops); });
  }

  // One thread does the whole of a rendezvous: its first member (`is_first`) has the work, the
  // others end with it.
  Status AddMovementWork(const OpShape& shape, const MovementCost& movement, bool is_first,
                         TaskCost* cost) {
    if (!is_first) return Unit{};
    double traffic = movement.peer_bytes;
    if (IsCopy(shape.op)) traffic *= 2;
    return AddWork(shape, {movement.Seconds(), traffic, movement.busy_slowdown}, cost);
  }

  Status AddTransfer(TaskId id, GroupId group, std::uint32_t* cost_id) {
    const Task& task = graph_.tasks[id];
    const OpShape& shape = graph_.shapes[task.shape];
    TaskCost cost;
    cost.flow_begin = static_cast<std::uint32_t>(out_.flows.size());
    Status status = Unit{};
    switch (task.kind) {
      case TaskKind::kH2D:
      case TaskKind::kD2H:
        status = AddCopy(task, shape, &cost);
        break;
      case TaskKind::kSend:
      case TaskKind::kRecv:
        status = AddMessage(task, group, shape, &cost);
        break;
      case TaskKind::kCollective:
        status = AddCollective(id, group, shape, &cost);
        break;
      case TaskKind::kHost:
        status =
            HasWorkers()
                ? AddWork(shape, WorkOf(shape, /*on_host=*/true, Fusion::kAlone, /*gpu=*/0, &cost),
                          &cost)
                : AddHost(task, shape, &cost);
        break;
      case TaskKind::kCompute:
        break;
    }
    if (!status.ok()) return status;
    cost.flow_count = static_cast<std::uint32_t>(out_.flows.size()) - cost.flow_begin;
    *cost_id = Append(cost, shape);
    return Unit{};
  }

  const HostCopies& CopiesOf(Phase phase) const {
    switch (phase) {
      case Phase::kParameterGather:
        return framework_.parameter_copies();
      case Phase::kGradientSync:
        return framework_.gradient_copies();
      default:
        return framework_.activation_copies();
    }
  }

  Status AddCopy(const Task& task, const OpShape& shape, TaskCost* cost) {
    const bool h2d = task.kind == TaskKind::kH2D;
    const HostCopies& copies = CopiesOf(task.phase);
    const double bytes = static_cast<double>(shape.dims[0]) * OneIfUnset(copies.bytes());
    MovementCost movement = CopyCost(cluster_, bytes, h2d);
    if (copies.pageable()) {
      const Pcie& pcie = cluster_.node().pcie();
      const double rate = h2d ? pcie.pageable_h2d_bytes_per_s() : pcie.pageable_d2h_bytes_per_s();
      if (rate > 0) movement.peer_bytes_per_s = std::min(movement.peer_bytes_per_s, rate);
    }
    if (movement.peer_bytes_per_s <= 0) {
      return Missing(shape, h2d ? "node.pcie.h2d_bytes_per_s" : "node.pcie.d2h_bytes_per_s");
    }
    if (movements_ != nullptr) cost->extrapolated = movements_->Copy(bytes, h2d, &movement);
    cost->modelled = !movement.is_measured;
    if (HasWorkers()) return AddMovementWork(shape, movement, /*is_first=*/true, cost);
    if (Status status = SetFixed(movement.fixed_s, shape, cost); !status.ok()) return status;
    const std::size_t flows = out_.flows.size();
    const Status status = AddFlow(movement.peer_bytes, movement.peer_bytes_per_s, shape,
                                  [&] { links_.AddCopy(task.rank, h2d, &out_.hops); });
    if (status.ok() && out_.flows.size() > flows && out_.host_copies.gpus > 0) {
      const LinkMap::HostShare share = links_.HostOf(task.rank);
      Flow& flow = out_.flows.back();
      flow.host = share.host;
      flow.host_gpus = share.gpus;
      flow.to_gpu = h2d;
    }
    return status;
  }

  Status AddMessage(const Task& task, GroupId group, const OpShape& shape, TaskCost* cost) {
    const RankId sender = sender_[task.rendezvous], receiver = receiver_[task.rendezvous];
    if (sender == kNone || receiver == kNone) {
      return Error{.message = StrCat("rendezvous ", task.rendezvous, " has a ",
                                     sender == kNone ? "recv" : "send", " on rank ",
                                     graph_.ranks[task.rank].global_rank, " and no ",
                                     sender == kNone ? "send" : "recv")};
    }
    const LinkMap::Ends ends =
        links_.EndsOf(group == kNone ? nullptr : &graph_.groups[group], sender, receiver);
    const bool same_node = links_.SameNode(ends);
    const auto bytes = static_cast<double>(shape.dims[0]);
    MovementCost movement = SendCost(cluster_, bytes, same_node);
    if (Status status = CheckRates(movement, shape); !status.ok()) return status;
    if (movements_ != nullptr) {
      cost->extrapolated = movements_->Send(bytes, same_node, &movement);
    }
    cost->modelled = !movement.is_measured;
    if (HasWorkers()) {
      return AddMovementWork(shape, movement, task.kind == TaskKind::kSend, cost);
    }
    cost->beside_compute = static_cast<float>(movement.beside_compute);
    if (Status status = SetFixed(movement.fixed_s, shape, cost); !status.ok()) return status;
    const double moved = same_node ? movement.peer_bytes : movement.nic_bytes;
    const double rate = same_node ? movement.peer_bytes_per_s : movement.nic_bytes_per_s;
    return AddFlow(moved, rate, shape, [&] { links_.AddMessage(ends, kHalf, &out_.hops); });
  }

  // The multiprocessors make sums, and copy a shard that does not lie in place, first.
  void SetTurn(TaskId id, const OpShape& shape, const GroupShape& layout, MovementCost* movement,
               TaskCost* cost) const {
    if (!movement->takes_turns || layout.members < 2) return;
    if (shape.op == OpCode::kAllReduce || shape.op == OpCode::kReduceScatter) {
      cost->turn = KernelTurn::kWhole;
      movement->beside_compute = 1;
      return;
    }
    const double memory = cluster_.gpu().memory_bytes_per_s();
    if (shape.op != OpCode::kAllGather || IsInPlace(graph_, id) || !(memory > 0)) return;
    const auto shard = static_cast<double>(shape.dims[0]) / static_cast<double>(layout.members);
    const double all_s = movement->Seconds(), flow_s = movement->FlowSeconds();
    const double copy_s = std::min(2 * shard / memory, all_s);
    cost->turn = KernelTurn::kBegins;
    movement->fixed_s = copy_s;
    if (!(flow_s > 0) || copy_s == all_s) return;
    movement->peer_bytes_per_s *= flow_s / (all_s - copy_s);
    movement->nic_bytes_per_s *= flow_s / (all_s - copy_s);
  }

  Status AddCollective(TaskId id, GroupId group_id, const OpShape& shape, TaskCost* cost) {
    const Task& task = graph_.tasks[id];
    if (group_id == kNone) {
      return Error{.message =
                       StrCat(Name(shape.op), " of rank ", graph_.ranks[task.rank].global_rank,
                              " (lane ", Name(task.lane), ") has no group")};
    }
    if (const std::uint32_t member = links_.UnknownMember(group_id); member != kNone) {
      return Error{.message = StrCat("group ", group_id, " has member ", member,
                                     ", which is no rank of the graph")};
    }
    const GroupShape layout = links_.ShapeOf(group_id, task.rank);
    const auto bytes = static_cast<double>(shape.dims[0]);
    MovementCost movement = CollectiveCost(cluster_, shape.op, bytes, layout);
    if (Status status = CheckRates(movement, shape); !status.ok()) return status;
    if (movements_ != nullptr && layout.members > 1) {
      cost->extrapolated = movements_->Collective(shape, layout, &movement, IsInPlace(graph_, id));
    }
    cost->modelled = layout.members > 1 && !movement.is_measured;
    if (HasWorkers()) {
      const bool is_first =
          graph_.groups[group_id].members.front() == graph_.ranks[task.rank].global_rank;
      return AddMovementWork(shape, movement, is_first, cost);
    }
    SetTurn(id, shape, layout, &movement, cost);
    cost->beside_compute = static_cast<float>(movement.beside_compute);
    if (Status status = SetFixed(movement.fixed_s, shape, cost); !status.ok()) return status;
    if (Status status = AddFlow(movement.peer_bytes, movement.peer_bytes_per_s, shape,
                                [&] { links_.AddPeerRing(group_id, task.rank, &out_.hops); });
        !status.ok()) {
      return status;
    }
    // Of a shift one member a node crosses, wherever the group lies in it: each counts its part.
    const double share =
        shape.op == OpCode::kRingShift ? 1 / static_cast<double>(layout.own_node_members) : 1;
    return AddFlow(movement.nic_bytes, movement.nic_bytes_per_s, shape,
                   [&] { links_.AddNicRing(task.rank, share, &out_.hops); });
  }

  Status AddHost(const Task& task, const OpShape& shape, TaskCost* cost) {
    if (const auto measured = operators_ == nullptr ? std::nullopt : operators_->OnHost(shape)) {
      cost->extrapolated = measured->extrapolated;
      cost->modelled = measured->modelled;
      return SetFixed(measured->seconds, shape, cost);
    }
    if (shape.op == OpCode::kAdam) {
      cost->modelled = !host_adam_is_measured_;
      cost->extrapolated = operators_ != nullptr && !host_adam_is_measured_;
      double rate = links_.host_adam_params_per_s() * links_.host_adam_bytes_per_param();
      if (!(rate > 0)) return Missing(shape, "node.host.adam_params_per_s or dram_bytes_per_s");
      const double threads = static_cast<double>(framework_.host_threads());
      const double core = kWriteAllocate * cluster_.node().host().core_bytes_per_s();
      if (threads > 0 && core > 0) rate = std::min(rate, threads * core);
      const double share = OneIfUnset(framework_.host_adam_share());
      const double traffic = framework_.host_adam_bytes_per_param() > 0
                                 ? framework_.host_adam_bytes_per_param()
                                 : links_.host_adam_bytes_per_param();
      return AddFlow(static_cast<double>(shape.dims[0]) * traffic, rate, shape,
                     [&] { links_.AddHostAdam(task.rank, share, &out_.hops); });
    }
    const double rate = cluster_.node().host().dram_bytes_per_s();
    if (!(rate > 0)) return Missing(shape, "node.host.dram_bytes_per_s");
    return AddFlow(MemoryBytes(shape), rate, shape,
                   [&] { links_.AddHostMemory(task.rank, &out_.hops); });
  }

  static Error Missing(const OpShape& shape, const std::string& field) {
    return Error{.message =
                     StrCat("cluster field ", field, " is missing: ", Name(shape.op), " needs it")};
  }

  Status CheckRates(const MovementCost& movement, const OpShape& shape) const {
    if (movement.peer_bytes > 0 && !(movement.peer_bytes_per_s > 0)) {
      return Missing(shape, "node.nvlink.bytes_per_s (or node.pcie's)");
    }
    if (movement.nic_bytes > 0 && !(movement.nic_bytes_per_s > 0)) {
      return Missing(shape, "node.nic.bytes_per_s (or count)");
    }
    return Unit{};
  }

  Status SetFixed(double seconds, const OpShape& shape, TaskCost* cost) const {
    if (!(seconds >= 0 && seconds < kLongestSeconds)) {
      const std::string missing = roofline_.MissingField(shape);
      if (!missing.empty()) return Missing(shape, missing);
      return Error{.message =
                       StrCat("the cost of ", Name(shape.op), " with dims ", shape.dims[0], " ",
                              shape.dims[1], " ", shape.dims[2], " ", shape.dims[3], " ",
                              shape.dims[4], " ", shape.dims[5], " is ", seconds, " s")};
    }
    cost->fixed_ps = ToPicoseconds(seconds);
    return Unit{};
  }

  template <typename AddRoute>
  Status AddFlow(double bytes, double bytes_per_s, const OpShape& shape,
                 const AddRoute& add_route) {
    if (!(bytes > 0)) return Unit{};
    if (!(bytes / bytes_per_s < kLongestSeconds)) {
      return Error{.message = StrCat(Name(shape.op), " of ", bytes, " bytes at ", bytes_per_s,
                                     " bytes/s takes too long")};
    }
    Flow flow;
    flow.bytes = std::llround(bytes);
    flow.max_bytes_per_s = bytes_per_s;
    flow.hop_begin = static_cast<std::uint32_t>(out_.hops.size());
    add_route();
    flow.hop_count = static_cast<std::uint32_t>(out_.hops.size()) - flow.hop_begin;
    // A link can carry what was measured on it, whatever the cluster's constant says.
    if (movements_ != nullptr) {
      for (std::uint32_t i = 0; i < flow.hop_count; ++i) {
        const RouteHop& hop = out_.hops[flow.hop_begin + i];
        Link& link = links_.link(hop.link);
        link.bytes_per_s =
            std::max(link.bytes_per_s, bytes_per_s * std::min(1.0, hop.multiplicity));
      }
    }
    out_.flows.push_back(flow);
    return Unit{};
  }

  void CheckGpu(const std::string& measured, const std::string& simulated) {
    if (!AreOtherChips(measured, simulated)) return;
    out_.warnings.push_back(StrCat("the profile was measured on ", measured, ", not on ", simulated,
                                   ": each time is scaled by what is modelled for both"));
  }

  std::uint32_t Append(const TaskCost& cost, const OpShape& shape) {
    if (cost.extrapolated) extrapolated_.insert(shape.op);
    out_.costs.push_back(cost);
    return static_cast<std::uint32_t>(out_.costs.size() - 1);
  }

  Result<GraphCosts> Finish() {
    out_.links = links_.TakeLinks();
    if (!extrapolated_.empty()) {
      std::string names;
      for (const OpCode op : extrapolated_) names += StrCat(names.empty() ? "" : ", ", Name(op));
      out_.warnings.push_back(StrCat("extrapolated beyond what the profile has measured: ", names));
    }
    return std::move(out_);
  }

  const TaskGraph& graph_;
  const Cluster cluster_;
  const double gradient_bytes_;
  const Framework framework_;
  const OperatorRoofline roofline_;
  LinkMap links_;
  std::unique_ptr<MeasuredOperators> operators_;
  std::unique_ptr<MeasuredMovements> movements_;
  double slowest_ = 1;  // All ranks compute as slowly as the plan's slowest GPU.
  double dispatch_s_ = 0;
  // As rates, if not by shape.
  bool adam_is_measured_ = false, host_adam_is_measured_ = false;
  std::vector<RankId> sender_, receiver_;  // By rendezvous.
  bool has_gpu_speeds_ = false;            // Rank r computes as the r-th GPU.
  PairRule rule_ = PairRule::kNoPairs;
  std::vector<std::uint32_t> compute_costs_;  // By GPU, where they differ, shape and fusion.
  std::vector<LocalCost> local_costs_;        // Of this rank by shape: the last used.
  std::unordered_map<std::pair<std::uint64_t, ShapeId>, std::uint32_t, KeyHash> more_costs_;
  std::set<OpCode> extrapolated_;
  GraphCosts out_;
};

}  // namespace

Result<GraphCosts> ComputeCosts(const TaskGraph& graph, const Model& model, const Cluster& cluster,
                                const Profile* profile) {
  return ComputeFrameworkCosts(graph, model, cluster, profile, nullptr);
}

Result<GraphCosts> ComputeFrameworkCosts(const TaskGraph& graph, const Model& model,
                                         const Cluster& cluster, const Profile* profile,
                                         const Framework* framework) {
  return CostBuilder(graph, model, cluster, profile, framework).Run();
}

}  // namespace twinstep
