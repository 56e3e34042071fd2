#include "tests/engine/training_graph.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "tests/engine/cost_builder.h"

namespace twinstep {
namespace {

constexpr std::uint32_t kGpusPerNode = 8;

class Maker {
 public:
  explicit Maker(const TrainingGraphOptions& options)
      : o_(options), ranks_(o_.tensor * o_.data * o_.pipeline) {
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      graph_.ranks.push_back({.global_rank = rank,
                              .tp = static_cast<std::uint16_t>(rank % o_.tensor),
                              .dp = static_cast<std::uint16_t>(rank / o_.tensor % o_.data),
                              .pp = static_cast<std::uint16_t>(rank / o_.tensor / o_.data)});
      graph_.rank_class.push_back(rank);
    }
    for (const OpCode op : {OpCode::kGemmForward, OpCode::kSend, OpCode::kRecv, OpCode::kAllReduce,
                            OpCode::kCopyD2H, OpCode::kCopyH2D}) {
      graph_.shapes.push_back({.op = op});
    }
  }

  TrainingGraph Make() {
    for (rank_ = 0; rank_ < ranks_; ++rank_) {
      graph_.rank_begin.push_back(graph_.TaskCount());
      last_.fill(kNone);
      Schedule();
    }
    graph_.rank_begin.push_back(graph_.TaskCount());
    // Every rank that uses a rendezvous counts itself in.
    std::uint32_t rendezvous = 0;
    for (const Task& task : graph_.tasks) {
      if (task.rendezvous != kNone) rendezvous = std::max(rendezvous, task.rendezvous + 1);
    }
    graph_.rendezvous.resize(rendezvous);
    for (const Task& task : graph_.tasks) {
      if (task.rendezvous != kNone) ++graph_.rendezvous[task.rendezvous].participants;
    }
    graph_.edges = FreezeEdges(graph_.TaskCount(), edges_);
    GraphCosts costs = MakeCosts();
    return {std::move(graph_), std::move(costs)};
  }

 private:
  static constexpr std::array kKinds = {TaskKind::kCompute,    TaskKind::kSend, TaskKind::kRecv,
                                        TaskKind::kCollective, TaskKind::kD2H,  TaskKind::kH2D};

  TaskId Add(ShapeId shape, Lane lane, Phase phase, TaskId after, RendezvousId rendezvous = kNone) {
    const TaskId id = graph_.TaskCount();
    Task task;
    task.shape = shape;
    task.kind = kKinds[shape];
    task.rank = rank_;
    task.lane = lane;
    task.phase = phase;
    task.rendezvous = rendezvous;
    task.micro_batch = static_cast<std::uint16_t>(micro_batch_);
    task.stage = static_cast<std::uint16_t>(Stage());
    graph_.tasks.push_back(task);
    if (after != kNone) edges_.emplace_back(after, id);
    TaskId& last = last_[static_cast<std::size_t>(lane)];
    if (last != kNone && last != after) edges_.emplace_back(last, id);
    last = id;
    return id;
  }

  std::uint32_t Stage() const { return graph_.ranks[rank_].pp; }

  // Rendezvous are numbered: boundary messages, tensor-parallel sums, data-parallel sums.
  RendezvousId Message(std::uint32_t boundary, bool backward) const {
    const std::uint32_t column = rank_ % (o_.tensor * o_.data);
    return ((boundary * 2 + (backward ? 1 : 0)) * o_.micro_batches + micro_batch_) *
               (o_.tensor * o_.data) +
           column;
  }
  std::uint32_t MessageCount() const {
    return (o_.pipeline - 1) * 2 * o_.micro_batches * o_.tensor * o_.data;
  }
  RendezvousId TensorSum(std::uint32_t block, bool backward) const {
    const std::uint32_t group = rank_ / o_.tensor;
    return MessageCount() +
           ((group * o_.micro_batches + micro_batch_) * 2 + (backward ? 1 : 0)) * o_.blocks + block;
  }
  RendezvousId DataSum() const {
    const std::uint32_t sums =
        o_.tensor > 1 ? o_.data * o_.pipeline * o_.micro_batches * 2 * o_.blocks : 0;
    return MessageCount() + sums + Stage() * o_.tensor + graph_.ranks[rank_].tp;
  }

  void Schedule() {
    const std::uint32_t warm_up = std::min(o_.pipeline - 1 - Stage(), o_.micro_batches);
    copied_.assign(o_.micro_batches, kNone);
    forward_end_.assign(o_.micro_batches, kNone);
    for (std::uint32_t i = 0; i < warm_up; ++i) Forward(i);
    for (std::uint32_t i = 0; i < o_.micro_batches; ++i) {
      if (warm_up + i < o_.micro_batches) Forward(warm_up + i);
      Backward(i);
    }
    if (o_.data > 1) {
      Add(3, Lane::kDp, Phase::kGradientSync, last_[static_cast<std::size_t>(Lane::kCompute)],
          DataSum());
    }
  }

  TaskId Blocks(TaskId after, Phase phase) {
    for (std::uint32_t block = 0; block < o_.blocks; ++block) {
      for (std::uint32_t i = 0; i < o_.computes; ++i) after = Add(0, Lane::kCompute, phase, after);
      if (o_.tensor > 1) {
        after = Add(3, Lane::kTp, phase, after, TensorSum(block, phase == Phase::kBackward));
      }
    }
    return after;
  }

