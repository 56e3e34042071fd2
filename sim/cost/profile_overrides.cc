#include "sim/cost/profile_overrides.h"

#include <algorithm>
#include <cstdint>

#include "sim/cost/efficiency.h"
#include "sim/cost/host_copies.h"

namespace twinstep {
namespace {

// Both ways, copies were measured beside computation while all GPUs copied, one way likewise. What
// they lose both ways beyond that is no matter of computation, but of GPUs that share the host.
// Where the profile has no samples of that, of all of them alike.
double CopiesSlowdown(const Profile& profile) {
  if (!profile.host_copies().empty()) return 0;
  const Interference& x = profile.interference();
  if (profile.measured_on().node().gpus() < 2) return 0;
  if (!(x.h2d_beside_compute() > 0) || !(x.d2h_beside_compute() > 0)) return 0;
  return x.copy_beside_compute() / std::max(x.h2d_beside_compute(), x.d2h_beside_compute());
}

// Both directions of one GPU at once, which need not take the same time, from the largest copies
// that were measured so; 0 = none were.
double DuplexRate(const Profile& profile) {
  std::int64_t largest = 0;
  for (const CopySample& copy : profile.copies()) {
    if (copy.both_ways_s() > 0) largest = std::max(largest, copy.bytes());
  }
  double h2d = 0, d2h = 0;
  for (const CopySample& copy : profile.copies()) {
    if (!(copy.both_ways_s() > 0) || copy.bytes() != largest) continue;
    (copy.direction() == CopySample::H2D ? h2d : d2h) =
        static_cast<double>(largest) / copy.both_ways_s();
  }
  return h2d > 0 && d2h > 0 ? h2d + d2h : 2 * std::max(h2d, d2h);
}

// What copies of all GPUs lose to each other beside computation as without it.
void TakeHostCopiesOut(const Profile& profile, Interference* factors) {
  if (profile.host_copies().empty() || !profile.has_interference()) return;
  const HostCopySlowdowns slowdowns = SlowdownsOf(profile);
  const auto less = [](double factor, double slowdown) {
    return factor > 0 ? std::max(1.0, factor / slowdown) : factor;
  };
  factors->set_h2d_beside_compute(less(factors->h2d_beside_compute(), slowdowns.h2d));
  factors->set_d2h_beside_compute(less(factors->d2h_beside_compute(), slowdowns.d2h));
  factors->set_copy_beside_compute(less(factors->copy_beside_compute(), slowdowns.both));
}

}  // namespace

Interference FactorsOf(const Cluster& cluster, const Profile* profile) {
  Interference factors = profile != nullptr && profile->has_interference()
                             ? profile->interference()
                             : cluster.gpu().interference();
  factors.set_compute_beside_copy(OneIfUnset(factors.compute_beside_copy()));
  factors.set_compute_beside_collective(OneIfUnset(factors.compute_beside_collective()));
  factors.set_copy_beside_compute(OneIfUnset(factors.copy_beside_compute()));
  if (const double slowdown = profile != nullptr ? CopiesSlowdown(*profile) : 0; slowdown > 1) {
    factors.set_copy_beside_compute(factors.copy_beside_compute() / slowdown);
  }
  if (profile != nullptr) TakeHostCopiesOut(*profile, &factors);
  factors.set_collective_beside_compute(OneIfUnset(factors.collective_beside_compute()));
  factors.set_h2d_beside_host(OneIfUnset(factors.h2d_beside_host()));
  factors.set_d2h_beside_host(OneIfUnset(factors.d2h_beside_host()));
  // The others are 0 where these stand for them (sim/engine/interference.h).
  return factors;
}

WorkerPool WorkersOf(const Cluster& cluster, const Profile* profile) {
  const Workers& workers = cluster.node().workers();
  if (workers.threads() <= 0) return {};
  double dispatch_s = workers.dispatch_s();
  const double wake_s = workers.wake_s(), handoff_s = workers.handoff_s();
  if (profile != nullptr && profile->dispatch_s() > 0) dispatch_s = profile->dispatch_s();
  return {.threads = static_cast<std::uint32_t>(workers.threads()),
          .dispatch_ps = ToPicoseconds(dispatch_s),
          .wake_ps = ToPicoseconds(wake_s > 0 ? wake_s : dispatch_s),
          .look_ps = ToPicoseconds(workers.look_s()),
          .handoff_ps = ToPicoseconds(handoff_s > 0 ? handoff_s : dispatch_s)};
}

LinkOverrides OverridesOf(const Profile* profile) {
  LinkOverrides overrides;
  if (profile == nullptr) return overrides;
  overrides.host_adam_params_per_s = profile->host_adam_params_per_s();
  overrides.host_adam_params_per_s_beside_copies = profile->host_adam_params_per_s_beside_copies();
  overrides.host_adam_params_per_s_beside_h2d = profile->host_adam_params_per_s_beside_h2d();
  overrides.host_adam_params_per_s_beside_d2h = profile->host_adam_params_per_s_beside_d2h();
  overrides.dram_bytes_per_s = profile->measured_on().node().host().dram_bytes_per_s();
  overrides.copying_gpus =
      static_cast<double>(std::max<std::int64_t>(1, profile->measured_on().node().gpus()));
  overrides.copies_slowdown = CopiesSlowdown(*profile);
  overrides.duplex_bytes_per_s = DuplexRate(*profile);
  return overrides;
}

Cluster WithProfile(const Cluster& cluster, const Profile* profile) {
  Cluster result = cluster;
  if (profile != nullptr && profile->gpu_adam_params_per_s() > 0) {
    result.set_gpu_adam_params_per_s(profile->gpu_adam_params_per_s());
  }
  return result;
}

}  // namespace twinstep
