// "Did you mean ...?": the known names nearest to one that is unknown.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace twinstep {

// Insertions, deletions, substitutions and swaps of neighbours that turn one name into the other,
// upper and lower case alike.
int EditDistance(std::string_view a, std::string_view b);

// At most `count` of `candidates`, nearest first (ties in alphabetical order); names that share
// nothing with `name` are left out. A candidate that `name` begins is near.
std::vector<std::string> ClosestNames(std::string_view name,
                                      const std::vector<std::string>& candidates,
                                      std::size_t count);

// " (did you mean a, b?)", or "" if nothing is near.
std::string DidYouMean(std::string_view name, const std::vector<std::string>& candidates,
                       std::size_t count = 3);

}  // namespace twinstep
