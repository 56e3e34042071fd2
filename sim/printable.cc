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

}  // namespace twinstep
