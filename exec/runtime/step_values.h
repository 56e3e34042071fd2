// What a task's arithmetic depends on besides its operands and its shape: values of the training
// step, and where the task's data lie in the whole batch and model.
#pragma once

#include <cstdint>

namespace twinstep {

// Values of one training step that are no part of the graph.
struct StepValues {
  std::int64_t step = 0;  // From 0; Adam's bias correction uses step + 1.
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0;  // AdamW, decoupled.
  double clip_norm = 0;
  double hidden_dropout = 0, attention_dropout = 0;
  std::uint64_t seed = 0;  // Of dropout.
};

// Where the task's rank and data lie in the whole: dropout counters and positions are global.
struct TaskPlace {
  std::int64_t tp = 0, tensor_parallel = 1;
  std::int64_t cp = 0, context_parallel = 1;
  std::int64_t micro_batch_size = 1;  // b
  std::int64_t sequence_length = 1;   // s, of the whole sequence
  bool sequence_parallel = false;
  std::int64_t first_sample = 0;   // Of the micro-batch, in the global batch.
  std::int64_t block = 0;          // Layer; model layers + 1 for the embedding.
  std::int64_t position_rows = 0;  // Of the learned position table, if there is one.
};

}  // namespace twinstep
