#include "sim/simulate/memory_limits.h"

#include <gtest/gtest.h>

#include <string>

namespace twinstep {
namespace {

std::string MessageFor(std::int64_t arena_bytes, std::int64_t live_bytes) {
  Report report;
  report.gpu_memory_capacity_bytes = 1 << 20;
  report.results.emplace();
  report.results->ranks.resize(1);
  report.results->ranks[0].pools[0] = {.arena_bytes = arena_bytes, .peak_live_bytes = live_bytes};
  const std::optional<Error> error = CheckMemoryLimits(report);
  return error ? error->message : "";
}

TEST(MemoryLimitsTest, TellsHolesOfThePlacementFromLiveBytes) {
  EXPECT_EQ(MessageFor(1 << 20, 1 << 10), "");
  EXPECT_EQ(MessageFor(3 << 20, 2 << 20),
            "rank 0 needs 3.000 MiB in pool gpu: 2.000 MiB (2,097,152 bytes) more than the "
            "capacity of 1.000 MiB; 2.000 MiB are live at the peak, 1.000 MiB are holes of the "
            "placement");
  // Up to 1 % is alignment.
  EXPECT_EQ(MessageFor(2'020'000, 2'000'000).find("holes"), std::string::npos);
  EXPECT_NE(MessageFor(2'020'001, 2'000'000).find("holes"), std::string::npos);
}

}  // namespace
}  // namespace twinstep
