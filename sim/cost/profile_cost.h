// Measured tables first. A time that was measured at exactly the asked shape is returned as it is;
// other shapes take the roofline, corrected by the factor measured / roofline of their neighbours
// (interpolated in the logarithms of the dimensions), so that the roofline only carries the shape
// dependence between them. Where the simulated cluster differs from the one that was measured, the
// roofline also carries the change: measured x new / old.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "hw_specs/cluster.pb.h"
#include "hw_specs/profile.pb.h"
#include "sim/cost/collective_cost.h"
#include "sim/cost/operator_cost.h"
#include "sim/graph/op.h"

namespace twinstep {

class MeasuredOperators {
 public:
  // `now` is the simulated cluster's roofline. The profile need not outlive this.
  MeasuredOperators(const Profile& profile, const OperatorRoofline& now, int gradient_bytes);

  struct Estimate {
    double seconds = 0;
    bool extrapolated = false;
    double busy_slowdown = 1;  // Time while all threads compute, over `seconds`; 1 if not measured.
  };
  // Never measured at all (op, dtype, flags): the bare roofline, extrapolated.
  Estimate Of(const OpShape& shape) const;

 private:
  struct Sample {
    std::array<std::int64_t, 6> dims{};
    double seconds = 0;
    double log_factor = 0;  // ln(measured / roofline when measured).
  };
  struct Table {
    std::vector<Sample> samples;
    std::array<std::int64_t, 6> low{}, high{};  // Range of each dimension.
  };
  using Key = std::tuple<std::string, std::string, std::uint32_t>;  // op, dtype, flags

  static double LogFactor(const Table& table, const std::array<std::int64_t, 6>& dims);

  const OperatorRoofline now_, then_;
  std::map<Key, Table> tables_;
};

// Copies, sends and collectives: between two measured sizes a straight line, latency + bytes /
// rate; beyond the last the last line.
class MeasuredMovements {
 public:
  MeasuredMovements(const Profile& profile, const Cluster& cluster);

  // Replace the modelled `cost` by the measured one. True where the result is extrapolated: no such
  // movement was measured (the model stays), or not at this size or on this cluster.
  bool Collective(OpCode op, double bytes, const GroupShape& shape, MovementCost* cost) const;
  bool Send(double bytes, bool same_node, MovementCost* cost) const;
  bool Copy(double bytes, bool h2d, MovementCost* cost) const;

 private:
  struct Point {
    double bytes = 0, seconds = 0;
  };
  using Points = std::vector<Point>;                                // By bytes.
  using Key = std::tuple<std::string, std::int64_t, std::int64_t>;  // op, members, a node.

  // `then_s`: what the model says of the machine that was measured.
  static bool Apply(const Points& points, double bytes, double then_s, MovementCost* cost);

  const Cluster then_;
  std::map<Key, Points> collectives_;
  Points h2d_, d2h_;
};

}  // namespace twinstep
