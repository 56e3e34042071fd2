// Iteration time of chunked training in closed form: equations 2-7 of ProTrain, appendix A
// (arXiv 2406.08334v2). One micro-batch; compute, copies and collectives each on a
// stream of its own and none slowed by the others.
//
//   ProTrainPlan plan{.chunks = chunks, .persistent_chunks = 3, .buffers = 46};
//   const ProTrainTime time = EstimateTime(plan, rates).value();
//   time.total_s();
//
//   2  T_iter = T_fwd + max(T_bwd + T_gpu_opt, T_cpu_opt)
//   3  T_fwd  = sum over i = 1 .. N+1 of max(Tcomp_fwd(i-1), Tpre_fwd(i))
//   4  Tpre_fwd(i) = 0 for persistent chunks, else Tgather(i) + Tupload(i)
//   5  T_bwd  = sum over i = 1 .. N+1 of max(Tcomp_bwd(i) + Trecomp(i), Tpre_bwd(i-1),
//                                            Treduce_off(i+1))
//   6  Treduce_off(i) = Treduce(i) for persistent chunks, else Treduce(i) + Toffload(i)
//   7  Tpre_bwd(i) = 0 for persistent chunks and for the last n_buffer, which the forward left in
//                    their buffers, else Tgather(i) + Tupload(i)
//
// The second line of eq 5 and the condition of eq 7 are read as the text around them asks for. As
// the sum of eq 5 is printed it never counts the reduction of the first chunk, which ends the
// backward.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/result.h"

namespace twinstep {

// A chunk of one rank, in execution order.
struct ProTrainChunk {
  double bytes = 0;        // Of the whole chunk's parameters; its gradients take the same.
  double parameters = 0;   // Of the whole chunk, padding included.
  double forward_s = 0;    // Tcomp_fwd.
  double backward_s = 0;   // Tcomp_bwd, without recomputation.
  double recompute_s = 0;  // Trecomp: forward time of its checkpointed blocks.
  // Activations of a block swap out (forward) or in (backward) while this chunk is prefetched: at
  // the bandwidth that they leave.
  bool forward_beside_swap = false, backward_beside_swap = false;
};

// What one rank gets when every rank does the same.
struct ProTrainRates {
  std::int64_t ranks = 1;          // That a chunk is sharded over; one has no collectives.
  double gather_bytes_per_s = 0;   // Bytes of the whole chunk over the time of its all-gather.
  double reduce_bytes_per_s = 0;   // Of its reduce-scatter.
  double upload_bytes_per_s = 0;   // Bytes of the rank's shard, host to GPU.
  double offload_bytes_per_s = 0;  // GPU to host.
  double upload_beside_swap_bytes_per_s = 0;  // 0 = upload_bytes_per_s.
  double collective_latency_s = 0, copy_latency_s = 0;
  double gpu_adam_params_per_s = 0;  // Parameters of the rank's shard.
  double cpu_adam_params_per_s = 0;  // Likewise: the node's rate over its ranks.
};

struct ProTrainPlan {
  std::vector<ProTrainChunk> chunks;
  std::int64_t persistent_chunks = 0;  // n_persist, the first ones.
  std::int64_t buffers = 0;            // n_buffer.
  // CPU Adam runs beside the backward, as the paper has it; else after it: eq 2 is then the sum.
  bool cpu_optimizer_overlaps = true;
};

// The terms of one chunk.
struct ProTrainChunkTime {
  double prefetch_forward_s = 0;   // Tpre_fwd.
  double prefetch_backward_s = 0;  // Tpre_bwd.
  double reduce_offload_s = 0;     // Treduce_off.
};

struct ProTrainTime {
  double forward_s = 0;        // T_fwd.
  double backward_s = 0;       // T_bwd.
  double gpu_optimizer_s = 0;  // T_gpu_opt.
  double cpu_optimizer_s = 0;  // T_cpu_opt.
  // What of T_fwd and T_bwd is computation; the rest waits for chunks.
  double forward_compute_s = 0, backward_compute_s = 0, recompute_s = 0;
  std::vector<ProTrainChunkTime> chunks;
  bool cpu_optimizer_overlaps = true;

  double forward_exposed_s() const { return forward_s - forward_compute_s; }
  double backward_exposed_s() const { return backward_s - backward_compute_s - recompute_s; }
  double total_s() const;  // T_iter, eq 2.
};

// Error (kBadInput): a rate that the plan needs is not positive; counts that are negative or, with
// n_persist, more than there are chunks.
Result<ProTrainTime> EstimateTime(const ProTrainPlan& plan, const ProTrainRates& rates);

// T_iter of many plans of the same chunks, each in constant time: eqs 3 and 5 are differences of
// running sums. For a search.
//
//   const ProTrainTimes times = ProTrainTimes::Of(plan, rates).value();  // Whatever its counts.
//   times.total_s(n_persist, n_buffer);  // EstimateTime(...).total_s() but for rounding.
class ProTrainTimes {
 public:
  // Error: as EstimateTime, for plans with and without persistent chunks.
  static Result<ProTrainTimes> Of(const ProTrainPlan& plan, const ProTrainRates& rates);

  // 0 <= persistent <= chunks, buffers >= 0.
  double total_s(std::int64_t persistent, std::int64_t buffers) const;

 private:
  using Sums = std::vector<double>;  // [i]: of the slots or chunks before i.

  bool cpu_optimizer_overlaps_ = true;
  std::size_t count_ = 0;
  Sums computes_, fetches_;                        // Slots of the forward, by what they wait for.
  Sums keeps_, reduces_offloads_, fetches_again_;  // Slots of the backward.
  Sums gpu_adam_, cpu_adam_;                       // Chunks.
};

}  // namespace twinstep
