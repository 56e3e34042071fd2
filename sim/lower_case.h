// Letters of ASCII made small, whatever the locale.
#pragma once

#include <string>
#include <string_view>

namespace twinstep {

inline std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

}  // namespace twinstep
