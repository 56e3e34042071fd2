#include "traces/memory_curves.h"

#include <cstddef>
#include <utility>

namespace twinstep {

std::vector<TraceMemoryCurve> MemoryCurves(const MemoryTimeline& memory) {
  std::vector<TraceMemoryCurve> curves;
  for (RankId rank = 0; rank < memory.size(); ++rank) {
    for (std::size_t pool = 0; pool < kPoolCount; ++pool) {
      const PoolMemory& use = memory[rank][pool];
      if (use.peak_bytes == 0) continue;
      TraceMemoryCurve curve{rank, static_cast<Pool>(pool), {}, {}};
      for (const MemoryPoint& point : use.curve) {
        curve.time_ps.push_back(point.time_ps);
        curve.live_bytes.push_back(point.total_bytes);
      }
      curves.push_back(std::move(curve));
    }
  }
  return curves;
}

}  // namespace twinstep
