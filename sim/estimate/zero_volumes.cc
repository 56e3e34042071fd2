#include "sim/estimate/zero_volumes.h"

namespace twinstep {

std::int64_t ZeroNetworkBytes(std::int64_t model_bytes, int zero_stage) {
  return (zero_stage >= 3 ? 3 : 2) * model_bytes;
}

std::int64_t ZeroOffloadPcieBytes(std::int64_t model_bytes) { return 2 * model_bytes; }

}  // namespace twinstep
