#include "sim/printable.h"

#include <algorithm>
#include <cstddef>

namespace twinstep {
namespace {

bool IsControl(char c) { return (c >= '\0' && c < ' ') || c == '\x7f'; }

// U+0080 to U+009F are these two bytes.
bool IsLongControl(std::string_view rest) {
  if (rest.size() < 2 || rest[0] != '\xc2') return false;
  const auto second = static_cast<unsigned char>(rest[1]);
  return second >= 0x80 && second < 0xa0;
}

// Of a character of several bytes, none but the first.
bool IsWithinCharacter(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

}  // namespace

std::string Printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_long = IsLongControl(text.substr(i));
    result += is_long || (IsControl(text[i]) && text[i] != '\n') ? '?' : text[i];
    i += is_long;
  }
  return result;
}

std::string PrintableLine(std::string_view text) {
  std::string result = Printable(text);
  std::replace(result.begin(), result.end(), '\n', '?');
  return result;
}

std::size_t TextColumns(std::string_view text) {
  return text.size() - static_cast<std::size_t>(std::ranges::count_if(text, IsWithinCharacter));
}

std::string_view FirstColumns(std::string_view text, std::size_t columns) {
  std::size_t end = 0;
  for (std::size_t seen = 0; end < text.size(); ++end) {
    if (IsWithinCharacter(text[end])) continue;
    if (seen == columns) break;
    ++seen;
  }
  return text.substr(0, end);
}

}  // namespace twinstep
