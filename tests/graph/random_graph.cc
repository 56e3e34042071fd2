#include "tests/graph/random_graph.h"

#include <algorithm>
#include <array>
#include <random>
#include <utility>
#include <vector>

#include "tests/graph/graph_builder.h"

namespace twinstep {
namespace {

// Divisible by all group sizes up to 8 and by the bytes of an element.
constexpr std::int64_t kUnitBytes = 2 * 840;
// Full tensors have one of these sizes; operands of an operation are of one size class.
constexpr std::array<std::int64_t, 3> kSizes = {kUnitBytes, 3 * kUnitBytes, 16 * kUnitBytes};
constexpr std::uint32_t kLargestGroup = 8;

class Generator {
 public:
  explicit Generator(const RandomGraphOptions& options)
      : options_(options), random_(options.seed), builder_(options.ranks), tasks_(options.ranks) {
    for (auto& sets : pools_) sets.resize(std::size_t{options.ranks} * kSizes.size());
    for (RankId rank = 0; rank < options.ranks; ++rank) {
      for (std::size_t size = 0; size < kSizes.size(); ++size) {
        Set(Pool::kGpu, rank, size) = {
            {.id = builder_.AddBuffer(rank, kSizes[size],
                                      {.role = Role::kParameter, .persistent = true}),
             .written = true,
             .persistent = true},
            {.id = builder_.AddBuffer(rank, kSizes[size])}};
        Set(Pool::kPinnedHost, rank, size) = {
            {.id = builder_.AddBuffer(
                 rank, kSizes[size],
                 {.pool = Pool::kPinnedHost, .role = Role::kOptimizerState, .persistent = true}),
             .written = true,
             .persistent = true},
            {.id = builder_.AddBuffer(rank, kSizes[size], {.pool = Pool::kPinnedHost})}};
      }
    }
  }

  TaskGraph Run() {
    while (builder_.TaskCount() < options_.tasks) {
      const auto size = static_cast<std::size_t>(Below(kSizes.size()));
      const RankId rank = Below(options_.ranks);
      std::uint32_t dice = Below(100);
      const auto drawn = [&dice](std::uint32_t percent) {
        const bool hit = dice < percent;
        dice -= hit ? 0 : percent;
        return hit;
      };
      if (drawn(options_.collective_percent)) {
        AddCollective(size);
      } else if (drawn(options_.send_percent)) {
        AddSendRecv(rank, size);
      } else if (drawn(options_.copy_percent)) {
        AddCopy(rank, size);
      } else if (drawn(options_.host_percent)) {
        AddCompute(Pool::kPinnedHost, rank, size);
      } else {
        AddCompute(Pool::kGpu, rank, size);
      }
    }
    AddExtraEdges();
    return builder_.Build();
  }

 private:
  struct Entry {
    BufferId id = kNone;
    bool written = false;
    bool persistent = false;
  };

  // Not std::uniform_int_distribution, whose results depend on the library.
  std::uint32_t Below(std::size_t bound) { return static_cast<std::uint32_t>(random_() % bound); }

  std::vector<Entry>& Set(Pool pool, RankId rank, std::size_t size) {
    return pools_[pool == Pool::kGpu ? 0 : 1][rank * kSizes.size() + size];
  }

  // A buffer that holds a value; a persistent one always does.
  BufferId Source(Pool pool, RankId rank, std::size_t size) {
    const std::vector<Entry>& set = Set(pool, rank, size);
    for (;;) {
      const Entry& entry = set[Below(set.size())];
      if (entry.written) return entry.id;
    }
  }

  // A buffer to write: one in use, or, so that lifetimes end, a new one.
  BufferId Destination(Pool pool, RankId rank, std::size_t size) {
    std::vector<Entry>& set = Set(pool, rank, size);
    if (Below(3) == 0) {
      const Entry fresh{
          .id = builder_.AddBuffer(rank, kSizes[size], {.pool = pool, .role = Role::kActivation}),
          .written = true};
      const std::size_t place = 1 + Below(options_.working_set);
      if (place >= set.size()) {
        set.push_back(fresh);
      } else {
        set[place] = fresh;
      }
      return fresh.id;
    }
    Entry& entry = set[Below(set.size())];
    entry.written = true;
    return entry.id;
  }

  void Count(GraphBuilder::Handle handle, RankId rank) { tasks_[rank].push_back(handle); }

