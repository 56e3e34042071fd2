#include "tests/graph/pipeline_graph.h"

#include <algorithm>
#include <map>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/graph/graph_builder.h"

namespace twinstep {
namespace {

struct Unit {
  bool forward = true;
  int micro_batch = 0;
  int chunk = 0;
};

// Interleaved 1F1B (plain 1F1B if there is one virtual stage).
std::vector<Unit> Schedule(const PipelineGraphOptions& options, int rank) {
  const int p = options.ranks;
  const int v = options.virtual_stages;
  const int units = options.micro_batches * v;
  const auto unit = [p, v](bool forward, int index) {
    if (v == 1) return Unit{forward, index, 0};
    const int chunk = index / p % v;
    return Unit{forward, index / (p * v) * p + index % p, forward ? chunk : v - 1 - chunk};
  };
  const int warm_up = std::min(units, v == 1 ? p - 1 - rank : 2 * (p - rank - 1) + (v - 1) * p);
  std::vector<Unit> schedule;
  for (int i = 0; i < warm_up; ++i) schedule.push_back(unit(true, i));
  for (int i = warm_up; i < units; ++i) {
    schedule.push_back(unit(true, i));
    schedule.push_back(unit(false, i - warm_up));
  }
  for (int i = units - warm_up; i < units; ++i) schedule.push_back(unit(false, i));
  return schedule;
}

// Sizes of a layer's saved tensors, in 1/64 of `tensor_bytes`: norm, q, kv, attention output, log
// sum, mask, residual, norm, gate and up, silu, product, residual.
std::vector<std::int64_t> SavedSizes(std::uint64_t seed) {
  if (seed == 0) return {64, 64, 128, 64, 1, 32, 64, 64, 344, 172, 172, 64};
  std::mt19937_64 random(seed);
  const std::vector<std::int64_t> kinds = {static_cast<std::int64_t>(random() % 300 + 1),
                                           static_cast<std::int64_t>(random() % 100 + 1), 64,
                                           static_cast<std::int64_t>(random() % 500 + 1)};
  std::vector<std::int64_t> sizes;
  for (int i = 0; i < 12; ++i) sizes.push_back(kinds[random() % kinds.size()]);
  return sizes;
}

class Pipeline {
 public:
  explicit Pipeline(const PipelineGraphOptions& options)
      : options_(options),
        sizes_(SavedSizes(options.seed)),
        builder_(static_cast<std::uint32_t>(options.ranks)) {}

  TaskGraph Build() {
    for (int rank = 0; rank < options_.ranks; ++rank) BuildRank(rank);
    return builder_.Build();
  }

 private:
  using Handle = GraphBuilder::Handle;
  static constexpr Handle kNoTask = kNone;

  // `part`: in 1/64 of a tensor.
  BufferId AddBuffer(std::int64_t part, const GraphBuilder::BufferSpec& spec) {
    bytes_.push_back(options_.tensor_bytes / 64 * part);
    return builder_.AddBuffer(rank_, bytes_.back(), spec);
  }
  BufferId Temporary(std::int64_t part) { return AddBuffer(part, {}); }
  BufferId Saved(std::int64_t part) { return AddBuffer(part, {.role = Role::kActivation}); }
  BufferId Twin(BufferId buffer, Pool pool) {
    bytes_.push_back(bytes_[buffer]);
    return builder_.AddBuffer(rank_, bytes_.back(), {.pool = pool, .role = Role::kActivation});
  }

  void Compute(const std::vector<BufferId>& reads, const std::vector<BufferId>& writes) {
    last_compute_ = builder_.Compute(rank_, reads, writes);
    // A unit's first task waits for sends and copies that were begun two units ago.
    for (const Handle side : std::exchange(awaited_, {})) builder_.Order(side, last_compute_);
  }

  void BuildRank(int rank) {
    rank_ = static_cast<RankId>(rank);
    awaited_.clear();
    weights_ = AddBuffer(64 * 20, {.role = Role::kParameter, .persistent = true});
    gradients_ = AddBuffer(64 * 40, {.role = Role::kGradient, .persistent = true});
    saved_.clear();
    host_copy_.clear();
    std::vector<std::vector<Handle>> sides(2);  // By unit, after two empty ones.
    std::vector<Handle> unit_end(2, kNoTask);
    for (const Unit& unit : Schedule(options_, rank)) {
      awaited_ = sides[sides.size() - 2];
      sides.emplace_back();
      sides_ = &sides.back();
      throttle_ = unit_end[unit_end.size() - 2];
      stage_ = unit.chunk * options_.ranks + rank;
      if (unit.forward) {
        Forward(unit);
      } else {
        Backward(unit);
      }
      unit_end.push_back(last_compute_);
    }
  }

  // Receives and reloads begin up to two units early.
  void Throttle(Handle task) {
    if (throttle_ != kNoTask) builder_.Order(throttle_, task);
  }

  RendezvousId Meet(bool forward, int stage, int micro_batch) {
    const auto [it, is_new] = rendezvous_.try_emplace({forward, stage, micro_batch}, 0);
    if (is_new) {
      const auto sender = static_cast<std::uint32_t>(stage % options_.ranks);
      const auto receiver =
          static_cast<std::uint32_t>((stage + (forward ? 1 : -1)) % options_.ranks);
      it->second = builder_.AddRendezvous(builder_.AddGroup({sender, receiver}), 2);
    }
    return it->second;
  }

