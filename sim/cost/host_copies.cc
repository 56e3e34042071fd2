#include "sim/cost/host_copies.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace twinstep {
namespace {

// Seconds a byte of one direction, by GPUs that copy up and down.
class ByteTimes {
 public:
  ByteTimes(const Profile& profile, bool h2d) : counts_{0} {
    for (const HostCopySample& sample : profile.host_copies()) {
      counts_.insert(counts_.end(), {sample.up(), sample.down()});
    }
    std::ranges::sort(counts_);
    counts_.erase(std::unique(counts_.begin(), counts_.end()), counts_.end());
    times_.resize(counts_.size() * counts_.size());
    const double latency_s = profile.measured_on().node().pcie().latency_s();
    for (const HostCopySample& sample : profile.host_copies()) {
      const double seconds = h2d ? sample.h2d_s() : sample.d2h_s();
      if (!(seconds > 0) || sample.bytes() <= 0) continue;
      // What starts a copy is no matter of rates.
      const double flow_s = seconds > 2 * latency_s ? seconds - latency_s : seconds;
      times_[StateOf(IndexOf(sample.up()), IndexOf(sample.down()))] =
          flow_s / static_cast<double>(sample.bytes());
    }
  }

  std::int64_t most() const { return counts_.back(); }

  // A number of GPUs among measured ones: those that are not above and not below, by index.
  struct Place {
    std::size_t from = 0, to = 0;
    double part = 0;
  };
  Place PlaceOf(double count) const {
    const std::size_t to =
        std::min(IndexOf(static_cast<std::int64_t>(std::ceil(count))), counts_.size() - 1);
    const auto above = static_cast<double>(counts_[to]);
    if (above <= count || to == 0) return {.from = to, .to = to};
    const auto below = static_cast<double>(counts_[to - 1]);
    return {.from = to - 1, .to = to, .part = (count - below) / (above - below)};
  }

  // 0 where a neighbour was not measured.
  double At(const Place& up, const Place& down) const {
    double sum = 0;
    for (const auto& [up_at, up_weight] : {std::pair{up.from, 1 - up.part}, {up.to, up.part}}) {
      for (const auto& [down_at, weight] :
           {std::pair{down.from, 1 - down.part}, {down.to, down.part}}) {
        if (up_weight * weight == 0) continue;
        const double time = times_[StateOf(up_at, down_at)];
        if (!(time > 0)) return 0;
        sum += up_weight * weight * time;
      }
    }
    return sum;
  }

 private:
  // Of the least that is not below.
  std::size_t IndexOf(std::int64_t count) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(counts_, count) - counts_.begin());
  }
  std::size_t StateOf(std::size_t up, std::size_t down) const { return up * counts_.size() + down; }

  std::vector<std::int64_t> counts_;  // Ascending.
  std::vector<double> times_;         // By both's index; 0 = not measured.
};

// By state of so many GPUs, `is_faster` times what was measured.
std::vector<double> RatesOf(const Profile& profile, bool h2d, std::uint32_t gpus,
                            double is_faster) {
  const ByteTimes times(profile, h2d);
  const auto most = static_cast<double>(times.most());
  const double scale = std::min(1.0, most / gpus);
  std::vector<double> measured{0};
  for (std::uint32_t count = 1; count <= gpus; ++count) {
    measured.push_back(std::clamp(count * scale, 1.0, most));
  }
  std::vector<ByteTimes::Place> places;
  for (const double count : measured) places.push_back(times.PlaceOf(count));
  std::vector<double> rates;
  rates.reserve(measured.size() * measured.size());
  for (std::size_t up = 0; up <= gpus; ++up) {
    for (std::size_t down = 0; down <= gpus; ++down) {
      const bool is_limited = (h2d ? up : down) > 0 && measured[up] + measured[down] > 1;
      const double seconds = is_limited ? times.At(places[up], places[down]) : 0;
      rates.push_back(seconds > 0 ? is_faster / seconds : HUGE_VAL);
    }
  }
  return rates;
}

// A link's rate over that of the measured one, where both are known.
double Faster(double bytes_per_s, double measured_bytes_per_s) {
  return bytes_per_s > 0 && measured_bytes_per_s > 0 ? bytes_per_s / measured_bytes_per_s : 1;
}

// Of one GPU's copies both ways, in sum of both directions.
double BothWaysSeconds(const Profile& profile, std::int64_t bytes) {
  double up_s = 0, down_s = 0;
  for (const CopySample& copy : profile.copies()) {
    if (copy.bytes() != bytes) continue;
    (copy.direction() == CopySample::H2D ? up_s : down_s) = copy.both_ways_s();
  }
  return up_s > 0 && down_s > 0 ? up_s + down_s : 0;
}

double Slowdown(double seconds, double alone_s) {
  return seconds > 0 && alone_s > 0 ? std::max(1.0, seconds / alone_s) : 1;
}

}  // namespace

HostCopyRates HostCopyRatesOf(const Profile& profile, const Cluster& cluster) {
  HostCopyRates rates;
  const std::int64_t gpus = cluster.node().gpus();
  if (profile.host_copies().empty() || gpus < 2) return rates;
  const Pcie &pcie = cluster.node().pcie(), &measured = profile.measured_on().node().pcie();
  rates.gpus = static_cast<std::uint32_t>(std::min<std::int64_t>(gpus, HostCopyRates::kMostGpus));
  rates.h2d_bytes_per_s = RatesOf(profile, /*h2d=*/true, rates.gpus,
                                  Faster(pcie.h2d_bytes_per_s(), measured.h2d_bytes_per_s()));
  rates.d2h_bytes_per_s = RatesOf(profile, /*h2d=*/false, rates.gpus,
                                  Faster(pcie.d2h_bytes_per_s(), measured.d2h_bytes_per_s()));
  return rates;
}

HostCopySlowdowns SlowdownsOf(const Profile& profile) {
  std::int64_t all = 0;
  for (const HostCopySample& sample : profile.host_copies()) {
    all = std::max({all, sample.up(), sample.down()});
  }
  // One way seconds a byte, both ways seconds.
  double h2d_s = 0, h2d_alone_s = 0, d2h_s = 0, d2h_alone_s = 0, both_s = 0, both_alone_s = 0;
  for (const HostCopySample& sample : profile.host_copies()) {
    if (sample.bytes() <= 0) continue;
    const std::pair state(sample.up(), sample.down());
    const auto bytes = static_cast<double>(sample.bytes());
    if (state == std::pair(all, std::int64_t{0})) h2d_s = sample.h2d_s() / bytes;
    if (state == std::pair(std::int64_t{0}, all)) d2h_s = sample.d2h_s() / bytes;
    if (state == std::pair(std::int64_t{1}, std::int64_t{0})) h2d_alone_s = sample.h2d_s() / bytes;
    if (state == std::pair(std::int64_t{0}, std::int64_t{1})) d2h_alone_s = sample.d2h_s() / bytes;
    if (state == std::pair(all, all)) {
      both_s = sample.h2d_s() + sample.d2h_s();
      both_alone_s = BothWaysSeconds(profile, sample.bytes());
    }
  }
  return {.h2d = Slowdown(h2d_s, h2d_alone_s),
          .d2h = Slowdown(d2h_s, d2h_alone_s),
          .both = Slowdown(both_s, both_alone_s)};
}

}  // namespace twinstep
