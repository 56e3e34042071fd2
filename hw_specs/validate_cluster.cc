#include "hw_specs/validate_cluster.h"

#include <string>

#include "hw_specs/interference_factors.h"
#include "sim/str_cat.h"
#include "sim/textproto/field_rules.h"

namespace twinstep {
namespace {

struct Range {
  const char* field;
  double least, most;
};

// Fields without a default.
constexpr Range kRequired[] = {
    {"nodes", 1, 0x1p20},
    {"node.gpus", 1, 1024},
    {"gpu.memory_bytes", 0x1p20, 0x1p46},
    {"gpu.bf16_flops_per_s", 1e6, 1e20},
    {"gpu.memory_bytes_per_s", 1e6, 1e17},
    {"node.pcie.h2d_bytes_per_s", 1e6, 1e17},
    {"node.pcie.d2h_bytes_per_s", 1e6, 1e17},
    {"node.host.memory_bytes", 0x1p20, 0x1p50},
    {"node.host.dram_bytes_per_s", 1e6, 1e17},
    {"node.host.cores", 1, 1e6},
};

// Fields whose 0 means a default or "none", and otherwise lie in a range.
constexpr Range kOptional[] = {
    {"gpu.runtime_overhead_bytes", 1, 0x1p46},
    {"gpu.fp32_flops_per_s", 1e6, 1e20},
    {"gpu.fp64_flops_per_s", 1e6, 1e20},
    {"gpu.streaming_multiprocessors", 1, 1e6},
    {"gpu.kernel_launch_s", 1e-12, 1},
    {"gpu.gemm_max_efficiency", 1e-6, 1},
    {"gpu.gemm_tile_m", 1, 1e6},
    {"gpu.gemm_tile_n", 1, 1e6},
    {"gpu.gemm_half_k", 1e-6, 1e9},
    {"gpu.memory_bound.max_efficiency", 1e-6, 1},
    {"gpu.memory_bound.half_work", 1e-6, 1e15},
    {"gpu.attention_forward.max_efficiency", 1e-6, 1},
    {"gpu.attention_forward.half_work", 1e-6, 1e15},
    {"gpu.attention_backward.max_efficiency", 1e-6, 1},
    {"gpu.attention_backward.half_work", 1e-6, 1e15},
    {"gpu.gemm_workspace_bytes", 1, 0x1p40},
    {"gpu.attention_half_head_dim", 1e-6, 1e6},
    {"gpu.l2_bytes", 1, 0x1p40},
    {"gpu.sustained_fraction", 1e-3, 1},
    {"node.pcie.duplex_bytes_per_s", 1e6, 1e17},
    {"node.pcie.latency_s", 1e-12, 1},
    {"node.pcie.gpus_per_uplink", 1, 1024},
    {"node.pcie.uplink_bytes_per_s", 1e6, 1e17},
    {"node.pcie.pageable_h2d_bytes_per_s", 1e6, 1e17},
    {"node.pcie.pageable_d2h_bytes_per_s", 1e6, 1e17},
    {"node.nvlink.bytes_per_s", 1e6, 1e17},
    {"node.nvlink.latency_s", 1e-12, 1},
    {"node.nvlink.collective_efficiency", 1e-6, 1},
    {"node.nvlink.p2p_efficiency", 1e-6, 1},
    {"node.nvlink.step_latency_s", 1e-12, 1},
    {"node.nvlink.half_bytes", 1e-6, 1e15},
    {"node.nvlink.collective_pass_bytes_per_s", 1e6, 1e17},
    {"node.nvlink.nvls_efficiency", 1e-6, 1},
    {"node.nvlink.nvls_latency_s", 1e-12, 1},
    {"node.nvlink.nvls_from_bytes", 1, 1e15},
    {"node.nvlink.ll128_efficiency", 1e-6, 1},
    {"node.nvlink.ll_efficiency", 1e-6, 1},
    {"node.host.adam_params_per_s", 1e3, 1e17},
    {"node.host.adam_bytes_per_param", 1, 1e3},
    {"node.host.core_bytes_per_s", 1e6, 1e17},
    {"node.nic.count", 1, 1024},
    {"node.nic.bytes_per_s", 1e6, 1e17},
    {"node.nic.latency_s", 1e-12, 1},
    {"node.nic.collective_efficiency", 1e-6, 1},
    {"node.nic.p2p_efficiency", 1e-6, 1},
    {"node.nic.step_latency_s", 1e-12, 1},
    {"node.nic.half_bytes", 1e-6, 1e15},
    {"node.nic.tree_efficiency", 1e-6, 1},
    {"node.nic.tree_up_to_bytes", 1, 1e15},
    {"node.nic.through_host_bytes_per_s", 1e6, 1e17},
    {"node.workers.threads", 1, 1024},
    {"node.workers.dispatch_s", 1e-12, 1},
    {"node.workers.wake_s", 1e-12, 1},
    {"node.workers.look_s", 1e-12, 1},
    {"node.workers.handoff_s", 1e-12, 1},
    {"gpu_adam_params_per_s", 1e3, 1e17},
    {"compute_jitter", 1e-6, 1},
};

// Worker threads serve the ranks of one process, and slow each other as a profile says.
void CheckWorkers(const Cluster& cluster, FieldErrors* errors) {
  if (cluster.node().workers().threads() == 0) return;
  if (cluster.nodes() > 1) {
    errors->Add("nodes", StrCat(cluster.nodes(), " nodes of worker threads: there may be one"));
  }
  for (const auto& [name, factor] : InterferenceFactors(cluster.gpu().interference())) {
    if (factor > 1) {
      errors->Add("gpu.interference", "has no meaning where node.workers.threads is given");
      return;
    }
  }
}

}  // namespace

Status ValidateCluster(const Cluster& cluster, const TextSource& source) {
  FieldErrors errors(cluster, source);
  errors.CheckEveryNumber();
  for (const Range& range : kRequired) errors.CheckRange(range.field, range.least, range.most);
  for (const Range& range : kOptional) {
    errors.CheckZeroOrRange(range.field, range.least, range.most);
  }
  for (const auto& [name, factor] : InterferenceFactors(cluster.gpu().interference())) {
    errors.CheckZeroOrRange(StrCat("gpu.interference.", name), 1, 100);
  }
  if (cluster.nodes() > 1) {
    if (cluster.node().nic().count() == 0) {
      errors.Add("node.nic.count", StrCat(cluster.nodes(), " nodes need a network"));
    }
    if (cluster.node().nic().bytes_per_s() == 0) {
      errors.Add("node.nic.bytes_per_s", StrCat(cluster.nodes(), " nodes need a network"));
    }
  }
  const std::int64_t uplink_gpus = cluster.node().pcie().gpus_per_uplink();
  if (uplink_gpus > 0 && cluster.node().gpus() % uplink_gpus != 0) {
    errors.Add("node.pcie.gpus_per_uplink", StrCat(uplink_gpus, " does not divide the ",
                                                   cluster.node().gpus(), " GPUs of a node"));
  }
  if (!cluster.base().empty()) {
    errors.Add("base", "builds a file on another one, and cannot be set otherwise");
  }
  CheckWorkers(cluster, &errors);
  const std::int64_t overhead = cluster.gpu().runtime_overhead_bytes();
  if (overhead > 0 && overhead >= cluster.gpu().memory_bytes()) {
    errors.Add(
        "gpu.runtime_overhead_bytes",
        StrCat(overhead, " leaves nothing of gpu.memory_bytes ", cluster.gpu().memory_bytes()));
  }
  return errors.status();
}

Status ValidateCluster(const Cluster& cluster) {
  return ValidateCluster(cluster, TextSource{StrCat("cluster '", cluster.name(), "'"), nullptr});
}

}  // namespace twinstep
