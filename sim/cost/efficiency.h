// Conventions of the Cluster message's numbers.
#pragma once

#include "hw_specs/cluster.pb.h"

namespace twinstep {

// An efficiency, factor or share that is not given (0) is 1.
inline double OneIfUnset(double value) { return value > 0 ? value : 1; }

// max_efficiency * x / (x + half_work).
inline double Evaluate(const EfficiencyCurve& curve, double x) {
  const double half = curve.half_work() > 0 ? curve.half_work() : 0;
  return x + half > 0 ? OneIfUnset(curve.max_efficiency()) * x / (x + half)
                      : OneIfUnset(curve.max_efficiency());
}

}  // namespace twinstep
