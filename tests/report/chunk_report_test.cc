// Rows of chunks and blocks against the plan and the graph they come from.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "hw_specs/find_cluster.h"
#include "model_zoo/find_model.h"
#include "sim/cost/graph_costs.h"
#include "sim/engine/engine.h"
#include "sim/lower/lower.h"
#include "sim/report/chunk_json.h"
#include "sim/report/chunk_summary.h"
#include "sim/report/chunk_text.h"

namespace twinstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Eight blocks, a block a chunk, two ranks.
struct Simulated {
  explicit Simulated(std::int64_t micro_batch) {
    report.model = FindModel("tiny-llama").value();
    report.model.set_layers(8);
    report.model.mutable_recipe()->set_precision(FP16);
    report.model.mutable_recipe()->set_gradient_precision(PARAMETER_GRADIENT);
    report.cluster = FindCluster("4x3090").value();
    Plan plan;
    plan.set_global_batch(8);
    plan.set_micro_batch(micro_batch);
    plan.set_persistent_chunks(2);
    plan.set_chunk_buffers(3);
    plan.set_chunk_bytes(104 << 10);
    plan.set_swapped_blocks(2);
    plan.set_checkpointed_blocks(4);
    report.plan = ResolvePlan(report.model, report.cluster, plan, 2).value();
    const TaskGraph graph = Lower(report.model, report.cluster, report.plan, {}).value();
    const GraphCosts costs = ComputeCosts(graph, report.model, report.cluster, nullptr).value();
    const Replay replay = MakeFastEngine()->Run(graph, costs).value();
    report.results.emplace();
    report.results->iteration_s = 1;
    report.results->chunked = SummarizeChunks(report.model, report.plan, graph, replay);
  }
  const ChunksOfRank& rank() const { return report.results->chunked.at(0); }
  Report report;
};

TEST(ChunkReportTest, ChunksInExecutionOrder) {
  const Simulated simulated(4);
  const ChunksOfRank& rank = simulated.rank();
  ASSERT_EQ(rank.chunks.size(), 10u);
  EXPECT_THAT(rank.chunks[0].blocks, ElementsAre(9));  // Embedding.
  EXPECT_THAT(rank.chunks[9].blocks, ElementsAre(8));  // Head.
  EXPECT_EQ(rank.buffers, 3);
  EXPECT_EQ(rank.gradient_bytes, 0);
  EXPECT_EQ(rank.parameter_bytes + rank.optimizer_bytes, 14);
  std::int64_t parameters = 0;
  for (const ChunkReport& chunk : rank.chunks) {
    parameters += chunk.parameters;
    EXPECT_EQ(chunk.on_gpu, chunk.chunk < 2);
    EXPECT_TRUE(chunk.reduced && chunk.updated && chunk.gathered);
    // The last three are still there when the backward begins.
    EXPECT_EQ(chunk.uploads, chunk.on_gpu ? 0 : chunk.chunk < 7 ? 2 : 1) << chunk.chunk;
    EXPECT_EQ(chunk.uploaded_bytes, chunk.uploads * rank.chunk_bytes / 2);
    EXPECT_EQ(chunk.offloaded_bytes, chunk.on_gpu ? 0 : rank.chunk_bytes / 2);
    if (!chunk.on_gpu) {
      EXPECT_GE(chunk.updated->begin_ps, chunk.offloaded->end_ps);
    }
  }
  EXPECT_EQ(rank.waste_bytes, 10 * rank.chunk_bytes - 2 * parameters);
}

TEST(ChunkReportTest, Blocks) {
  const Simulated simulated(4);
  const ChunksOfRank& rank = simulated.rank();
  ASSERT_EQ(rank.blocks.size(), 8u);
  for (const BlockReport& block : rank.blocks) {
    EXPECT_EQ(block.choice, simulated.report.plan.blocks[block.block]);
    EXPECT_EQ(block.recompute_ps > 0, block.choice == BLOCK_CHECKPOINT);
    EXPECT_EQ(block.swapped_bytes > 0, block.choice == BLOCK_SWAP);
    EXPECT_EQ(block.out.has_value() && block.back.has_value(), block.choice == BLOCK_SWAP);
    if (block.back) {
      EXPECT_GE(block.back->begin_ps, block.out->end_ps);
    }
  }
}

TEST(ChunkReportTest, TextAndJson) {
  const std::string text = ChunkText(Simulated(4).report);
  EXPECT_THAT(text, HasSubstr("10 chunks of 104.0 KiB"));
  EXPECT_THAT(text, HasSubstr("gradients take the parameters' place: 2 + 12 bytes a parameter"));
  EXPECT_THAT(text, HasSubstr("embedding"));
  EXPECT_THAT(ChunkText(Simulated(1).report),
              HasSubstr("gradients have chunks of their own, since later micro-batches need the"));
  const auto json = ToJson(Simulated(4).rank());
  EXPECT_EQ(json["chunks"].size(), 10u);
  EXPECT_EQ(json["chunks"][0]["lives"], "gpu");
  EXPECT_EQ(json["blocks"][0]["activations"], "swap");
  EXPECT_EQ(json["bytes_per_parameter"]["optimizer"], 12);
}

TEST(ChunkReportTest, NothingWithoutChunks) {
  EXPECT_TRUE(SummarizeChunks({}, {}, {}, {}).empty());
  EXPECT_EQ(ChunkText({}), "");
}

}  // namespace
}  // namespace twinstep
