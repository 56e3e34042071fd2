#include "exec/profile/gpu_interference.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "exec/profile/statistics.h"
#include "sim/cost/host_copies.h"
#include "sim/cost/profile_pairs.h"

namespace twinstep {
namespace {

double Ratio(double seconds, double over_s) {
  return seconds > 0 && over_s > 0 ? RoundMeasured(std::max(1.0, seconds / over_s)) : 0;
}

// What operators suffer each says itself; the factors, for others, are beside copies those of the
// operator that suffers most, beside collectives of the one in the middle: some of those times hold
// what was waited for.
void SetSlowdownsOfCompute(const Profile& profile, Interference* interference) {
  double both = 1, h2d = 1, d2h = 1;
  std::vector<double> collective;
  for (const OperatorSample& sample : profile.operators()) {
    if (IsLaunchedWithPartner(FusionOf(sample))) continue;  // No kernel, no slowdown.
    const double alone_s = sample.median_s();
    if (sample.beside_collective_s() > 0) {
      collective.push_back(sample.beside_collective_s() / alone_s);
    }
    if (sample.beside_copies_s() <= both * alone_s) continue;
    both = sample.beside_copies_s() / alone_s;
    h2d = std::clamp(sample.beside_h2d_s() / alone_s, 1.0, both);
    d2h = std::clamp(sample.beside_d2h_s() / alone_s, 1.0, both);
  }
  interference->set_compute_beside_copy(RoundMeasured(both));
  interference->set_compute_beside_h2d(RoundMeasured(h2d));
  interference->set_compute_beside_d2h(RoundMeasured(d2h));
  if (const double middle = Summarize(std::move(collective)).median; middle > 1) {
    interference->set_compute_beside_collective(RoundMeasured(middle));
  }
}

void SetSlowdownsOfMovements(const Profile& profile, const GpuSamples& samples, Interference* x) {
  // All GPUs are to copy (hw_specs/cluster.proto). Where one did, what they take from each other
  // comes on top of it.
  const HostCopySlowdowns of_all = SlowdownsOf(profile);
  const auto beside_compute = [&samples](const GpuSamples::CopyTimes& times, double slowdown) {
    const bool is_of_one = times.gpus_beside_compute == 1 && samples.gpus > 1;
    return times.beside_compute_s * (is_of_one ? slowdown : 1);
  };
  x->set_h2d_beside_compute(Ratio(beside_compute(samples.h2d, of_all.h2d), samples.h2d.alone_s));
  x->set_d2h_beside_compute(Ratio(beside_compute(samples.d2h, of_all.d2h), samples.d2h.alone_s));
  x->set_copy_beside_compute(Ratio(
      beside_compute(samples.h2d_both, of_all.both) + beside_compute(samples.d2h_both, of_all.both),
      samples.h2d_both.alone_s + samples.d2h_both.alone_s));
  // CPU Adam was measured beside the layers.
  const auto beside_host = [](const GpuSamples::CopyTimes& times) {
    return Ratio(times.beside_host_s, times.beside_compute_s);
  };
  x->set_h2d_beside_host(beside_host(samples.h2d));
  x->set_d2h_beside_host(beside_host(samples.d2h));
  x->set_h2d_beside_host_and_d2h(beside_host(samples.h2d_both));
  x->set_d2h_beside_host_and_h2d(beside_host(samples.d2h_both));
  std::vector<double> collectives;
  for (const CollectiveSample& sample : profile.collectives()) {
    const double slowdown = Ratio(sample.beside_compute_s(), sample.median_s());
    if (slowdown > 0) collectives.push_back(slowdown);
  }
  if (!collectives.empty()) {
    x->set_collective_beside_compute(RoundMeasured(Summarize(collectives).mean));
  }
}

}  // namespace

Interference InterferenceOf(const Profile& profile, const GpuSamples& samples) {
  Interference interference;
  SetSlowdownsOfCompute(profile, &interference);
  SetSlowdownsOfMovements(profile, samples, &interference);
  return interference;
}

}  // namespace twinstep
