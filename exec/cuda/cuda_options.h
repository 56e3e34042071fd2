// How to make a CUDA backend; needs no CUDA to be compiled.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/runtime/backend.h"
#include "exec/runtime/processes.h"
#include "sim/graph/fused_pairs.h"
#include "sim/result.h"

namespace twinstep {

namespace cuda {
class OperatorCache;
}

struct CudaOptions {
  int device = 0;  // The first GPU to use.
  int gpus = 0;    // At most so many, from `device` on; 0 = all that the driver shows.
  // Where several train together: a share of the ranks runs here, a GPU each; groups across
  // processes are NCCL's. Null: one process.
  std::shared_ptr<Processes> processes = {};
  // False: NCCL's are all groups of ranks on several GPUs.
  bool peer_memory = true;
  // Gives the same bits in every run and by every plan that only schedules or places differently.
  bool deterministic = false;
  // Which operations one kernel computes together, at most.
  PairRule most_pairs = PairRule::kAll;
  // Records when each task began and ended (Backend::Time), at 0.2 to 2 % of the time; without,
  // all times are zero.
  bool record_times = false;
  // Copies between host and GPU and host tasks are started by a thread of the CPU when all that
  // they wait for is done (late_lanes.h), instead of by streams that wait: those slow other copies.
  // Unset: unless collectives or sends wait for copies, as gathers of chunks do. Measured on two
  // H200: a pipeline's offload 0 to 5 % faster, chunks of two ranks 1 % slower.
  std::optional<bool> late_lanes = {};
  // Each rank must have a GPU of its own, else Prepare is an Error (kNo).
  bool gpu_a_rank = false;
  // Of host tasks, shared by the GPUs; 0 = one for each core, of several processes for each of
  // Processes::cores().
  int host_threads = 0;
  // Arenas and scratch on each GPU must fit this; 0 = what the GPU has.
  std::int64_t memory_limit_bytes = 0;
  // Libraries' handles, and how operators compute each shape, of the backends before that had the
  // same; those of one GPU that share it live one after the other, and all are prepared so. Null:
  // this backend's own.
  std::shared_ptr<cuda::OperatorCache> operators = {};
};

// Which operations one kernel computes. Deterministic, a plan must not change numbers, and what
// follows a product depends on the plan.
inline PairRule PairRuleOf(const CudaOptions& options) {
  const PairRule allowed = options.deterministic ? PairRule::kSameBits : PairRule::kAll;
  return std::min(options.most_pairs, allowed);
}

// A backend on the GPUs of this machine: a rank a GPU, as far as they suffice. An Error (kNo) says
// what is missing: built without CUDA, no driver, no GPU; Prepare's, a library or GPUs' access to
// each other's memory.
Result<std::unique_ptr<Backend>> MakeCudaBackend(const CudaOptions& options);

// For CudaOptions::operators; null where this program was built without CUDA.
std::shared_ptr<cuda::OperatorCache> MakeOperatorCache();

// What of the shapes of the backends that were prepared with it is slower than could be expected,
// and why: a sentence each, the shape named. Of null nothing.
std::vector<std::string> KernelNotes(const cuda::OperatorCache* operators);

}  // namespace twinstep
