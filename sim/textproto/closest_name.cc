#include "sim/textproto/closest_name.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace twinstep {
namespace {

// Names are short; a longer text is certainly no misspelt name and would cost quadratic time.
constexpr std::size_t kLongestName = 100;

char Lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

// Begins with the name, or has it behind a hyphen: "dgx-h100" of "h100".
bool HasPart(std::string_view text, std::string_view name) {
  const auto begins_at = [&](std::size_t at) {
    return text.size() - at >= name.size() &&
           std::equal(name.begin(), name.end(), text.begin() + static_cast<std::ptrdiff_t>(at),
                      [](char a, char b) { return Lower(a) == Lower(b); });
  };
  for (std::size_t at = 0; at < text.size(); ++at) {
    if ((at == 0 || text[at - 1] == '-') && begins_at(at)) return true;
  }
  return false;
}

}  // namespace

int EditDistance(std::string_view a, std::string_view b) {
  // Optimal string alignment: three rows of the usual table.
  std::vector<int> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int substitute = above[j - 1] + (Lower(a[i - 1]) == Lower(b[j - 1]) ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, substitute});
      if (i > 1 && j > 1 && Lower(a[i - 1]) == Lower(b[j - 2]) &&
          Lower(a[i - 2]) == Lower(b[j - 1])) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

std::vector<std::string> ClosestNames(std::string_view name,
                                      const std::vector<std::string>& candidates,
                                      std::size_t count) {
  if (name.empty() || name.size() > kLongestName) return {};
  std::vector<std::pair<int, std::string>> near;
  for (const std::string& candidate : candidates) {
    const int distance = HasPart(candidate, name) ? 1 : EditDistance(name, candidate);
    // Half of the letters wrong: no longer a misspelling.
    const auto longest = static_cast<int>(std::max(name.size(), candidate.size()));
    if (2 * distance <= longest) near.emplace_back(distance, candidate);
  }
  std::ranges::sort(near);
  std::vector<std::string> names;
  for (auto& [distance, candidate] : near) {
    if (names.size() == count) break;
    names.push_back(std::move(candidate));
  }
  return names;
}

std::string DidYouMean(std::string_view name, const std::vector<std::string>& candidates,
                       std::size_t count) {
  const std::vector<std::string> names = ClosestNames(name, candidates, count);
  if (names.empty()) return "";
  std::string text = " (did you mean ";
  for (std::size_t i = 0; i < names.size(); ++i) text += (i == 0 ? "" : ", ") + names[i];
  return text + "?)";
}

}  // namespace twinstep
