#include "sim/cost/ring_protocol.h"

namespace twinstep {
namespace {

struct TunedProtocol {
  double base_s, step_s, share;
};

constexpr TunedProtocol kLl = {.base_s = 3.6e-6, .step_s = 0.47e-6, .share = 1.0 / 3};
constexpr TunedProtocol kLl128 = {.base_s = 10e-6, .step_s = 1.9e-6, .share = 0.92};
constexpr TunedProtocol kSimple = {.base_s = 8.4e-6, .step_s = 3.4e-6, .share = 1};
constexpr double kAllReduceLlShare = 1.0 / 4;
constexpr double kTunedLinkShare = 20.0 / 25;

}  // namespace

RingProtocol ChooseRingProtocol(const NvLink& link, double steps, double wire_bytes,
                                bool is_all_reduce) {
  if (!(link.bytes_per_s() > 0)) return RingProtocol::kSimple;
  const auto seconds = [&](const TunedProtocol& protocol, double share) {
    return protocol.base_s + steps * protocol.step_s +
           wire_bytes / (share * kTunedLinkShare * link.bytes_per_s());
  };
  RingProtocol best = RingProtocol::kSimple;
  double least_s = seconds(kSimple, kSimple.share);
  const auto consider = [&](RingProtocol protocol, double efficiency, double tuned_s) {
    if (!(efficiency > 0) || tuned_s >= least_s) return;
    best = protocol;
    least_s = tuned_s;
  };
  consider(RingProtocol::kLl128, link.ll128_efficiency(), seconds(kLl128, kLl128.share));
  consider(RingProtocol::kLl, link.ll_efficiency(),
           seconds(kLl, is_all_reduce ? kAllReduceLlShare : kLl.share));
  return best;
}

double StepLatencyShare(RingProtocol protocol) {
  switch (protocol) {
    case RingProtocol::kSimple:
      return 1;
    case RingProtocol::kLl128:
      return kLl128.step_s / kSimple.step_s;
    case RingProtocol::kLl:
      return kLl.step_s / kSimple.step_s;
  }
  return 1;
}

}  // namespace twinstep
