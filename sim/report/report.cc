#include "sim/report/report.h"

namespace twinstep {

std::int64_t RankReport::HostBytes() const {
  return pools[static_cast<std::size_t>(Pool::kPinnedHost)].arena_bytes +
         pools[static_cast<std::size_t>(Pool::kHost)].arena_bytes;
}

}  // namespace twinstep