  void AddCompute(Pool pool, RankId rank, std::size_t size) {
    GraphBuilder::TaskSpec spec;
    spec.rank = rank;
    spec.kind = pool == Pool::kGpu ? TaskKind::kCompute : TaskKind::kHost;
    spec.lane = pool == Pool::kGpu ? Lane::kCompute : Lane::kHost;
    spec.phase = Below(2) == 0 ? Phase::kForward : Phase::kBackward;
    spec.micro_batch = static_cast<std::uint16_t>(Below(4));
    const std::int64_t elements = kSizes[size] / DtypeBytes(Dtype::kBf16);
    switch (Below(3)) {
      case 0:
        spec.shape = {.op = OpCode::kActivationForward, .dims = {elements / 4, 4}};
        spec.reads = {{.buffer = Source(pool, rank, size)}};
        break;
      case 1:
        spec.shape = {.op = OpCode::kAdd, .dims = {elements / 4, 4}};
        spec.reads = {{.buffer = Source(pool, rank, size)}, {.buffer = Source(pool, rank, size)}};
        break;
      default:
        spec.shape = {.op = OpCode::kAccumulate, .dims = {elements}};
        spec.reads = {{.buffer = Source(pool, rank, size)}, {.buffer = Source(pool, rank, size)}};
        spec.writes = {spec.reads[1]};
        break;
    }
    if (spec.writes.empty()) spec.writes = {{.buffer = Destination(pool, rank, size)}};
    Count(builder_.Add(spec), rank);
  }

  void AddCopy(RankId rank, std::size_t size) {
    if (Below(2) == 0) {
      const BufferId source = Source(Pool::kGpu, rank, size);
      Count(builder_.CopyD2H(source, Destination(Pool::kPinnedHost, rank, size)), rank);
    } else {
      const BufferId source = Source(Pool::kPinnedHost, rank, size);
      Count(builder_.CopyH2D(source, Destination(Pool::kGpu, rank, size)), rank);
    }
  }

  void AddSendRecv(RankId from, std::size_t size) {
    if (options_.ranks < 2) return AddCompute(Pool::kGpu, from, size);
    const RankId to = (from + 1 + Below(options_.ranks - 1)) % options_.ranks;
    const BufferId source = Source(Pool::kGpu, from, size);
    const BufferId destination = Destination(Pool::kGpu, to, size);
    const bool forward = Below(2) == 0;
    const auto [send, recv] =
        builder_.SendRecv(source, destination, forward ? Lane::kSendFwd : Lane::kSendBwd,
                          forward ? Lane::kRecvFwd : Lane::kRecvBwd);
    Count(send, from);
    Count(recv, to);
  }

  // Neighbours, as tensor-parallel groups are, so that few groups meet again and again.
  std::vector<RankId> Group() {
    const std::uint32_t largest = std::min(options_.ranks, kLargestGroup);
    const std::uint32_t count = 1 + Below(largest);
    const std::uint32_t first = Below(options_.ranks / count) * count;
    std::vector<RankId> group;
    for (std::uint32_t i = 0; i < count; ++i) group.push_back(first + i);
    return group;
  }

  void AddCollective(std::size_t size) {
    static constexpr std::array kOps = {OpCode::kAllReduce, OpCode::kAllGather,
                                        OpCode::kReduceScatter};
    static constexpr std::array kLanes = {Lane::kTp, Lane::kCp, Lane::kDp};
    const OpCode op = kOps[Below(kOps.size())];
    const Lane lane = kLanes[Below(kLanes.size())];
    const std::vector<RankId> group = Group();
    const std::int64_t shard_bytes = kSizes[size] / static_cast<std::int64_t>(group.size());
    std::vector<Operand> inputs, outputs;
    for (std::size_t i = 0; i < group.size(); ++i) {
      Operand in{.buffer = Source(Pool::kGpu, group[i], size)};
      Operand out = in;
      if (op != OpCode::kAllReduce) {
        out = {.buffer = Destination(Pool::kGpu, group[i], size)};
        Operand& shard = op == OpCode::kAllGather ? in : out;
        // A whole buffer where the group has one member.
        if (group.size() > 1) {
          shard =
              builder_.Part(shard.buffer, static_cast<std::int64_t>(i) * shard_bytes, shard_bytes);
        }
      }
      inputs.push_back(in);
      outputs.push_back(out);
    }
    const auto handles = builder_.Collective(op, inputs, outputs, kSizes[size], lane);
    for (std::size_t i = 0; i < group.size(); ++i) Count(handles[i], group[i]);
  }

  void AddExtraEdges() {
    for (const std::vector<GraphBuilder::Handle>& tasks : tasks_) {
      if (tasks.size() < 2) continue;
      const std::size_t count = tasks.size() * options_.extra_edge_percent / 100;
      for (std::size_t i = 0; i < count; ++i) {
        std::uint32_t a = Below(tasks.size());
        std::uint32_t b = Below(tasks.size());
        if (a > b) std::swap(a, b);
        if (a != b) builder_.Order(tasks[a], tasks[b]);
      }
    }
  }

  const RandomGraphOptions options_;
  std::mt19937_64 random_;
  GraphBuilder builder_;
  std::vector<std::vector<GraphBuilder::Handle>> tasks_;  // By rank, in issue order.
  // Buffers in use: [GPU, pinned host][rank and size class]. The first is persistent.
  std::array<std::vector<std::vector<Entry>>, 2> pools_;
};

}  // namespace

TaskGraph RandomGraph(const RandomGraphOptions& options) { return Generator(options).Run(); }

}  // namespace twinstep
