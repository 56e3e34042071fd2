// What an engine needs besides the graph: how long each task takes alone, which links its bytes
// cross, and how tasks slow each other down.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "hw_specs/cluster.pb.h"
#include "hw_specs/profile.pb.h"
#include "model_zoo/model.pb.h"
#include "sim/graph/task_graph.h"
#include "sim/result.h"

namespace twinstep {

using Picoseconds = std::int64_t;
inline constexpr double kPicosecondsPerSecond = 1e12;
// To the nearest; `seconds` below 9e6.
inline Picoseconds ToPicoseconds(double seconds) {
  return static_cast<Picoseconds>(std::llround(seconds * kPicosecondsPerSecond));
}

enum class LinkKind : std::uint8_t {
  kPcieH2D,     // A GPU's PCIe link, bytes to the GPU.
  kPcieD2H,     // The same, bytes from the GPU.
  kPcieDuplex,  // Both directions together, where both at once are slower than each alone.
  kUplinkH2D,   // What the GPUs below one PCIe switch share.
  kUplinkD2H,
  kDram,       // Host memory of a node.
  kNvlinkOut,  // A GPU's NVLink port to its peers, and from them.
  kNvlinkIn,
  kNicOut,  // A NIC port.
  kNicIn,
  kHostCompute,  // The cores of a node, in bytes of CPU Adam's traffic.
  kHostCopies,   // What copies of all GPUs of a node share, both directions together.
};
inline constexpr int kLinkKindCount = static_cast<int>(LinkKind::kHostCopies) + 1;
const char* Name(LinkKind kind);

// A shared resource. Capacity is divided max-min fairly among the flows that cross it. In a
// folded graph one link stands for its class, and each crossing flow counts `multiplicity` times.
struct Link {
  LinkKind kind;
  std::uint32_t node = 0, index = 0;  // Of the representative: node and GPU, switch or NIC index.
  double bytes_per_s = 0;
};

struct RouteHop {
  std::uint32_t link = 0;
  double multiplicity = 1;  // Symmetric flows that cross the link together with this one.
};

// Bytes in motion: crosses all hops of its route at one rate, at most `max_bytes_per_s`.
struct Flow {
  std::int64_t bytes = 0;
  double max_bytes_per_s = 0;
  std::uint32_t hop_begin = 0, hop_count = 0;  // Into GraphCosts::hops.
  // Of a copy between a GPU and its host, where HostCopyRates limit it: below GraphCosts::hosts.
  std::uint32_t host = kNone;
  std::uint32_t host_gpus = 1;  // Of that host, which copy so together with it.
  bool to_gpu = false;
};

// What each GPU's copies get at most, by how many GPUs of their host copy up (H2D) and down (D2H)
// while they do, as measured. It is a limit of each GPU and none that they share: an H2D is slowed
// by D2H that lose nothing themselves, where all of them together are far from what the host
// carries. (As if a GPU had only so many reads of the host's memory under way, whose answers come
// the later the more is written there, while writes need no answers.)
struct HostCopyRates {
  static constexpr std::uint32_t kMostGpus = 1024;
  std::uint32_t gpus = 0;  // More count as so many. 0 = no limits.
  // By up * (gpus + 1) + down; infinite = no limit.
  std::vector<double> h2d_bytes_per_s, d2h_bytes_per_s;

