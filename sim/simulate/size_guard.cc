#include "sim/simulate/size_guard.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "sim/format.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

// 1.2e9 -> "1,200 million".
std::string Millions(double count) {
  return StrCat(Count(static_cast<std::int64_t>(std::min(count / 1e6, 1e18))), " million");
}

double Real(std::int64_t x) { return static_cast<double>(x); }

}  // namespace

double EstimateTasks(const ResolvedPlan& plan, std::size_t ranks) {
  constexpr double kPerPassOfStage = 16;  // Messages, copies, embedding and loss.
  constexpr double kPerLayer = 32;        // Optimizer, gathers and reductions.
  constexpr double kPerRank = 64;
  double per_pass_of_layer = plan.recompute == RECOMPUTE_NONE && plan.blocks.empty() ? 28 : 40;
  if (plan.chunks.enabled) per_pass_of_layer += 4;  // Uploads, gathers, and gradients on their way.
  if (plan.tp_overlap == TP_OVERLAP_CHUNKED) per_pass_of_layer += 20 * Real(plan.t);
  const double layers = Real(plan.v) * Real(plan.l);
  const double passes = 2 * Real(plan.m) * Real(plan.v);
  return static_cast<double>(ranks) *
         (passes * (Real(plan.l) * per_pass_of_layer + kPerPassOfStage) + layers * kPerLayer +
          kPerRank);
}

std::optional<std::int64_t> AvailableMemoryBytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string name, unit; file >> name;) {
    std::int64_t kibibytes = 0;
    if (name == "MemAvailable:" && file >> kibibytes) return kibibytes * 1024;
    std::getline(file, unit);
  }
  return std::nullopt;
}

Status CheckSize(double tasks, std::optional<std::int64_t> available_bytes) {
  const double bytes = tasks * kBytesPerTask;
  if (!available_bytes || bytes <= Real(*available_bytes)) return Unit{};
  return Error{.message = StrCat(
                   "the iteration has up to about ", Millions(tasks), " tasks, and at about ",
                   kBytesPerTask, " bytes each their simulation takes ", Bytes(bytes),
                   ": more than the ", Bytes(Real(*available_bytes)),
                   " of memory that this machine has available (fewer or larger micro-batches, or "
                   "a smaller global batch, make fewer tasks)")};
}

}  // namespace twinstep
