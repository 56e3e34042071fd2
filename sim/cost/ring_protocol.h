// NCCL's protocols for a ring inside a node, and which of them it takes. They carry their flags
// beside the data and so start sooner, at the price of bandwidth: LL 4 bytes of 8, LL128 120 of
// 128.
//
// NCCL decides by a model of its own,
//
//   base + steps x step + wire bytes / (share x 0.8 of the link)
//              base    step    share
//   LL         3.6 us  0.47 us 1/4 (all-gather, reduce-scatter: 1/3)
//   LL128      10 us   1.9 us  0.92
//   Simple     8.4 us  3.4 us  1
//
// (NCCL 2.8 to 2.10, src/graph/tuning.cc, ring over NVLink; 20 of 25 GB/s of a link, topo.h.) What
// each then takes is another matter: the Cluster's constants.
//
//   const RingProtocol protocol = ChooseRingProtocol(link, /*steps=*/14, wire_bytes, true);
#pragma once

#include "hw_specs/cluster.pb.h"

namespace twinstep {

enum class RingProtocol { kSimple, kLl128, kLl };

// The protocol of a collective of `wire_bytes` a rank in `steps` steps, among those whose
// efficiency `link` gives.
RingProtocol ChooseRingProtocol(const NvLink& link, double steps, double wire_bytes,
                                bool is_all_reduce);

// Latency of a step over that of Simple's, by NCCL's constants.
double StepLatencyShare(RingProtocol protocol);

}  // namespace twinstep
