// What of a traced iteration takes how much longer or shorter.
//
//   Result<std::vector<WorkScale>> scales = ParseWorkScales({"collective=0.5", "gemm=0.8"});
//   std::vector<std::int64_t> touched;
//   Result<std::vector<double>> factors = FactorsOf(work, scales.value(), nullptr, &touched);
//   PriceUntimed(cluster, &work);            // Chakra traces without durations.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hw_specs/cluster.pb.h"
#include "sim/result.h"
#include "traces/work_graph.h"

namespace twinstep {

struct WorkScale {
  // A kind of task ("collective", "host"), a kind of operator ("gemm", "all_reduce") or a phase
  // ("backward").
  std::string what;
  double factor = 1;
};

// "what=factor"; an Error (kBadInput) names what is not known, and the closest that is.
Result<std::vector<WorkScale>> ParseWorkScales(const std::vector<std::string>& texts);

// Another machine: the cluster that was traced and the one to replay on.
struct ClusterChange {
  const Cluster& traced;
  const Cluster& replayed;
};

// By task, what its duration is multiplied by. Each scale adds how many tasks it touched to
// `touched`, one entry a scale. `change` may be null. With it matrix products, convolutions and
// attention follow the GPUs' bf16 rates, other computation their memory bandwidth, copies PCIe,
// messages and collectives NVLink, or the NICs where a group has more members than a node has GPUs;
// the host's time stays. An Error (kBadInput) names the constant that a cluster lacks.
Result<std::vector<double>> FactorsOf(const WorkGraph& work, const std::vector<WorkScale>& scales,
                                      const ClusterChange* change,
                                      std::vector<std::int64_t>* touched);

// Gives tasks without a duration one, where the trace says what they do: computation the longer of
// its operations and its memory traffic, copies and messages their bytes, collectives their ring's
// bytes and steps. Returns how many.
std::int64_t PriceUntimed(const Cluster& cluster, WorkGraph* work);

}  // namespace twinstep