  void Forward(std::uint32_t micro_batch) {
    micro_batch_ = micro_batch;
    TaskId after = kNone;
    if (Stage() > 0) {
      after = Add(2, Lane::kRecvFwd, Phase::kForward, kNone, Message(Stage() - 1, false));
    }
    after = Blocks(after, Phase::kForward);
    forward_end_[micro_batch] = after;
    if (o_.offload) copied_[micro_batch] = Add(4, Lane::kD2H, Phase::kForward, after);
    if (Stage() + 1 < o_.pipeline) {
      Add(1, Lane::kSendFwd, Phase::kForward, after, Message(Stage(), false));
    }
  }

  void Backward(std::uint32_t micro_batch) {
    micro_batch_ = micro_batch;
    TaskId after = forward_end_[micro_batch];
    TaskId reload = kNone;
    if (o_.offload) reload = Add(5, Lane::kH2D, Phase::kBackward, copied_[micro_batch]);
    if (Stage() + 1 < o_.pipeline) {
      after = Add(2, Lane::kRecvBwd, Phase::kBackward, kNone, Message(Stage(), true));
    }
    const TaskId first = graph_.TaskCount();
    after = Blocks(after, Phase::kBackward);
    if (reload != kNone) edges_.emplace_back(reload, first);
    if (Stage() > 0) {
      Add(1, Lane::kSendBwd, Phase::kBackward, after, Message(Stage() - 1, true));
    }
  }

  GraphCosts MakeCosts() {
    CostBuilder costs(graph_);
    const std::uint32_t nodes = (ranks_ + kGpusPerNode - 1) / kGpusPerNode;
    std::vector<std::uint32_t> dram, uplink_out, uplink_in, pcie_out, pcie_in, nvlink, nic_forward,
        nic_backward;
    for (std::uint32_t i = 0; i < nodes; ++i) dram.push_back(costs.AddLink(LinkKind::kDram, 150e9));
    for (std::uint32_t i = 0; i < (ranks_ + 1) / 2; ++i) {
      uplink_out.push_back(costs.AddLink(LinkKind::kUplinkD2H, 50e9));
      uplink_in.push_back(costs.AddLink(LinkKind::kUplinkH2D, 50e9));
    }
    for (std::uint32_t i = 0; i < ranks_; ++i) {
      pcie_out.push_back(costs.AddLink(LinkKind::kPcieD2H, 50e9));
      pcie_in.push_back(costs.AddLink(LinkKind::kPcieH2D, 50e9));
      nvlink.push_back(costs.AddLink(LinkKind::kNvlinkOut, 400e9));
      nic_forward.push_back(costs.AddLink(LinkKind::kNicOut, 50e9));
      nic_backward.push_back(o_.shared_links ? nic_forward.back()
                                             : costs.AddLink(LinkKind::kNicOut, 50e9));
    }
    const std::uint32_t forward = costs.AddCost(o_.forward_ps);
    const std::uint32_t backward = costs.AddCost(o_.backward_ps);
    const std::uint32_t receive = costs.AddCost(o_.latency_ps);
    for (RankId rank = 0; rank < ranks_; ++rank) {
      const auto copy = [&](std::uint32_t pcie, std::uint32_t uplink) {
        std::vector<RouteHop> hops = {{pcie, 1}};
        if (o_.shared_links) {
          hops.push_back({uplink, 1});
          hops.push_back({dram[rank / kGpusPerNode], 1});
        }
        return costs.AddCost(o_.latency_ps, {{.bytes = o_.offload_bytes, .hops = hops}});
      };
      const std::uint32_t out = copy(pcie_out[rank], uplink_out[rank / 2]);
      const std::uint32_t in = copy(pcie_in[rank], uplink_in[rank / 2]);
      const auto message = [&](std::uint32_t nic) {
        return costs.AddCost(o_.latency_ps, {{.bytes = o_.message_bytes, .hops = {{nic, 1}}}});
      };
      const std::uint32_t send_forward = message(nic_forward[rank]);
      const std::uint32_t send_backward = message(nic_backward[rank]);
      const std::uint32_t sum = costs.AddCost(
          o_.latency_ps,
          {{.bytes = o_.collective_bytes, .max_bytes_per_s = 300e9, .hops = {{nvlink[rank], 1}}}});
      for (TaskId id = graph_.rank_begin[rank]; id < graph_.rank_begin[rank + 1]; ++id) {
        const Task& task = graph_.tasks[id];
        const bool is_forward = task.phase == Phase::kForward;
        const std::array by_shape = {is_forward ? forward : backward,
                                     is_forward ? send_forward : send_backward,
                                     receive,
                                     sum,
                                     out,
                                     in};
        costs.Set(id, by_shape[task.shape]);
      }
    }
    if (o_.interference) {
      costs.interference().set_compute_beside_copy(1.12);
      costs.interference().set_compute_beside_collective(1.25);
      costs.interference().set_copy_beside_compute(1.05);
      costs.interference().set_collective_beside_compute(1.1);
    }
    return costs.costs();
  }

  const TrainingGraphOptions o_;
  const std::uint32_t ranks_;
  TaskGraph graph_;
  std::vector<std::pair<TaskId, TaskId>> edges_;
  RankId rank_ = 0;
  std::uint32_t micro_batch_ = 0;
  std::array<TaskId, kLaneCount> last_{};
  std::vector<TaskId> forward_end_, copied_;  // By micro-batch, of the current rank.
};

}  // namespace

TrainingGraph MakeTrainingGraph(const TrainingGraphOptions& options) {
  return Maker(options).Make();
}

}  // namespace twinstep
