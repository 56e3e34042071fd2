#include "sim/simulate/memory_limits.h"

#include "sim/format.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

std::string Size(std::int64_t bytes) { return Bytes(static_cast<double>(bytes)); }

// Where more than 1 % of the arena is not alive at the peak.
std::string HolesText(const PoolReport& pool) {
  const std::int64_t holes = pool.arena_bytes - pool.peak_live_bytes;
  if (holes <= pool.peak_live_bytes / 100) return "";
  return StrCat("; ", Size(pool.peak_live_bytes), " are live at the peak, ", Size(holes),
                " are holes of the placement");
}

std::optional<Error> CheckGpus(const Report& report) {
  const RankReport* fullest = nullptr;
  for (const RankReport& rank : report.results->ranks) {
    if (fullest == nullptr || rank.pools[0].arena_bytes > fullest->pools[0].arena_bytes) {
      fullest = &rank;
    }
  }
  if (fullest == nullptr) return std::nullopt;
  const std::int64_t excess = fullest->pools[0].arena_bytes - report.gpu_memory_capacity_bytes;
  if (excess <= 0) return std::nullopt;
  return Error{
      .code = ExitCode::kNo,
      .message = StrCat("rank ", fullest->info.global_rank, " needs ",
                        Size(fullest->pools[0].arena_bytes), " in pool ", Name(Pool::kGpu), ": ",
                        Size(excess), " (", Count(excess), " bytes) more than the ", "capacity of ",
                        Size(report.gpu_memory_capacity_bytes), HolesText(fullest->pools[0])),
      .rule = "gpu-memory",
      .rank = fullest->info.global_rank,
      .pool = Name(Pool::kGpu),
      .excess_bytes = excess};
}

std::optional<Error> CheckHosts(const Report& report) {
  const HostReport& host = report.results->host;
  const std::int64_t excess = host.peak_bytes - report.host_memory_budget_bytes;
  if (host.peak_bytes == 0 || excess <= 0) return std::nullopt;
  const std::int64_t first_rank = host.node * report.cluster.node().gpus();
  return Error{
      .code = ExitCode::kNo,
      .message = StrCat("node ", host.node, " (ranks ", first_rank, " to ",
                        first_rank + host.ranks - 1, ") needs ", Size(host.peak_bytes),
                        " of host memory: ", Size(excess), " (", Count(excess),
                        " bytes) more than the budget of ", Size(report.host_memory_budget_bytes)),
      .rule = "host-memory",
      .rank = first_rank,
      .pool = Name(Pool::kPinnedHost),
      .excess_bytes = excess};
}

}  // namespace

std::optional<Error> CheckMemoryLimits(const Report& report) {
  if (std::optional<Error> error = CheckGpus(report)) return error;
  return CheckHosts(report);
}

}  // namespace twinstep
