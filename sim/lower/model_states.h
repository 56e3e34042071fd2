// Parameters, gradients and optimizer states of one rank, as its lowering uses them: the buffers a
// block's tasks read and write, and the tasks around them that gather, reduce and update.
//
//   std::unique_ptr<ModelStates> states = MakeModelStates(context, writer);
//   after = states->Begin(uses);             // Of the whole iteration, in order.
//   for (const StateUse& use : uses) {
//     states->BindNext(&env);                // Then the block's tasks.
//     if (use.backward) states->AfterBackward(use.unit, use.micro_batch, last);
//   }
//   states->FinishIteration(last_compute);
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "sim/lower/graph_writer.h"
#include "sim/lower/rank_context.h"

namespace twinstep {

// Units of a rank: its layers in the order of its stages, then embedding and head, where it has
// them.
struct StateUnits {
  explicit StateUnits(const RankContext& context)
      : layers(static_cast<std::size_t>(context.plan.v * context.plan.l)),
        embedding(layers),
        head(layers + (context.first_stage_here() ? 1 : 0)),
        count(head + (context.last_stage_here() ? 1 : 0)) {}
  std::size_t layers, embedding, head, count;
};

// The forward or backward of a unit for one micro-batch.
struct StateUse {
  std::size_t unit = 0;
  bool backward = false;
  std::int64_t micro_batch = 0;
};

class ModelStates {
 public:
  ModelStates() = default;
  virtual ~ModelStates() = default;
  ModelStates(const ModelStates&) = delete;
  ModelStates& operator=(const ModelStates&) = delete;

  // What the iteration starts with, and what the first computation waits for.
  virtual std::vector<TaskId> Begin(std::vector<StateUse> uses) = 0;
  // Binds parameters and, in a backward, gradients of the next use's unit, and makes the ones after
  // it come.
  virtual void BindNext(std::vector<Operand>* env) = 0;
  // In the head's use with tied embeddings on one stage: the embedding's table and its gradient.
  virtual void BindTiedEmbedding(bool backward, std::vector<Operand>* env) = 0;
  // Whether gradients of this micro-batch overwrite instead of adding up.
  virtual bool WritesGradients(std::size_t unit, std::int64_t micro_batch) const = 0;
  // Of tasks that compute with the unit.
  virtual std::uint16_t ChunkTag(std::size_t unit) const = 0;
  // After the unit's backward of one micro-batch (`last`: of the iteration).
  virtual void AfterBackward(std::size_t unit, std::int64_t micro_batch, bool last) = 0;
  // Gradient reduction that is still due, clipping, optimizer.
  virtual void FinishIteration(TaskId last_compute) = 0;
};

// Chunks where the plan has them, else what its ZeRO stage says.
std::unique_ptr<ModelStates> MakeModelStates(const RankContext& context, GraphWriter* writer);

}  // namespace twinstep
