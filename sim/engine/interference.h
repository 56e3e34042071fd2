// How much longer tasks take beside what else their rank does, as both engines have it.
#pragma once

#include <algorithm>
#include <cstddef>

#include "hw_specs/cluster.pb.h"
#include "sim/cost/efficiency.h"
#include "sim/cost/graph_costs.h"

namespace twinstep {

// What runs on a rank.
struct RankWork {
  bool compute = false, h2d = false, d2h = false, communication = false, host = false;
};

namespace interference_internal {

inline double Or(double factor, double otherwise) {
  return factor > 0 ? factor : OneIfUnset(otherwise);
}

}  // namespace interference_internal

// Of a COMPUTE task, time over time alone, both at high clocks (`rested`) or both not.
inline double ComputeSlowdown(const TaskCost& cost, const Interference& x, const RankWork& beside,
                              bool rested) {
  using interference_internal::Or;
  const auto of = [&cost, rested](float measured, double factor, float measured_rested = 0) {
    if (rested && measured_rested > 0) return static_cast<double>(measured_rested);
    if (measured > 0) return static_cast<double>(measured);
    return 1 + static_cast<double>(cost.interference_sensitivity) * (factor - 1);
  };
  double slowdown = 1;
  if (beside.h2d && beside.d2h) {
    slowdown = of(cost.beside_both, OneIfUnset(x.compute_beside_copy()), cost.rested_beside_both);
  } else if (beside.h2d) {
    slowdown = of(cost.beside_h2d, Or(x.compute_beside_h2d(), x.compute_beside_copy()),
                  cost.rested_beside_h2d);
  } else if (beside.d2h) {
    slowdown = of(cost.beside_d2h, Or(x.compute_beside_d2h(), x.compute_beside_copy()),
                  cost.rested_beside_d2h);
  }
  if (beside.communication) {
    slowdown *= of(cost.beside_collective, OneIfUnset(x.compute_beside_collective()));
  }
  return slowdown;
}

// Of an H2D or a D2H, besides what links cost that it shares.
inline double CopySlowdown(const Interference& x, bool h2d, const RankWork& beside) {
  using interference_internal::Or;
  const bool other = h2d ? beside.d2h : beside.h2d;
  double slowdown = 1;
  if (beside.compute) {
    const double own = h2d ? x.h2d_beside_compute() : x.d2h_beside_compute();
    slowdown *= other ? OneIfUnset(x.copy_beside_compute()) : Or(own, x.copy_beside_compute());
  }
  if (beside.host) {
    const double own = h2d ? x.h2d_beside_host() : x.d2h_beside_host();
    const double both = h2d ? x.h2d_beside_host_and_d2h() : x.d2h_beside_host_and_h2d();
    slowdown *= other ? Or(both, own) : OneIfUnset(own);
  }
  return slowdown;
}

// What becomes of a rank's boost (GraphCosts::clocks).
enum class ClockUse { kComputes, kCommunicates, kRests };  // Spent, kept, saved up.

// A GPU that only communicates is busy, and what that leaves of its power is already in the
// operators' times: they are measured between the same collectives.
inline ClockUse ClockUseOf(bool computes, bool communicates) {
  if (computes) return ClockUse::kComputes;
  return communicates ? ClockUse::kCommunicates : ClockUse::kRests;
}

// What rank `rank` has left of its boost when the iteration begins: never more than there is room
// for.
inline Picoseconds BoostAtBegin(const ClockBoost& clocks, std::size_t rank) {
  if (rank >= clocks.left_ps.size()) return 0;
  return std::clamp<Picoseconds>(clocks.left_ps[rank], 0, clocks.boost_ps);
}

// Of a SEND, RECV or COLLECTIVE.
inline double CommunicationSlowdown(const TaskCost& cost, const Interference& x,
                                    const RankWork& beside) {
  if (!beside.compute) return 1;
  return cost.beside_compute > 0 ? static_cast<double>(cost.beside_compute)
                                 : OneIfUnset(x.collective_beside_compute());
}

}  // namespace twinstep
