#include "exec/profile/gpu_profile.h"

#include <algorithm>

#include "exec/cuda/cuda_options.h"
#include "exec/profile/build_profile.h"
#include "exec/profile/machine.h"
#include "exec/profile/measure_gpu.h"
#include "exec/profile/memory_profile.h"
#include "exec/profile/statistics.h"

namespace twinstep {
namespace {

// Operators that run beside copies take as much longer as the factor says, or a share of it: the
// factor is that of the operator that suffers most.
void SetSlowdownsBesideCopies(const Profile& profile, Interference* interference) {
  double both = 1, d2h = 1;
  for (const OperatorSample& sample : profile.operators()) {
    if (sample.beside_copies_s() <= both * sample.median_s()) continue;
    both = sample.beside_copies_s() / sample.median_s();
    d2h = std::clamp(sample.beside_d2h_s() / sample.median_s(), 1.0, both);
  }
  interference->set_compute_beside_copy(RoundMeasured(both));
  interference->set_compute_beside_d2h(RoundMeasured(d2h));
}

// What was seen to pass through the host's memory: Adam reads gradient, master and moments, writes
// the states and the parameter. Triad counts no write-allocate, and Adam's stores need none.
double AdamAndCopiesBytesPerSecond(const GpuSamples& samples) {
  constexpr double kAdamBytes = 28;
  return kAdamBytes * samples.host_adam_params_per_s[3] + samples.duplex_bytes_per_s;
}

Cluster GpuCluster(const Cluster& described, const GpuSamples& samples, int host_threads) {
  Cluster cluster = described;
  const Machine machine = ReadMachine();
  cluster.set_name("measured");
  cluster.set_description(DescribeWithGpu(machine, described.gpu().name()));
  cluster.set_nodes(1);
  Gpu* const gpu = cluster.mutable_gpu();
  gpu->set_bf16_flops_per_s(RoundMeasured(samples.bf16_flops_per_s));
  gpu->set_memory_bytes_per_s(RoundMeasured(samples.memory_bytes_per_s));
  gpu->set_kernel_launch_s(RoundMeasured(samples.dispatch_s));
  gpu->set_runtime_overhead_bytes(samples.overhead_bytes);
  Node* const node = cluster.mutable_node();
  node->set_gpus(1);
  Pcie* const pcie = node->mutable_pcie();
  pcie->set_h2d_bytes_per_s(RoundMeasured(samples.h2d_bytes_per_s));
  pcie->set_d2h_bytes_per_s(RoundMeasured(samples.d2h_bytes_per_s));
  pcie->set_duplex_bytes_per_s(RoundMeasured(samples.duplex_bytes_per_s));
  pcie->set_latency_s(RoundMeasured(samples.copy_latency_s));
  Host* const host = node->mutable_host();
  host->set_memory_bytes(machine.memory_bytes);
  host->set_dram_bytes_per_s(RoundMeasured(
      std::max(MeasureRates(host_threads).dram_bytes_per_s, AdamAndCopiesBytesPerSecond(samples))));
  host->set_cores(machine.cores);
  return cluster;
}

}  // namespace

Result<std::unique_ptr<Backend>> MakeTimedCudaBackend(const ProfileInput& input) {
  return MakeCudaBackend(
      {.deterministic = input.deterministic, .record_times = true, .host_threads = input.threads});
}

std::size_t StepsOfGpuMeasurement(const ProfileInput& input) {
  return input.plans.size() * kGpuPhases + 1;
}

Result<Profile> MeasureGpuProfile(const ProfileInput& input, const MakeBackend& make_backend,
                                  const ProbeSizes& sizes, Progress* progress) {
  GpuSamples samples;
  for (const PlanToMeasure& plan : input.plans) {
    const GpuMeasureOptions options{
        .make_backend = [&] { return make_backend(input); },
        .seconds = input.seconds / static_cast<double>(input.plans.size()),
        .warm_up_s = samples.primitives.times.empty() ? sizes.warm_up_s : sizes.warm_up_s / 2,
        .sizes = sizes,
        .data = input.data,
        .begin_phase = [progress](const std::string& what) { progress->Step(what); }};
    const Status done = MeasureGpuPlan(input.model, plan.cluster, plan.plan, options, &samples);
    if (!done.ok()) return done.error();
  }
  progress->Step("host memory");
  Profile profile = BuildEntries(samples.primitives);
  DescribeMemory(samples.layers, samples.scratch_bytes, &profile);
  profile.set_dispatch_s(RoundMeasured(samples.dispatch_s));
  profile.set_host_adam_params_per_s(RoundMeasured(samples.host_adam_params_per_s[0]));
  profile.set_host_adam_params_per_s_beside_h2d(RoundMeasured(samples.host_adam_params_per_s[1]));
  profile.set_host_adam_params_per_s_beside_d2h(RoundMeasured(samples.host_adam_params_per_s[2]));
  profile.set_host_adam_params_per_s_beside_copies(
      RoundMeasured(samples.host_adam_params_per_s[3]));
  Interference* const interference = profile.mutable_interference();
  SetSlowdownsBesideCopies(profile, interference);
  interference->set_copy_beside_compute(RoundMeasured(samples.copy_beside_compute));
  interference->set_h2d_beside_host(RoundMeasured(samples.h2d_beside_host));
  interference->set_d2h_beside_host(RoundMeasured(samples.d2h_beside_host));
  profile.set_runtime_overhead_bytes(samples.overhead_bytes);
  *profile.mutable_measured_on() = GpuCluster(input.plans.front().cluster, samples, input.threads);
  return profile;
}

}  // namespace twinstep
