#include "exec/profile/probe_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "sim/graph/fused_pairs.h"
#include "sim/lower/lower.h"
#include "tests/exec/profile/small_gpus.h"
#include "tests/exec/runtime/small_models.h"
#include "tests/exec/runtime/training_run.h"

namespace twinstep {
namespace {

using testing::SizeIs;

constexpr std::int64_t kKilobyte = 1024;

// What joins ranks is measured by itself: no two at once, whatever lanes they have.
TEST(ProbeGraph, MeetingsComeOneAfterTheOther) {
  ProbeGraph probes(2);
  for (const OpCode op : {OpCode::kAllGather, OpCode::kSend, OpCode::kAllReduce}) {
    OpShape shape{.op = op, .dtype = Dtype::kBf16};
    shape.dims[0] = kKilobyte;
    probes.AddGroupOperation(shape, 2);
  }
  const TaskGraph graph = std::move(probes).Finish();
  ASSERT_EQ(graph.TaskCount(), 12u);
  for (RankId rank = 0; rank < 2; ++rank) {
    const TaskId begin = graph.rank_begin[rank];
    for (TaskId id = begin; id + 1 < graph.rank_begin[rank + 1]; ++id) {
      const bool is_other_lane = graph.tasks[id].lane != graph.tasks[id + 1].lane;
      EXPECT_EQ(is_other_lane, id - begin == 1 || id - begin == 3);
      const auto next = graph.Successors(id);
      ASSERT_EQ(next.size(), is_other_lane ? 1u : 0u);
      if (is_other_lane) {
        EXPECT_EQ(next[0], id + 1);
      }
    }
  }
}

// Both parts of a plan's pairs are in probes what they are there.
std::set<Fusion> ExpectPairsStay(const Plan& requested, std::int64_t gpus) {
  const Model model = SmallModel("llama", FP32);
  const Cluster cluster = SmallGpus(gpus);
  const ResolvedPlan plan = ResolvePlan(model, cluster, requested, gpus).value();
  const TaskGraph graph = Lower(model, cluster, plan, {.fold = false}).value();
  const FusedPairs pairs = FindFusedPairs(graph, PairRule::kAll);
  std::set<Fusion> seen;
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    const TaskId second = pairs.partner[id];
    if (second == kNone || second < id || !seen.insert(pairs.Of(second)).second) continue;
    const bool first_is_read = pairs.Of(second) == Fusion::kSwiGluWithSilu;
    ProbeGraph probes;
    probes.AddPair(graph, id, second, 2, first_is_read);
    const TaskGraph probe = std::move(probes).Finish();
    const TaskId tasks = first_is_read ? 3 : 2;
    EXPECT_THAT(probe.tasks, SizeIs(2 * tasks));
    const FusedPairs found = FindFusedPairs(probe, PairRule::kAll);
    for (const TaskId begin : {TaskId{0}, tasks}) {
      EXPECT_EQ(found.Of(begin), pairs.Of(id));
      EXPECT_EQ(found.Of(begin + 1), pairs.Of(second));
    }
  }
  return seen;
}

// Which place of host memory each copy goes to, by the order in which places are first seen.
std::vector<std::size_t> PlacesOf(std::int64_t bytes, int times, std::int64_t footprint_bytes) {
  ProbeGraph probes;
  probes.AddCopies(/*h2d=*/false, bytes, times, footprint_bytes);
  const TaskGraph graph = std::move(probes).Finish();
  std::vector<std::size_t> places;
  std::vector<BufferId> seen;
  for (TaskId id = 0; id < graph.TaskCount(); ++id) {
    const BufferId host = graph.Writes(id).front().buffer;
    EXPECT_EQ(graph.buffers[host].pool, Pool::kPinnedHost);
    EXPECT_EQ(graph.buffers[host].bytes, bytes);
    EXPECT_EQ(graph.buffers[graph.Reads(id).front().buffer].pool, Pool::kGpu);
    const auto at = std::find(seen.begin(), seen.end(), host);
    places.push_back(static_cast<std::size_t>(at - seen.begin()));
    if (at == seen.end()) seen.push_back(host);
  }
  return places;
}

TEST(ProbeGraph, CopiesGoThroughTheirFootprintInTurn) {
  using Places = std::vector<std::size_t>;
  EXPECT_EQ(PlacesOf(100, 7, 300), (Places{0, 1, 2, 0, 1, 2, 0}));
  EXPECT_EQ(PlacesOf(100, 3, 201), (Places{0, 1, 2}));
  EXPECT_EQ(PlacesOf(100, 2, 1000), (Places{0, 1}));  // No more places than copies.
  EXPECT_EQ(PlacesOf(100, 3, 100), (Places{0, 0, 0}));
  EXPECT_EQ(PlacesOf(100, 3, 1), (Places{0, 0, 0}));
  EXPECT_EQ(PlacesOf(100, 0, 300), Places{});
  EXPECT_EQ(ProbeGraph::PinnedBytes(100, 5), 500);
  EXPECT_EQ(ProbeGraph::PinnedBytes(100, 5, 300), 300);
  EXPECT_EQ(ProbeGraph::PinnedBytes(0, 5), 0);
  EXPECT_EQ(ProbeGraph::PinnedBytes(std::int64_t{256} << 20, 5), std::int64_t{512} << 20);
}

TEST(ProbeGraph, PairsStayPairs) {
  EXPECT_EQ(ExpectPairsStay(SmallPlan(1, 1, 1, 1), 1),
            (std::set{Fusion::kSwiGlu, Fusion::kSwiGluBackward, Fusion::kWithPrevious}));
  // Tensors of one buffer, and some that are copied away.
  Plan offload = SmallPlan(1, 1, 2, 1);
  offload.set_virtual_stages(2);
  offload.set_schedule(INTERLEAVED_1F1B);
  offload.set_offload_ratio(1);
  EXPECT_EQ(ExpectPairsStay(offload, 2),
            (std::set{Fusion::kSwiGluWithSilu, Fusion::kSwiGluBackward, Fusion::kWithPrevious}));
}

TEST(ProbeGraph, SiluThatIsReadIsWritten) {
  const Model model = SmallModel("llama", FP32);
  const ResolvedPlan plan = ResolvePlan(model, SmallGpus(), SmallPlan(1, 1, 1, 1), 1).value();
  const TaskGraph graph = Lower(model, SmallGpus(), plan, {.fold = false}).value();
  const FusedPairs pairs = FindFusedPairs(graph, PairRule::kAll);
  const auto pair = std::ranges::find(pairs.fusion, Fusion::kSwiGlu);
  ASSERT_NE(pair, pairs.fusion.end());
  const auto second = static_cast<TaskId>(pair - pairs.fusion.begin());
  ProbeGraph probes;
  probes.AddPair(graph, pairs.partner[second], second, 1, /*first_is_read=*/true);
  EXPECT_EQ(FindFusedPairs(std::move(probes).Finish(), PairRule::kAll).fusion,
            (std::vector{Fusion::kWithNext, Fusion::kSwiGluWithSilu, Fusion::kAlone}));
}

// A shard that lies at its place in the whole does so in the probe, too.
TEST(ProbeGraph, OperandsOfOneBufferStayOne) {
  const Model model = SmallModel("llama", FP32);
  const Cluster cluster = SmallGpus(2);
  const ResolvedPlan plan = ResolvePlan(model, cluster, SmallPlan(1, 1, 1, 2), 2).value();
  const TaskGraph graph = Lower(model, cluster, plan, {.fold = false}).value();
  for (TaskId id = 0; id < graph.rank_begin[1]; ++id) {
    if (graph.shapes[graph.tasks[id].shape].op != OpCode::kAllGather) continue;
    ASSERT_EQ(graph.Reads(id)[0].buffer, graph.Writes(id)[0].buffer);
    std::vector<TaskId> members = {id};
    for (TaskId other = graph.rank_begin[1]; other < graph.TaskCount(); ++other) {
      if (graph.tasks[other].rendezvous == graph.tasks[id].rendezvous) members.push_back(other);
    }
    ProbeGraph probes(2);
    probes.AddRendezvous(graph, members, 3);
    const TaskGraph probe = std::move(probes).Finish();
    ASSERT_THAT(probe.tasks, SizeIs(6));
    ASSERT_THAT(probe.rendezvous, SizeIs(3));
    EXPECT_EQ(probe.Reads(0)[0].buffer, probe.Writes(0)[0].buffer);
    EXPECT_EQ(probe.slices[probe.Reads(0)[0].slice], graph.slices[graph.Reads(id)[0].slice]);
    return;
  }
  FAIL() << "no all-gather";
}

}  // namespace
}  // namespace twinstep
