#include "sim/graph/fused_pairs.h"

#include <gtest/gtest.h>

#include <vector>

#include "sim/graph/arena.h"
#include "sim/graph/verifier.h"
#include "tests/graph/graph_builder.h"

namespace twinstep {
namespace {

constexpr std::int64_t kBytes = 4096;

// One rank's product x W = z and sum z + residual = y, with what a test puts around them.
class SumTest : public testing::Test {
 protected:
  BufferId Weights(std::int64_t bytes = kBytes) {
    return builder_.AddBuffer(0, bytes, {.role = Role::kParameter, .persistent = true});
  }
  void Product() {
    product_ = builder_.Add({.shape = {.op = OpCode::kGemmForward, .dims = {32, 64, 64}},
                             .reads = {{x_}, {w_}},
                             .writes = {{z_}}});
  }
  void Sum() {
    sum_ = builder_.Add({.shape = {.op = OpCode::kAdd, .dims = {32, 64}},
                         .reads = {{z_}, {residual_}},
                         .writes = {{y_}}});
  }
  // The parts of product and sum, which are the same whether the arena is given or not.
  std::vector<Fusion> Parts(PairRule rule = PairRule::kAll) {
    graph_ = builder_.Build();
    EXPECT_FALSE(Verify(graph_).has_value());
    arena_ = PlanArena(graph_);
    const FusedPairs pairs = FindFusedPairs(graph_, rule);
    const FusedPairs placed = FindFusedPairs(graph_, rule, &arena_);
    EXPECT_EQ(pairs.fusion, placed.fusion);
    EXPECT_EQ(pairs.partner, placed.partner);
    const TaskId product = builder_.Id(product_), sum = builder_.Id(sum_);
    if (pairs.Of(sum) == Fusion::kWithPrevious) {
      EXPECT_EQ(pairs.partner[sum], product);
      EXPECT_EQ(pairs.partner[product], sum);
    }
    return {pairs.Of(product), pairs.Of(sum)};
  }

  const std::vector<Fusion> fused_{Fusion::kGemmAdd, Fusion::kWithPrevious};
  const std::vector<Fusion> alone_{Fusion::kAlone, Fusion::kAlone};
  GraphBuilder builder_{1};
  BufferId x_ = Weights(), w_ = Weights(), residual_ = Weights();
  BufferId z_ = builder_.AddBuffer(0, kBytes), y_ = builder_.AddBuffer(0, kBytes);
  GraphBuilder::Handle product_ = 0, sum_ = 0;
  TaskGraph graph_;
  ArenaPlan arena_;
};

TEST_F(SumTest, IsTheProducts) {
  Product();
  Sum();
  builder_.Compute(0, {y_}, {y_});
  EXPECT_EQ(Parts(), fused_);
}

// Rounded once where two tasks round twice.
TEST_F(SumTest, IsNoPairOfTheSameBits) {
  Product();
  Sum();
  EXPECT_EQ(Parts(PairRule::kSameBits), alone_);
  EXPECT_TRUE(FindFusedPairs(graph_, PairRule::kNoPairs).fusion.empty());
}

// As tensor-parallel ranks sum their products before the residual.
TEST_F(SumTest, IsAloneBehindACollective) {
  Product();
  builder_.AllReduce({z_});
  Sum();
  EXPECT_EQ(Parts(), alone_);
}

TEST_F(SumTest, IsAloneBehindAnotherTask) {
  Product();
  builder_.Compute(0, {w_}, {builder_.AddBuffer(0, kBytes)});
  Sum();
  EXPECT_EQ(Parts(), alone_);
}

TEST_F(SumTest, IsAloneWhereItWaitsForAnotherLane) {
  Product();
  residual_ = builder_.AddBuffer(0, kBytes);
  const BufferId host =
      builder_.AddBuffer(0, kBytes, {.pool = Pool::kPinnedHost, .persistent = true});
  builder_.CopyH2D(host, residual_);
  Sum();
  EXPECT_EQ(Parts(), alone_);
}

TEST_F(SumTest, IsAloneWhereAnotherLaneWaitsForTheProduct) {
  Product();
  const BufferId host = builder_.AddBuffer(0, kBytes, {.pool = Pool::kPinnedHost});
  builder_.CopyD2H(z_, host);
  Sum();
  EXPECT_EQ(Parts(), alone_);
}

TEST_F(SumTest, IsAloneWhereTheProductHasOtherReaders) {
  Product();
  Sum();
  builder_.Compute(0, {z_}, {builder_.AddBuffer(0, kBytes)});
  EXPECT_EQ(Parts(), alone_);
}

// Where a plan drops what the product has read, the sum may lie in its place.
TEST_F(SumTest, IsAloneOverWhatTheProductReads) {
  x_ = builder_.AddBuffer(0, kBytes);
  builder_.Compute(0, {w_}, {x_});
  Product();
  Sum();
  builder_.Compute(0, {y_}, {y_});
  EXPECT_EQ(Parts(), alone_);
  EXPECT_EQ(arena_.offset[x_], arena_.offset[y_]);
}

TEST_F(SumTest, IsTheProductsWhereWhatThatReadsIsKept) {
  x_ = builder_.AddBuffer(0, kBytes);
  builder_.Compute(0, {w_}, {x_});
  Product();
  Sum();
  builder_.Compute(0, {x_, y_}, {y_});
  EXPECT_EQ(Parts(), fused_);
}

TEST_F(SumTest, MayTakeTheResidualsPlace) {
  Product();
  y_ = residual_;
  Sum();
  EXPECT_EQ(Parts(), fused_);
}

TEST_F(SumTest, OverlapsNoPartOfTheSameBuffer) {
  // Both parts of one buffer, as those of a chunk are.
  const BufferId both = Weights(2 * kBytes);
  const Operand low = builder_.Part(both, 0, kBytes), high = builder_.Part(both, kBytes, kBytes);
  for (const Operand& y : {low, high}) {
    product_ = builder_.Add({.shape = {.op = OpCode::kGemmForward, .dims = {32, 64, 64}},
                             .reads = {low, {w_}},
                             .writes = {{z_}}});
    sum_ = builder_.Add({.shape = {.op = OpCode::kAdd, .dims = {32, 64}},
                         .reads = {{z_}, {residual_}},
                         .writes = {y}});
  }
  graph_ = builder_.Build();
  const FusedPairs pairs = FindFusedPairs(graph_, PairRule::kAll);
  EXPECT_EQ(pairs.fusion, (std::vector<Fusion>{Fusion::kAlone, Fusion::kAlone, Fusion::kGemmAdd,
                                               Fusion::kWithPrevious}));
}

// Gated activations, of the operands that op.h names.
class GatedTest : public testing::Test {
 protected:
  void Forward() {
    builder_.Add({.shape = {.op = OpCode::kSiluForward, .dims = {32, 64}},
                  .reads = {{gate_up_}},
                  .writes = {{silu_}}});
    builder_.Add({.shape = {.op = OpCode::kMulForward, .dims = {32, 64}},
                  .reads = {{silu_}, {gate_up_}},
                  .writes = {{act_}}});
  }
  void Backward() {
    const BufferId dsilu = builder_.AddBuffer(0, kBytes);
    builder_.Add({.shape = {.op = OpCode::kMulBackward, .dims = {32, 64}},
                  .reads = {{act_}, {silu_}, {gate_up_}},
                  .writes = {{dsilu}, {dgate_up_}}});
    builder_.Add({.shape = {.op = OpCode::kSiluBackward, .dims = {32, 64}},
                  .reads = {{dsilu}, {gate_up_}, {dgate_up_}},
                  .writes = {{dgate_up_}}});
  }
  std::vector<Fusion> Parts(PairRule rule) {
    graph_ = builder_.Build();
    EXPECT_FALSE(Verify(graph_).has_value());
    return FindFusedPairs(graph_, rule).fusion;
  }

