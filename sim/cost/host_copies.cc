#include "sim/cost/host_copies.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace twinstep {
namespace {

constexpr std::int64_t kMostGpus = 1024;

// Seconds a byte of one direction, by GPUs that copy up and down.
class ByteTimes {
 public:
  ByteTimes(const Profile& profile, bool h2d) : h2d_(h2d) {
    const double latency_s = profile.measured_on().node().pcie().latency_s();
    counts_.insert(0);
    for (const HostCopySample& sample : profile.host_copies()) {
      counts_.insert({sample.up(), sample.down()});
      const double seconds = h2d ? sample.h2d_s() : sample.d2h_s();
      if (!(seconds > 0) || sample.bytes() <= 0) continue;
      // What starts a copy is no matter of rates.
      const double flow_s = seconds > 2 * latency_s ? seconds - latency_s : seconds;
      times_[{sample.up(), sample.down()}] = flow_s / static_cast<double>(sample.bytes());
    }
  }

  std::int64_t most() const { return *counts_.rbegin(); }

  // None where a neighbour was not measured.
  std::optional<double> At(double up, double down) const {
    const auto [up_from, up_to] = Around(up);
    const auto [down_from, down_to] = Around(down);
    const double up_part = Part(up, up_from, up_to), down_part = Part(down, down_from, down_to);
    double sum = 0;
    for (const auto& [up_at, up_weight] : {std::pair{up_from, 1 - up_part}, {up_to, up_part}}) {
      for (const auto& [down_at, weight] :
           {std::pair{down_from, 1 - down_part}, {down_to, down_part}}) {
        if (up_weight * weight == 0) continue;
        const auto at = times_.find({up_at, down_at});
        if (at == times_.end()) return std::nullopt;
        sum += up_weight * weight * at->second;
      }
    }
    return sum;
  }

  double Rate(double up, double down) const {
    if ((h2d_ ? up : down) == 0 || up + down <= 1) return HUGE_VAL;
    const std::optional<double> seconds = At(up, down);
    return seconds ? 1 / *seconds : HUGE_VAL;
  }

 private:
  // Measured numbers of GPUs that are not above and not below.
  std::pair<std::int64_t, std::int64_t> Around(double count) const {
    const auto to = counts_.lower_bound(static_cast<std::int64_t>(std::ceil(count)));
    const std::int64_t above = to == counts_.end() ? most() : *to;
    if (static_cast<double>(above) <= count || to == counts_.begin()) return {above, above};
    return {*std::prev(to), above};
  }

  static double Part(double count, std::int64_t from, std::int64_t to) {
    return from == to ? 0 : (count - static_cast<double>(from)) / static_cast<double>(to - from);
  }

  const bool h2d_;
  std::set<std::int64_t> counts_;
  std::map<std::pair<std::int64_t, std::int64_t>, double> times_;
};

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

HostCopyRates HostCopyRatesOf(const Profile& profile, std::int64_t gpus) {
  HostCopyRates rates;
  if (profile.host_copies().empty() || gpus < 2) return rates;
  const ByteTimes h2d(profile, /*h2d=*/true), d2h(profile, /*h2d=*/false);
  rates.gpus = static_cast<std::uint32_t>(std::min(gpus, kMostGpus));
  const auto most = static_cast<double>(h2d.most());
  const double scale = std::min(1.0, most / rates.gpus);
  const auto measured = [&](std::uint32_t count) {
    return count == 0 ? 0 : std::clamp(count * scale, 1.0, most);
  };
  for (std::uint32_t up = 0; up <= rates.gpus; ++up) {
    for (std::uint32_t down = 0; down <= rates.gpus; ++down) {
      rates.h2d_bytes_per_s.push_back(h2d.Rate(measured(up), measured(down)));
      rates.d2h_bytes_per_s.push_back(d2h.Rate(measured(up), measured(down)));
    }
  }
  return rates;
}

HostCopySlowdowns SlowdownsOf(const Profile& profile) {
  std::int64_t all = 0;
  for (const HostCopySample& sample : profile.host_copies()) {
    all = std::max({all, sample.up(), sample.down()});
  }
  double h2d_s = 0, h2d_alone_s = 0, d2h_s = 0, d2h_alone_s = 0, both_s = 0, both_alone_s = 0;
  for (const HostCopySample& sample : profile.host_copies()) {
    const std::pair state(sample.up(), sample.down());
    if (state == std::pair(all, std::int64_t{0})) h2d_s = sample.h2d_s();
    if (state == std::pair(std::int64_t{0}, all)) d2h_s = sample.d2h_s();
    if (state == std::pair(std::int64_t{1}, std::int64_t{0})) h2d_alone_s = sample.h2d_s();
    if (state == std::pair(std::int64_t{0}, std::int64_t{1})) d2h_alone_s = sample.d2h_s();
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