  // `stage`: the sender's, here and below.
  BufferId Receive(bool forward, int stage, int micro_batch) {
    const BufferId buffer = AddBuffer(64, {.role = Role::kCommunication});
    Throttle(builder_.Add({.rank = rank_,
                           .kind = TaskKind::kRecv,
                           .lane = forward ? Lane::kRecvFwd : Lane::kRecvBwd,
                           .shape = {.op = OpCode::kRecv, .dims = {bytes_[buffer]}},
                           .reads = {},
                           .writes = {{.buffer = buffer}},
                           .rendezvous = Meet(forward, stage, micro_batch)}));
    return buffer;
  }
  void Send(bool forward, int stage, int micro_batch, BufferId buffer) {
    sides_->push_back(builder_.Add({.rank = rank_,
                                    .kind = TaskKind::kSend,
                                    .lane = forward ? Lane::kSendFwd : Lane::kSendBwd,
                                    .shape = {.op = OpCode::kSend, .dims = {bytes_[buffer]}},
                                    .reads = {{.buffer = buffer}},
                                    .writes = {},
                                    .rendezvous = Meet(forward, stage, micro_batch)}));
  }

  void Offload(BufferId buffer) {
    host_copy_[buffer] = Twin(buffer, Pool::kPinnedHost);
    sides_->push_back(builder_.CopyD2H(buffer, host_copy_[buffer]));
  }
  BufferId Reload(BufferId buffer) {
    const auto it = host_copy_.find(buffer);
    if (it == host_copy_.end()) return buffer;
    const BufferId reloaded = Twin(buffer, Pool::kGpu);
    Throttle(builder_.CopyH2D(it->second, reloaded));
    return reloaded;
  }

  bool IsLastStage() const { return stage_ == options_.ranks * options_.virtual_stages - 1; }
  // Whether a tensor is made through a temporary, and that one's size.
  bool HasTemporary(std::size_t j) const {
    return static_cast<int>(j % 4) < options_.extra_temporaries && j % 2 == 0;
  }
  std::int64_t TemporarySize(std::size_t j) const { return sizes_[(j + 5) % sizes_.size()]; }

  void Forward(const Unit& unit) {
    std::vector<BufferId>& saved = saved_[{unit.micro_batch, unit.chunk}];
    BufferId x;
    if (stage_ == 0) {
      x = Saved(64);
      Compute({weights_}, {x});
    } else {
      x = Receive(true, stage_ - 1, unit.micro_batch);
    }
    saved.push_back(x);
    for (int layer = 0; layer < options_.layers_per_stage; ++layer) {
      for (std::size_t j = 0; j < sizes_.size(); ++j) {
        BufferId input = x;
        if (HasTemporary(j)) {
          input = Temporary(TemporarySize(j));
          Compute({x, weights_}, {input});
        }
        x = Saved(sizes_[j]);
        Compute({input, weights_}, {x});
        if (options_.offload && j % 3 == 1 && layer % 2 == 0) Offload(x);
        saved.push_back(x);
      }
    }
    const BufferId output = Saved(64);
    if (IsLastStage()) {
      const BufferId logits = Temporary(64 * 8);
      Compute({x, weights_}, {logits});
      Compute({logits, weights_}, {output});  // Already the gradient.
      saved.push_back(output);
    } else {
      Compute({x, weights_}, {output});
      Send(true, stage_, unit.micro_batch, output);
    }
  }

  void Backward(const Unit& unit) {
    std::vector<BufferId> saved = std::move(saved_[{unit.micro_batch, unit.chunk}]);
    BufferId gradient;
    if (IsLastStage()) {
      gradient = saved.back();
      saved.pop_back();
    } else {
      gradient = Receive(false, stage_ + 1, unit.micro_batch);
    }
    for (BufferId& buffer : saved) buffer = Reload(buffer);
    for (std::size_t i = saved.size(); i-- > 1;) {
      const std::size_t j = (i - 1) % sizes_.size();
      BufferId dy = gradient;
      if (HasTemporary(j)) {
        dy = Temporary(TemporarySize(j));
        Compute({gradient, weights_}, {dy});
      }
      const BufferId dx = Temporary(i == 1 ? 64 : sizes_[(j + sizes_.size() - 1) % sizes_.size()]);
      Compute({dy, saved[i], weights_}, {dx});
      Compute({dy, saved[i - 1], gradients_}, {gradients_});
      gradient = dx;
    }
    if (stage_ == 0) {
      Compute({gradient, gradients_}, {gradients_});
    } else {
      Send(false, stage_, unit.micro_batch, gradient);
    }
  }

  PipelineGraphOptions options_;
  std::vector<std::int64_t> sizes_;
  GraphBuilder builder_;
  std::vector<std::int64_t> bytes_;                                // By buffer.
  std::map<std::tuple<bool, int, int>, RendezvousId> rendezvous_;  // Forward, sender, micro-batch.

  // The rank under construction.
  RankId rank_ = 0;
  BufferId weights_ = kNone, gradients_ = kNone;
  std::map<std::pair<int, int>, std::vector<BufferId>> saved_;  // By micro-batch and chunk.
  std::map<BufferId, BufferId> host_copy_;
  std::vector<Handle> awaited_;
  std::vector<Handle>* sides_ = nullptr;  // Sends and offloads of the unit.
  Handle throttle_ = kNoTask, last_compute_ = kNoTask;
  int stage_ = 0;
};

}  // namespace

TaskGraph MakePipelineGraph(const PipelineGraphOptions& options) {
  return Pipeline(options).Build();
}

}  // namespace twinstep
