#include "traces/show/rank_list.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>
#include <string_view>

#include "sim/str_cat.h"

namespace twinstep {
namespace {

std::optional<std::uint32_t> Number(std::string_view text) {
  std::uint32_t value = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || at != end) return std::nullopt;
  return value;
}

std::optional<RankRange> Range(std::string_view text) {
  const std::size_t dots = text.find("..");
  const auto first = Number(text.substr(0, dots));
  const auto last = dots == std::string_view::npos ? first : Number(text.substr(dots + 2));
  if (!first || !last || *last < *first) return std::nullopt;
  return RankRange{*first, *last};
}

}  // namespace

Result<std::vector<RankRange>> ParseRankList(const std::string& text) {
  std::vector<RankRange> ranges;
  std::istringstream parts(text);
  std::string part;
  while (std::getline(parts, part, ',')) {
    const auto range = Range(part);
    if (!range) {
      return Error{.message = StrCat("'", part, "' is neither a rank nor a range as 4..7")};
    }
    ranges.push_back(*range);
  }
  if (ranges.empty()) return Error{.message = "is empty"};
  return ranges;
}

bool Contains(const std::vector<RankRange>& ranges, std::uint32_t rank) {
  return std::any_of(ranges.begin(), ranges.end(), [rank](const RankRange& range) {
    return range.first <= rank && rank <= range.last;
  });
}

}  // namespace twinstep
