// ProTrain's searched configurations (v2, table 4) beside what the search finds.
//
//   for (const TableFourRow& row : TableFour()) {
//     const RowResult result = Search(row, AdamRate::kOfCluster);
//     result.published_s / result.best_s;
//   }
//
// The paper trains Hugging Face's GPT-2 of its time: eager attention, whose scores are stored. Its
// batches are of all GPUs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/plan/resolved_plan.h"
#include "sim/result.h"

namespace twinstep {

struct TableFourRow {
  std::string id, model, cluster;
  std::int64_t batch = 0;
  std::int64_t checkpointed = 0, swapped = 0, chunks = 0, persistent = 0, buffers = 0;
};
const std::vector<TableFourRow>& TableFour();

struct RowResult {
  double published_s = 0;            // The paper's plan, replayed;
  std::int64_t published_bytes = 0;  // its GPU memory.
  std::optional<Error> lacks;        // Where it does not fit.
  double best_s = 0;
  ResolvedPlan best;
  std::int64_t best_bytes = 0;
};

// How fast the host updates parameters, which the paper does not say.
enum class AdamRate {
  kOfCluster,   // As the cluster's file says;
  kOneProcess,  // as one process on a DGX-2 (M5 in hw_specs/SOURCES.md), by DRAM bandwidth;
  kBoundRanks,  // as the bound ranks of a node of Polaris (M11), likewise;
  kDram,        // as DRAM moves Adam's bytes.
};

// The node's, parameters a second.
double ParamsPerSecond(const std::string& cluster, AdamRate rate);

RowResult Search(const TableFourRow& row, AdamRate rate);

// Billions of parameters of the largest GPT-2 of hidden size 8192 (table 2).
double LargestModel(const std::string& cluster, std::int64_t gpus);

}  // namespace twinstep
