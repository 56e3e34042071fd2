#include "sim/estimate/alone_times.h"

#include <algorithm>

namespace twinstep {
namespace {

bool CarriesBothWays(LinkKind kind) {
  return kind == LinkKind::kPcieDuplex || kind == LinkKind::kDram || kind == LinkKind::kHostCopies;
}

}  // namespace

double AloneTimes::FlowSeconds(TaskId id, double ways) const {
  const TaskCost& cost = costs_.Of(id);
  double longest_s = 0;
  for (std::uint32_t f = cost.flow_begin; f < cost.flow_begin + cost.flow_count; ++f) {
    const Flow& flow = costs_.flows[f];
    double rate = flow.max_bytes_per_s;
    for (std::uint32_t h = flow.hop_begin; h < flow.hop_begin + flow.hop_count; ++h) {
      const RouteHop& hop = costs_.hops[h];
      const Link& link = costs_.links[hop.link];
      const double flows = hop.multiplicity * (CarriesBothWays(link.kind) ? ways : 1);
      if (flows > 0) rate = std::min(rate, link.bytes_per_s / flows);
    }
    if (rate > 0) longest_s = std::max(longest_s, static_cast<double>(flow.bytes) / rate);
  }
  return longest_s;
}

}  // namespace twinstep
