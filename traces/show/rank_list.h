// Ranks as a user lists them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/result.h"

namespace twinstep {

// Inclusive ranges of global ranks.
struct RankRange {
  std::uint32_t first = 0, last = 0;
  bool operator==(const RankRange&) const = default;
};

// "0,4..7". An Error quotes the part that is neither a number nor a range.
Result<std::vector<RankRange>> ParseRankList(const std::string& text);

bool Contains(const std::vector<RankRange>& ranges, std::uint32_t rank);

}  // namespace twinstep
