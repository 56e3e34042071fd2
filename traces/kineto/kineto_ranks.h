// Which ranks profiles hold: one a device on which something runs.
//
//   Result<std::vector<KinetoRank>> ranks = RanksOf(files);
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/result.h"
#include "traces/kineto/kineto_trace.h"

namespace twinstep {

struct KinetoRank {
  std::uint32_t number = 0;            // Global.
  std::size_t file = 0;                // Into the files.
  std::optional<std::int64_t> device;  // None: the file has no event on a device.
};

// File by file, a file's by device. The numbers are the files' own where each file has one device
// and says its rank, else 0, 1, ... An Error (kBadInput) names a second file of a rank.
Result<std::vector<KinetoRank>> RanksOf(std::span<const KinetoTrace> files);

}  // namespace twinstep
