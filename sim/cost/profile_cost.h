// Measured tables first. A time that was measured at exactly the asked shape is returned as it is;
// other shapes take the roofline, corrected by the factor measured / roofline of their neighbours
// (interpolated in the logarithms of the dimensions), so that the roofline only carries the shape
// dependence between them. Where the simulated cluster differs from the one that was measured, the
// roofline also carries the change: measured x new / old.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "hw_specs/cluster.pb.h"
#include "hw_specs/profile.pb.h"
#include "sim/cost/collective_cost.h"
#include "sim/cost/operator_cost.h"
#include "sim/graph/fused_pairs.h"
#include "sim/graph/op.h"

namespace twinstep {

class MeasuredOperators {
 public:
  // `now` is the simulated cluster's roofline. The profile need not outlive this.
  MeasuredOperators(const Profile& profile, const OperatorRoofline& now, int gradient_bytes);

  struct Estimate {
    double seconds = 0;
    bool extrapolated = false;
    bool modelled = false;  // Nothing of its kind was measured: the roofline.
    // Times over `seconds`; 0 = not measured.
    double busy_slowdown = 0;                                // While all threads compute.
    double beside_h2d = 0, beside_d2h = 0, beside_both = 0;  // While copies run.
    double beside_collective = 0;
    double rested_speedup = 0;  // `seconds` over the time after a rest.
    // After a rest while copies run, over the time after a rest.
    double rested_beside_h2d = 0, rested_beside_d2h = 0, rested_beside_both = 0;
    // When kernels that wait for it begin, over `seconds`. Where its own shape was not measured so,
    // it ends as long after that as the middle one of the operator's shapes that were: it is its
    // last thread blocks' time, which hardly depends on how many there are.
    double lets_in = 0;
    // By GPU of the measured machine, its time over `seconds`; empty: all alike.
    std::vector<double> gpu_slowness = {};
    // On that GPU. After a rest all GPUs are taken to take the same time.
    Estimate OnGpu(std::size_t gpu) const;
  };
  // Never measured at all (op, dtype, flags): the bare roofline, extrapolated. `fusion` is its part
  // in a pair. What was measured in other parts only takes their time, extrapolated; what its
  // partner's kernel does takes no part's but its own, and none where that was not measured. How
  // much slower an operator is beside others is that of another part where its own lacks it.
  Estimate Of(const OpShape& shape, Fusion fusion = Fusion::kAlone) const {
    return Find(shape, /*on_host=*/false, fusion);
  }
  // The same as a HOST task; nothing if none of its kind was measured there.
  std::optional<Estimate> OnHost(const OpShape& shape) const;

 private:
  static constexpr std::size_t kSizes = 7;
  using Sizes = std::array<std::int64_t, kSizes>;  // OpShape::dims and count.

  // Under which an operator is measured besides alone.
  enum Condition {
    kBusy,
    kBesideH2D,
    kBesideD2H,
    kBesideBoth,
    kBesideCollective,
    kRested,
    kRestedBesideH2D,
    kRestedBesideD2H,
    kRestedBesideBoth,
    kLetsIn
  };
  static constexpr std::size_t kConditions = kLetsIn + 1;
  // What corrects a roofline, as logarithms.
  struct Correction {
    double factor = 0;                           // Measured / roofline when measured.
    std::array<double, kConditions> slowdown{};  // Under each condition over alone.
    std::array<bool, kConditions> has{};    // Every sample that it comes from was measured so, too.
    std::vector<double> gpu_slowness = {};  // By GPU; empty where not every sample has it.
  };
  struct Sample {
    Sizes sizes{};
    double seconds = 0;
    Correction correction;
    bool of_other_part = false;
  };
  struct Table {
    std::vector<Sample> samples;
    Sizes low{}, high{};  // Range of each size.
  };
  // op, dtype, flags, host, part in a pair
  using Key = std::tuple<std::string, std::string, std::uint32_t, bool, Fusion>;

  static Sizes SizesOf(const OpShape& shape);
  static void AddTo(Table* table, const Sample& sample);
  void ShareProducts();
  void ShareSlowdowns();
  void FindTails();
  const Table* FindTable(Key key, bool* of_other_part) const;
  static void AddSlowdowns(const Correction& correction, Estimate* estimate);
  static void AddSlowness(double weight, const Correction& of_sample, Correction* sum);
  static Correction Interpolate(const Table& table, const Sizes& sizes);
  void AddTail(const OpShape& shape, bool on_host, Fusion fusion, Estimate* estimate) const;
  Estimate Find(const OpShape& shape, bool on_host, Fusion fusion) const;

  const OperatorRoofline now_, then_;
  std::map<Key, Table> tables_;
  // Of GPUs' operators, by op and dtype: from when kernels that wait begin until the end.
  std::map<std::pair<std::string, std::string>, double> tail_s_;
};

// Copies, sends and collectives: between two measured sizes a straight line, latency + bytes /
// rate; beyond the last the last line.
class MeasuredMovements {
 public:
  MeasuredMovements(const Profile& profile, const Cluster& cluster);

  // Replace the modelled `cost` by the measured one. True where the result is extrapolated: no such
  // movement was measured (the model stays), or not at this size or on this cluster.
  // `shape`: op, dtype of what is summed, flags, bytes.
  // `in_place`: its shards lie at their places in the whole; what was measured so is for that size
  // only, and else where nothing was measured otherwise. The rest of one that copies its shard
  // first is slowed beside operators by no more than one in place, which copies all there is: where
  // its own time beside them says more, that holds waiting for its turn.
  bool Collective(const OpShape& shape, const GroupShape& group, MovementCost* cost,
                  bool in_place = false) const;
  bool Send(double bytes, bool same_node, MovementCost* cost) const;
  bool Copy(double bytes, bool h2d, MovementCost* cost) const;

 private:
  struct Point {
    double bytes = 0, seconds = 0;
    double busy_s = 0;            // 0 = not measured.
    double beside_compute_s = 0;  // Of what moves between ranks; 0 = not measured.
    bool takes_turns = false;     // As CollectiveSample's.
  };
  using Points = std::vector<Point>;  // By bytes.
  // op, members, a node, dtype ("" = any), flags.
  using Key = std::tuple<std::string, std::int64_t, std::int64_t, std::string, std::uint32_t>;

  using Tables = std::map<Key, Points>;
  static const Points* Find(const Tables& tables, const Key& exact);
  // Time beside operators over time alone, of the nearest size that has both, by ratio; 0 = none.
  static double BesideCompute(const Points& points, double bytes);
  // `then_s`: what the model says of the machine that was measured.
  // `of_copies`: what copy engines do of it was measured by itself, too; null = nothing was.
  static bool Apply(const Points& points, double bytes, double then_s, MovementCost* cost,
                    const Points* of_copies = nullptr);

  const Cluster then_;
  Tables collectives_, in_place_;
  Points h2d_, d2h_;
};

}  // namespace twinstep
