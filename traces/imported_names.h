// What imported traces add to the names of sim/graph/ids.h in a Trace's tables.
#pragma once

namespace twinstep {

// A kind: copies between devices, which are neither to the host nor from it.
inline constexpr char kPeerCopyKind[] = "peer_copy";
// A kind: kept, but no work that this program knows; it counts nowhere as busy.
inline constexpr char kUnknownKind[] = "unknown";

}  // namespace twinstep
