#include "sim/graph/ids.h"

#include <array>

namespace twinstep {
namespace {

template <std::size_t n, typename E>
const char* Lookup(const std::array<const char*, n>& names, E value) {
  const auto index = static_cast<std::size_t>(value);
  return index < n ? names[index] : "invalid";
}

}  // namespace

const char* Name(Pool pool) {
  static constexpr std::array<const char*, kPoolCount> kNames = {"gpu", "pinned_host", "host"};
  return Lookup(kNames, pool);
}

const char* Name(Dtype dtype) {
  static constexpr std::array<const char*, 6> kNames = {"bf16", "fp16",  "fp32",
                                                        "fp64", "int32", "uint8"};
  return Lookup(kNames, dtype);
}

const char* Name(Role role) {
  static constexpr std::array<const char*, kRoleCount> kNames = {
      "input",        "parameter", "gradient",      "optimizer_state", "activation",
      "offload_slot", "transient", "communication", "workspace"};
  return Lookup(kNames, role);
}

const char* Name(TaskKind kind) {
  static constexpr std::array<const char*, kTaskKindCount> kNames = {
      "compute", "h2d", "d2h", "send", "recv", "collective", "host"};
  return Lookup(kNames, kind);
}

const char* Name(Lane lane) {
  static constexpr std::array<const char*, kLaneCount> kNames = {
      "compute",  "h2d",      "d2h",      "tp",       "cp",  "dp",
      "send_fwd", "recv_fwd", "send_bwd", "recv_bwd", "host"};
  return Lookup(kNames, lane);
}

const char* Name(Phase phase) {
  static constexpr std::array<const char*, kPhaseCount> kNames = {
      "forward", "recompute", "backward", "gradient_sync", "optimizer", "parameter_gather"};
  return Lookup(kNames, phase);
}

}  // namespace twinstep