  std::size_t StateOf(std::uint32_t up, std::uint32_t down) const {
    return std::size_t{std::min(up, gpus)} * (gpus + 1) + std::min(down, gpus);
  }
};

// What a movement between ranks needs of its GPU's multiprocessors, which run one kernel at a time:
// it takes turns with the computations of its rank.
enum class KernelTurn : std::uint8_t {
  kNever,   // Nothing: copy engines do it.
  kBegins,  // Its fixed time is a kernel's, and copy engines do the rest.
  kWhole,   // A kernel does it.
};

// Cost of a task alone; interned, tasks hold an index.
struct TaskCost {
  // COMPUTE and HOST: the whole duration. Movement: the latency before the flows start.
  Picoseconds fixed_ps = 0;
  std::uint32_t flow_begin = 0, flow_count = 0;  // Into GraphCosts::flows; ends with the last.
  // How much of an interference factor applies, 0 .. 1 (kernels that live in the cache: 0).
  float interference_sensitivity = 1;
  // COMPUTE, as measured: time over time alone while copies run H2D only, D2H only, both ways, and
  // beside collectives. Movement between ranks: beside_compute. 0 = the interference factors.
  float beside_h2d = 0, beside_d2h = 0, beside_both = 0, beside_collective = 0;
  float beside_compute = 0;
  KernelTurn turn = KernelTurn::kNever;  // Of a movement between ranks.
  // COMPUTE: after so much of fixed_ps the next kernel's turn begins, beside the rest; 0 = after
  // all.
  Picoseconds lets_in_ps = 0;
  // COMPUTE: how much faster after a rest, while the GPU's clocks are high; and, as measured, time
  // beside copies over time alone then. 0 = as while they are not.
  float rested_speedup = 1;
  float rested_beside_h2d = 0, rested_beside_d2h = 0, rested_beside_both = 0;
  // With worker threads: time while all of them work, relative to one that works alone.
  float busy_slowdown = 1;
  bool extrapolated = false;  // Outside the profile's range.
  bool modelled = true;       // Nothing of its kind was measured: from the cluster's constants.
  // Of a fused computation (sim/graph/fuse.h): the costs of its members, one after the other,
  // GraphCosts::segments[segment_begin ...]; their fixed times sum to fixed_ps, their sensitivities
  // count. 0 = a task of its own.
  std::uint32_t segment_begin = 0, segment_count = 0;
};

// Threads that serve the lanes of all ranks (hw_specs/cluster.proto, Workers).
struct WorkerPool {
  std::uint32_t threads = 0;    // 0 = none: every lane runs by itself.
  Picoseconds dispatch_ps = 0;  // From the end of a thread's task to the begin of its next.
  Picoseconds wake_ps = 0;      // From the waking of a thread that slept to the begin of its job.
  Picoseconds look_ps = 0;      // How long a thread without work looks for it before it sleeps.
  Picoseconds handoff_ps = 0;   // As wake_ps, of a thread that looks.
};

// How long a GPU's clocks stay high (hw_specs/profile.proto, Clocks).
struct ClockBoost {
  Picoseconds boost_ps = 0;          // Of computing, after a long rest; 0 = one speed.
  double boost_per_rest = 0;         // What a time of rest gives back of it.
  std::vector<Picoseconds> left_ps;  // By rank, at the begin of the iteration; none: 0.
};

struct GraphCosts {
  std::vector<std::uint32_t> cost_of_task;
  std::vector<TaskCost> costs;
  std::vector<std::uint32_t> segments;  // Indices into `costs`.
  std::vector<Flow> flows;
  std::vector<RouteHop> hops;
  std::vector<Link> links;
  std::uint32_t hosts = 0;  // That flows name; all have the same rates.
  HostCopyRates host_copies;
  // With zeros replaced by 1, but where another factor stands for one that is not given.
  Interference interference;
  WorkerPool workers;
  ClockBoost clocks;
  // Of GPUs: from the end of what a task waits for in another lane of its rank until it can begin,
  // and from when all members of a rendezvous can until they do.
  Picoseconds handoff_ps = 0, meeting_ps = 0;
  std::vector<std::string> warnings;

  const TaskCost& Of(TaskId id) const { return costs[cost_of_task[id]]; }
};

// `profile` may be null: roofline only. Measured tables of the profile come first. A SEND and its
// RECV both carry the message's flow at half a multiplicity, so that each link sees the bytes once
// and both end together. The rendezvous' group of a SEND names its two members; without a group
// the two tasks' own ranks are meant. Ranks whose GPUs the profile has measured each
// (gpu_speeds.h) compute at their GPU's speed. Errors (kBadInput): a constant that the cluster
// lacks, by field; a graph whose indices do not fit, or that is folded where its ranks differ.
Result<GraphCosts> ComputeCosts(const TaskGraph& graph, const Model& model, const Cluster& cluster,
                                const Profile* profile);

}  // namespace twinstep
