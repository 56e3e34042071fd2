// What imported traces add to the names of sim/graph/ids.h in a Trace's tables.
#pragma once

#include <google/protobuf/repeated_field.h>

#include <cstdint>
#include <optional>
#include <string>

#include "sim/graph/ids.h"
#include "traces/add_names.h"

namespace twinstep {

// A kind: copies between devices, which are neither to the host nor from it.
inline constexpr char kPeerCopyKind[] = "peer_copy";
// A kind: kept, but no work that this program knows; it counts nowhere as busy.
inline constexpr char kUnknownKind[] = "unknown";
// A phase: nothing says which part of the iteration it is of.
inline constexpr char kUnknownPhase[] = "unknown";

// The phases' names with the unknown one, and where a phase stands among them.
inline void AddImportedPhases(google::protobuf::RepeatedPtrField<std::string>* names) {
  AddNames<Phase>(kPhaseCount, names);
  names->Add(kUnknownPhase);
}
inline std::uint32_t ImportedPhaseIndex(std::optional<Phase> phase) {
  return phase ? static_cast<std::uint32_t>(*phase) : kPhaseCount;
}

}  // namespace twinstep
