// ProTrain's plans of GPT-2 on its two servers, simulated: for its ablations and for the closed
// form beside the replay.
//
//   ChunkRun run{.batch = 20, .persistent = 6, .buffers = 3, .swapped = 16, .checkpointed = 32};
//   const Report report = Simulate(run);
//   report.results->iteration_s;
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/plan/plan.pb.h"
#include "sim/report/report.h"

namespace twinstep {

struct ChunkRun {
  std::string model = "gpt2-10b", cluster = "4x3090";
  std::int64_t gpus = 4;
  std::int64_t batch = 1;  // Sequences of 1024 tokens a GPU, one micro-batch.
  std::int64_t persistent = 0, buffers = 3;
  std::int64_t swapped = 0, checkpointed = 0;
  bool overlap = true;       // Of CPU Adam and backward.
  bool interleaved = true;   // Else the swapped blocks come first, side by side.
  bool interference = true;  // Else computation does not suffer from copies and collectives.
  std::string preset = {};   // Instead of chunks and blocks.
  std::string framework = {};
};

// With the closed form. The report is of an infeasible plan where it does not fit.
Report Simulate(const ChunkRun& run);

// Whether it can run, on GPUs of the cluster's size.
bool Fits(const Report& report);

// The fastest plan for a batch, over a grid of chunks and blocks; with every buffer and persistent
// chunk the GPUs have room for.
ChunkRun FastestPlan(const ChunkRun& run);

// One of ProTrain's parts left out. Without persistent chunks their memory goes to
// buffers.
ChunkRun WithoutOverlap(ChunkRun run);
ChunkRun WithoutInterleaving(ChunkRun run);
ChunkRun WithoutPersistentChunks(ChunkRun run);

// The fastest plan of a batch, and how many times slower it is without each part.
struct Ablation {
  ChunkRun best;
  double without_overlap = 0;
  double without_interleaving = 0;  // 0: nothing is swapped.
  double without_persistent_chunks = 0;
};
// GPT-2 10B on 4x RTX 3090, from 2 sequences a GPU to as many as fit.
std::vector<Ablation> Ablations();

// Where closed form and replay are compared, and why they differ there.
struct ClosedFormCase {
  std::string what;
  ChunkRun run;
  bool assumptions_hold = false;
  double most = 0.03;       // What the closed form may say too much.
  std::string reason = {};  // Why they do not.
};
std::vector<ClosedFormCase> ClosedFormCases();

// Closed form over replay, less 1.
double TimeDeviation(const Report& report);
double MemoryDeviation(const Report& report);

}  // namespace twinstep
