// Bytes that chunks move and take, against the formulas of ProTrain and M8.5, for every
// number of persistent chunks and buffers.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "model_zoo/find_model.h"
#include "sim/estimate/model_size.h"
#include "sim/lower/chunk_layout.h"
#include "sim/lower/lower.h"
#include "sim/options/plan_presets.h"
#include "sim/plan/resolved_plan.h"
#include "tests/lower/plan_matrix.h"

namespace twinstep {
namespace {

Model HalfPrecision(const std::string& name, GradientPrecision gradient = PARAMETER_GRADIENT) {
  Model model = FindModel(name).value();
  model.mutable_recipe()->set_precision(FP16);
  model.mutable_recipe()->set_gradient_precision(gradient);
  return model;
}

// A block a chunk.
Plan ChunkPlanOf(std::int64_t d, std::int64_t micro_batches, std::int64_t persist,
                 std::int64_t buffers) {
  Plan plan;
  plan.set_sequence_length(32);
  plan.set_global_batch(d * micro_batches);
  plan.set_persistent_chunks(persist);
  plan.set_chunk_buffers(buffers);
  plan.set_chunk_bytes(104 << 10);
  return plan;
}

ResolvedPlan Resolve(const Model& model, const Plan& plan, std::int64_t gpus) {
  const Result<ResolvedPlan> resolved = ResolvePlan(model, MatrixCluster(), plan, gpus);
  EXPECT_TRUE(resolved.ok()) << resolved.error().message;
  return resolved.value();
}

// Bytes of rank 0's copies and collectives of chunks, by operation; a collective counts the whole.
std::map<OpCode, std::int64_t> Volumes(const TaskGraph& graph) {
  std::map<OpCode, std::int64_t> bytes;
  for (TaskId id = graph.rank_begin[0]; id < graph.rank_begin[1]; ++id) {
    const Task& task = graph.tasks[id];
    if (task.chunk == kNoTag || task.kind == TaskKind::kCompute) continue;
    bytes[graph.shapes[task.shape].op] += graph.shapes[task.shape].dims[0];
  }
  return bytes;
}

struct Found {
  std::map<OpCode, std::int64_t> volumes;
  std::int64_t chunks = 0, elements = 0;
};

Found Lowered(const Model& model, const Plan& plan, std::int64_t d) {
  const ResolvedPlan resolved = Resolve(model, plan, d);
  const LocalShapes shapes = MakeLocalShapes(model, resolved);
  const auto layout = [&](ChunkKind kind) {
    return MakeChunkLayout(kind, model, shapes, 1, d, false);
  };
  const auto chunks = LayOutChunks(model, resolved, shapes,
                                   {.block = layout(ChunkKind::kBlock),
                                    .embedding = layout(ChunkKind::kEmbedding),
                                    .head = layout(ChunkKind::kHead)});
  EXPECT_TRUE(chunks.ok()) << chunks.error().message;
  return {.volumes = Volumes(LowerOrDie(model, resolved, /*fold=*/true)),
          .chunks = static_cast<std::int64_t>(chunks.value()[0].chunks.size()),
          .elements = chunks.value()[0].elements};
}

TEST(ChunkVolumesTest, OneMicroBatch) {
  for (const char* name : {"tiny-llama", "tiny-gpt"}) {
    const Model model = HalfPrecision(name);
    for (const std::int64_t d : {1, 2, 4}) {
      const std::int64_t n = Lowered(model, ChunkPlanOf(d, 1, 0, 9), d).chunks;
      ASSERT_GE(n, 5);
      for (std::int64_t persist = 0; persist <= n; ++persist) {
        const std::int64_t k = n - persist;  // Chunks that stream.
        for (std::int64_t buffers = persist == 0 ? 4 : 3; buffers <= std::max<std::int64_t>(k, 4);
             ++buffers) {
          const Found found = Lowered(model, ChunkPlanOf(d, 1, persist, buffers), d);
          const std::int64_t chunk_bytes = 2 * found.elements;
          // Each is uploaded for the forward, and again for the backward unless a buffer kept it.
          const std::int64_t loads = k + std::max<std::int64_t>(0, k - buffers);
          std::map<OpCode, std::int64_t> expected;
          if (k > 0) expected[OpCode::kCopyH2D] = loads * chunk_bytes / d;
          if (k > 0) expected[OpCode::kCopyD2H] = k * chunk_bytes / d;
          if (k > 0) expected[OpCode::kAdam] = k * found.elements / d;  // Of the host.
          if (d > 1) expected[OpCode::kAllGather] = (persist + loads) * chunk_bytes;
          if (d > 1) expected[OpCode::kReduceScatter] = n * chunk_bytes;
          EXPECT_EQ(found.volumes, expected)
              << name << " d " << d << " persist " << persist << " buffers " << buffers;
        }
      }
    }
  }
}

// Turning round at the end of a forward and of a backward, the buffers' chunks are there.
TEST(ChunkVolumesTest, SeveralMicroBatches) {
  const Model model = HalfPrecision("tiny-llama", FP32_GRADIENT);
  for (const std::int64_t d : {1, 2}) {
    for (const std::int64_t m : {2, 5}) {
      for (const std::int64_t persist : {0, 2, 4}) {
        for (const std::int64_t buffers : {3, 4, 5}) {
          const Found found = Lowered(model, ChunkPlanOf(d, m, persist, buffers), d);
          const std::int64_t k = found.chunks - persist;
          const std::int64_t loads = k + (2 * m - 1) * std::max<std::int64_t>(0, k - buffers);
          const std::int64_t gradient_bytes = 4 * found.elements;
          const auto at = [&](OpCode op) {
            const auto it = found.volumes.find(op);
            return it == found.volumes.end() ? 0 : it->second;
          };
          SCOPED_TRACE(std::to_string(persist) + " persist, " + std::to_string(buffers));
          EXPECT_EQ(at(OpCode::kCopyH2D), loads * 2 * found.elements / d);
          EXPECT_EQ(at(OpCode::kCopyD2H), m * k * gradient_bytes / d);
          EXPECT_EQ(at(OpCode::kAccumulate), (m - 1) * k * found.elements / d);
          EXPECT_EQ(at(OpCode::kReduceScatter), d > 1 ? (m * k + persist) * gradient_bytes : 0);
          EXPECT_EQ(at(OpCode::kAllGather), d > 1 ? (persist + loads) * 2 * found.elements : 0);
        }
      }
    }
  }
}

// M8 no. 5: 2 bytes a parameter up and 2 down; ZeRO-3's network volume is three times the model,
// less what stays in the buffers.
TEST(ChunkVolumesTest, ZeroOffloadAndZeroThree) {
  Model model = HalfPrecision("tiny-llama");
  model.set_vocab_padding_multiple(1);
  Plan plan = *PresetPlan("zero-offload");
  plan.set_sequence_length(32);
  plan.set_global_batch(1);
  const Found offload = Lowered(model, plan, 1);
  std::int64_t parameters = 0;
  for (const TensorInfo& x : LowerOrDie(model, Resolve(model, plan, 1), true).tensors) {
    if (x.state == StateKind::kParameter) parameters += x.rows * x.columns;
  }
  EXPECT_GE(parameters, TotalParameters(model));  // Which leaves out the norms.
  EXPECT_EQ(offload.chunks, 1);
  EXPECT_LT(offload.elements - parameters, 128);  // Rounded up to whole shards.
  EXPECT_EQ(offload.volumes.at(OpCode::kCopyH2D), 2 * offload.elements);
  EXPECT_EQ(offload.volumes.at(OpCode::kCopyD2H), 2 * offload.elements);

  const Found zero3 = Lowered(model, ChunkPlanOf(4, 1, 0, 3), 4);
  EXPECT_EQ(zero3.volumes.at(OpCode::kAllGather) + zero3.volumes.at(OpCode::kReduceScatter),
            (3 * zero3.chunks - 3) * 2 * zero3.elements);
}

// 14 bytes a parameter with one micro-batch, of which 12 are sharded on the GPU and 14 on the host.
TEST(ChunkVolumesTest, BytesOfModelStates) {
  const Model model = HalfPrecision("tiny-gpt-untied");
  for (const std::int64_t d : {1, 2}) {
    for (const std::int64_t persist : {0, 2, 4}) {
      const Found found = Lowered(model, ChunkPlanOf(d, 1, persist, 3), d);
      const TaskGraph graph =
          LowerOrDie(model, Resolve(model, ChunkPlanOf(d, 1, persist, 3), d), true);
      std::int64_t gpu = 0, host = 0, slots = 0;
      for (const Buffer& buffer : graph.buffers) {
        if (buffer.rank != 0) continue;
        EXPECT_NE(buffer.role, Role::kGradient);
        const bool states = buffer.role == Role::kParameter || buffer.role == Role::kOptimizerState;
        if (states) (buffer.pool == Pool::kGpu ? gpu : host) += buffer.bytes;
        if (buffer.role == Role::kCommunication) slots += buffer.bytes;
      }
      const std::int64_t k = found.chunks - persist;
      EXPECT_EQ(gpu, persist * found.elements * (2 + 12 / d));
      EXPECT_EQ(host, k * found.elements * 14 / d);
      EXPECT_EQ(slots, std::min<std::int64_t>(3, k) * found.elements * 2);
    }
  }
}

// With several micro-batches gradients get chunks of their own.
TEST(ChunkVolumesTest, AccumulationChunks) {
  const Model model = HalfPrecision("tiny-llama");
  const Found found = Lowered(model, ChunkPlanOf(1, 2, 1, 3), 1);
  const TaskGraph graph = LowerOrDie(model, Resolve(model, ChunkPlanOf(1, 2, 1, 3), 1), true);
  std::int64_t gpu = 0, host = 0;
  for (const Buffer& buffer : graph.buffers) {
    if (buffer.role == Role::kGradient) (buffer.pool == Pool::kGpu ? gpu : host) += buffer.bytes;
  }
  EXPECT_EQ(gpu, (1 + 2) * found.elements * 2);  // The persistent one's, and two to be sent.
  EXPECT_EQ(host, (found.chunks - 1 + 2) * found.elements * 2);  // With two that arrive.
}

TEST(ChunkVolumesTest, TooFewBuffers) {
  const auto error = [](const std::string& name, std::int64_t persist, std::int64_t buffers) {
    const Model model = HalfPrecision(name);
    const auto graph =
        Lower(model, MatrixCluster(), Resolve(model, ChunkPlanOf(1, 1, persist, buffers), 1), {});
    return graph.ok() ? Error{} : graph.error();
  };
  EXPECT_EQ(error("tiny-llama", 0, 3).rule, "");
  EXPECT_EQ(error("tiny-llama", 0, 2).rule, "chunk-buffers");
  EXPECT_NE(error("tiny-llama", 0, 2).message.find("at least 3 buffers"), std::string::npos);
  EXPECT_EQ(error("tiny-gpt", 0, 3).rule, "chunk-buffers");
  EXPECT_NE(error("tiny-gpt", 0, 3).message.find("a fourth buffer"), std::string::npos);
  EXPECT_EQ(error("tiny-gpt", 0, 4).rule, "");
  EXPECT_EQ(error("tiny-gpt", 1, 3).rule, "");
  EXPECT_EQ(error("tiny-llama", 7, 3).rule, "chunk-count");
  EXPECT_EQ(error("tiny-llama", 7, 3).rank, 0);
  EXPECT_NE(error("tiny-llama", 7, 3).message.find("pipeline rank 0, which has the most, has 6"),
            std::string::npos);
  EXPECT_EQ(error("tiny-llama", 6, 1).rule, "");  // None streams.
}

TEST(ChunkVolumesTest, ChunkThatIsTooSmall) {
  const Model model = HalfPrecision("tiny-llama");
  Plan plan = ChunkPlanOf(1, 1, 0, 3);
  plan.set_chunk_bytes(80 << 10);
  const auto graph = Lower(model, MatrixCluster(), Resolve(model, plan, 1), {});
  ASSERT_FALSE(graph.ok());
  EXPECT_EQ(graph.error().rule, "chunk-size");
  EXPECT_EQ(graph.error().rank, 0);
  EXPECT_NE(graph.error().message.find("pipeline rank 0, block 0: "), std::string::npos)
      << graph.error().message;
}

}  // namespace
}  // namespace twinstep
