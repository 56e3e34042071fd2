#include "sim/cost/measured_gpu.h"

#include <optional>
#include <string>
#include <utility>

#include "hw_specs/find_cluster.h"
#include "hw_specs/gpu_name.h"
#include "sim/cost/efficiency.h"

namespace twinstep {
namespace {

// The first of hw_specs with that GPU.
std::optional<Cluster> ClusterOfGpu(const std::string& gpu) {
  for (const std::string& name : ListClusters()) {
    Result<Cluster> cluster = FindCluster(name);
    if (cluster.ok() && IsSameGpu(cluster.value().gpu().name(), gpu)) {
      return std::move(cluster).value();
    }
  }
  return std::nullopt;
}

void DescribeAs(const Cluster& described, Cluster* measured) {
  const std::string name = measured->gpu().name();
  *measured->mutable_gpu() = described.gpu();
  measured->mutable_gpu()->set_name(name);
  measured->set_gpu_adam_params_per_s(described.gpu_adam_params_per_s());
}

}  // namespace

void DescribeByDataSheet(Cluster* measured) {
  const double rate = measured->gpu().bf16_flops_per_s();
  const std::optional<Cluster> known = ClusterOfGpu(measured->gpu().name());
  if (!known) return;
  Gpu* const gpu = measured->mutable_gpu();
  const double peak = known->gpu().bf16_flops_per_s();
  if (rate > peak) return;  // Then this is not what the data sheet is of.
  gpu->set_bf16_flops_per_s(peak);
  gpu->set_gemm_max_efficiency(OneIfUnset(gpu->gemm_max_efficiency()) * rate / peak);
  for (EfficiencyCurve* curve :
       {gpu->mutable_attention_forward(), gpu->mutable_attention_backward()}) {
    curve->set_max_efficiency(OneIfUnset(curve->max_efficiency()) * rate / peak);
  }
}

void DescribeInTermsOf(const Cluster& cluster, Cluster* measured) {
  if (IsSameGpu(cluster.gpu().name(), measured->gpu().name())) {
    DescribeAs(cluster, measured);
    measured->mutable_gpu()->set_name(cluster.gpu().name());
    return;
  }
  if (const std::optional<Cluster> known = ClusterOfGpu(measured->gpu().name())) {
    return DescribeAs(*known, measured);
  }
  const Gpu was = measured->gpu(), &its = cluster.gpu();
  const double products =
      was.bf16_flops_per_s() / (its.bf16_flops_per_s() * OneIfUnset(its.gemm_max_efficiency()) *
                                OneIfUnset(its.sustained_fraction()));
  const double copies =
      was.memory_bytes_per_s() /
      (its.memory_bytes_per_s() * OneIfUnset(its.memory_bound().max_efficiency()));
  DescribeAs(cluster, measured);
  Gpu* const gpu = measured->mutable_gpu();
  gpu->set_bf16_flops_per_s(its.bf16_flops_per_s() * products);
  gpu->set_fp32_flops_per_s(its.fp32_flops_per_s() * products);
  gpu->set_fp64_flops_per_s(its.fp64_flops_per_s() * products);
  gpu->set_memory_bytes_per_s(its.memory_bytes_per_s() * copies);
  measured->set_gpu_adam_params_per_s(cluster.gpu_adam_params_per_s() * copies);
}

}  // namespace twinstep