  GraphBuilder builder_{1};
  BufferId gate_up_ = builder_.AddBuffer(0, 2 * kBytes, {.persistent = true});
  BufferId silu_ = builder_.AddBuffer(0, kBytes), act_ = builder_.AddBuffer(0, kBytes);
  BufferId dgate_up_ = builder_.AddBuffer(0, 2 * kBytes);
  TaskGraph graph_;
};

TEST_F(GatedTest, BothWaysAreOneKernelEach) {
  Forward();
  Backward();
  const std::vector<Fusion> parts = {Fusion::kWithNext, Fusion::kSwiGlu, Fusion::kWithNext,
                                     Fusion::kSwiGluBackward};
  EXPECT_EQ(Parts(PairRule::kAll), parts);
  EXPECT_EQ(FindFusedPairs(graph_, PairRule::kSameBits).fusion, parts);
}

TEST_F(GatedTest, SiluIsWrittenWhereItHasOtherReaders) {
  Forward();
  builder_.Compute(0, {act_}, {act_});
  builder_.Compute(0, {silu_}, {builder_.AddBuffer(0, kBytes)});
  EXPECT_EQ(Parts(PairRule::kAll), (std::vector<Fusion>{Fusion::kWithNext, Fusion::kSwiGluWithSilu,
                                                        Fusion::kAlone, Fusion::kAlone}));
}

TEST_F(GatedTest, AloneWhereAnotherLaneWaitsBetweenThem) {
  builder_.Add({.shape = {.op = OpCode::kSiluForward, .dims = {32, 64}},
                .reads = {{gate_up_}},
                .writes = {{silu_}}});
  builder_.CopyD2H(silu_, builder_.AddBuffer(0, kBytes, {.pool = Pool::kPinnedHost}));
  builder_.Add({.shape = {.op = OpCode::kMulForward, .dims = {32, 64}},
                .reads = {{silu_}, {gate_up_}},
                .writes = {{act_}}});
  EXPECT_EQ(Parts(PairRule::kAll),
            (std::vector<Fusion>{Fusion::kAlone, Fusion::kAlone, Fusion::kAlone}));
}

// Tasks without operands, as tests of costs have them, are of no pair.
TEST(FusedPairs, ShapesAloneMakeNoPair) {
  GraphBuilder builder(2);
  for (const RankId rank : {0u, 1u}) {
    for (const OpCode op : {OpCode::kSiluForward, OpCode::kMulForward, OpCode::kMulBackward,
                            OpCode::kSiluBackward, OpCode::kGemmForward, OpCode::kAdd}) {
      builder.Add({.rank = rank, .shape = {.op = op}});
    }
  }
  const TaskGraph graph = builder.Build();
  EXPECT_EQ(FindFusedPairs(graph, PairRule::kAll).fusion, std::vector<Fusion>(12, Fusion::kAlone));
}

}  // namespace
}  // namespace twinstep
