#include "exec/profile/gpu_profile.h"

#include <algorithm>
#include <vector>

#include "exec/cuda/cuda_options.h"
#include "exec/profile/build_profile.h"
#include "exec/profile/gpu_interference.h"
#include "exec/profile/gpu_samples.h"
#include "exec/profile/machine.h"
#include "exec/profile/measure_gpu.h"
#include "exec/profile/memory_profile.h"
#include "exec/profile/statistics.h"
#include "sim/cost/link_map.h"
#include "sim/cost/profile_pairs.h"
#include "sim/graph/op.h"

namespace twinstep {
namespace {

// A member's bytes over its link in the best of what was measured, and the shortest time.
void DescribePeers(const Profile& profile, NvLink* link) {
  double rate = 0, latency_s = 0;
  for (const CollectiveSample& sample : profile.collectives()) {
    const double members = static_cast<double>(sample.group_size());
    const double wire_bytes = static_cast<double>(sample.bytes()) *
                              (sample.op() == Name(OpCode::kSend) ? 1 : (members - 1) / members);
    rate = std::max(rate, wire_bytes / sample.median_s());
    latency_s = latency_s > 0 ? std::min(latency_s, sample.median_s()) : sample.median_s();
  }
  link->set_bytes_per_s(RoundMeasured(rate));
  link->set_latency_s(RoundMeasured(latency_s));
}

// What was seen to pass through the host's memory: Adam reads gradient, master and moments, writes
// the states and the parameter. Triad counts no write-allocate, and Adam's stores need none.
double HostTrafficBytesPerSecond(const GpuSamples& samples) {
  double most = kAdamBytesPerParam * samples.host_adam_params_per_s[3] + samples.duplex_bytes_per_s;
  for (const HostCopyTimes& times : samples.host_copies) {
    const auto rate = [&](std::int64_t gpus, double seconds) {
      return seconds > 0 ? static_cast<double>(gpus * times.bytes) / seconds : 0;
    };
    most = std::max(most, rate(times.up, times.h2d_s) + rate(times.down, times.d2h_s));
  }
  return most;
}

void DescribeHostCopies(const GpuSamples& samples, Profile* profile) {
  for (const HostCopyTimes& times : samples.host_copies) {
    HostCopySample* const sample = profile->add_host_copies();
    sample->set_up(times.up);
    sample->set_down(times.down);
    sample->set_bytes(times.bytes);
    sample->set_h2d_s(RoundMeasured(times.h2d_s));
    sample->set_d2h_s(RoundMeasured(times.d2h_s));
  }
}

Cluster GpuCluster(const Cluster& described, const Profile& profile, const GpuSamples& samples,
                   int host_threads) {
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
  node->set_gpus(samples.gpus);
  Pcie* const pcie = node->mutable_pcie();
  pcie->set_h2d_bytes_per_s(RoundMeasured(samples.h2d_bytes_per_s));
  pcie->set_d2h_bytes_per_s(RoundMeasured(samples.d2h_bytes_per_s));
  pcie->set_duplex_bytes_per_s(RoundMeasured(samples.duplex_bytes_per_s));
  pcie->set_latency_s(RoundMeasured(samples.copy_latency_s));
  if (profile.collectives_size() > 0) DescribePeers(profile, node->mutable_nvlink());
  Host* const host = node->mutable_host();
  host->set_memory_bytes(machine.memory_bytes);
  host->set_dram_bytes_per_s(RoundMeasured(
      std::max(MeasureDramBytesPerSecond(host_threads), HostTrafficBytesPerSecond(samples))));
  host->set_cores(machine.cores);
  return cluster;
}

}  // namespace

MakeBackend MakeTimedCudaBackends() {
  return [operators = MakeOperatorCache()](const ProfileInput& input, PairRule most_pairs,
                                           int first_gpu) {
    return MakeCudaBackend({.device = first_gpu,
                            .deterministic = input.deterministic,
                            .most_pairs = most_pairs,
                            .record_times = true,
                            .gpu_a_rank = true,
                            .host_threads = input.threads,
                            .operators = operators});
  };
}

Result<Profile> MeasureGpuProfile(const ProfileInput& input, const MakeBackend& make_backend,
                                  const ProbeSizes& sizes, Progress* progress, PhaseTimes* times) {
  const PairRule pairs = PairRuleOf(CudaOptions{.deterministic = input.deterministic});
  std::vector<GpuPlan> plans;
  for (const PlanToMeasure& plan : input.plans) plans.push_back({&plan.cluster, &plan.plan});
  const Result<GpuSamples> measured = MeasureGpuPlans(
      input.model, plans,
      {.make_backend = [&](PairRule most,
                           int first_gpu) { return make_backend(input, most, first_gpu); },
       .pairs = pairs,
       .seconds = input.seconds,
       .warm_up_s = sizes.warm_up_s,
       .sizes = sizes,
       .data = input.data,
       .host_memory_bytes = ReadMachine().memory_bytes,
       .begin_phase = [progress](const std::string& what) { progress->Step(what); },
       .phase_times = times});
  if (!measured.ok()) return measured.error();
  const GpuSamples& samples = measured.value();
  progress->Step("host memory");
  times->Begin("host memory");
  Profile profile = BuildEntries(samples.primitives);
  profile.set_fused_pairs(InProfile(pairs));
  DescribeHostCopies(samples, &profile);
  DescribeMemory(samples.layers, samples.scratch_bytes, &profile);
  profile.set_dispatch_s(RoundMeasured(samples.dispatch_s));
  profile.set_lane_handoff_s(RoundMeasured(Summarize(samples.lane_handoffs_s).median));
  profile.set_meeting_s(RoundMeasured(Summarize(samples.meetings_s).median));
  profile.set_host_adam_params_per_s(RoundMeasured(samples.host_adam_params_per_s[0]));
  profile.set_host_adam_params_per_s_beside_h2d(RoundMeasured(samples.host_adam_params_per_s[1]));
  profile.set_host_adam_params_per_s_beside_d2h(RoundMeasured(samples.host_adam_params_per_s[2]));
  profile.set_host_adam_params_per_s_beside_copies(
      RoundMeasured(samples.host_adam_params_per_s[3]));
  *profile.mutable_interference() = InterferenceOf(profile, samples);
  if (samples.clocks.boost_s > 0) {
    profile.mutable_clocks()->set_boost_s(RoundMeasured(samples.clocks.boost_s));
    profile.mutable_clocks()->set_boost_per_rest_s(RoundMeasured(samples.clocks.boost_per_rest_s));
  }
  profile.set_runtime_overhead_bytes(samples.overhead_bytes);
  *profile.mutable_measured_on() =
      GpuCluster(input.plans.front().cluster, profile, samples, input.threads);
  times->End();
  return profile;
}

}  // namespace twinstep
