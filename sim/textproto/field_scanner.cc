#include "sim/textproto/field_scanner.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace twinstep {
namespace {

constexpr std::size_t kTabWidth = 8;
// The parser gives up before; this bounds what a message can show of a malformed file.
constexpr std::size_t kMaxDepth = 64;

bool IsNameCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
}

// What no name begins with: 6, -6, .5e-06.
bool BeginsNumber(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '+' || c == '.';
}

// An exponent has a sign within.
std::size_t EndOfWord(std::string_view text, std::size_t at) {
  const bool is_number = BeginsNumber(text[at]);
  for (++at; at < text.size(); ++at) {
    const bool is_sign = is_number && (text[at] == '-' || text[at] == '+') &&
                         (text[at - 1] == 'e' || text[at - 1] == 'E');
    if (!IsNameCharacter(text[at]) && !is_sign) break;
  }
  return at;
}

struct Field {
  std::string_view name;
  std::size_t begin;
};

std::size_t EndOfString(std::string_view text, std::size_t at) {
  const char quote = text[at];
  for (++at; at < text.size() && text[at] != quote && text[at] != '\n'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return std::min(at + 1, text.size());
}

std::size_t NextColumn(char c, std::size_t column) {
  return column + (c == '\t' ? kTabWidth - column % kTabWidth : 1);
}

}  // namespace

FieldAt FindField(std::string_view text, std::size_t offset) {
  std::vector<Field> open;  // Enclosing messages.
  Field current{{}, 0};     // Its name was read; its value, perhaps not.
  bool has_value = true;
  bool in_list = false;  // [6, 7]
  for (std::size_t at = 0; at < text.size() && at <= offset;) {
    const char c = text[at];
    if (c == '#') {
      at = std::min(text.find('\n', at), text.size());
    } else if (c == '"' || c == '\'') {
      at = EndOfString(text, at);
      has_value = true;
    } else if (c == '{' || c == '<') {
      if (open.size() < kMaxDepth) open.push_back(current);
      current.name = {};
      has_value = true;
      in_list = false;
      ++at;
    } else if (c == '}' || c == '>') {
      if (!open.empty()) open.pop_back();
      current = {{}, at};
      has_value = true;
      ++at;
    } else if (c == '[' || c == ']') {
      in_list = c == '[';
      has_value = true;
      ++at;
    } else if (IsNameCharacter(c) || BeginsNumber(c)) {
      const std::size_t end = EndOfWord(text, at);
      if (has_value && !in_list && !BeginsNumber(c)) {
        current = {text.substr(at, end - at), at};
        has_value = false;
      } else {
        has_value = true;  // A number or an enum value.
      }
      at = end;
    } else {
      ++at;
    }
  }
  FieldAt found;
  for (const Field& field : open) {
    if (!field.name.empty()) (found.path += field.name) += '.';
  }
  found.path += current.name;
  if (current.name.empty() && !found.path.empty()) found.path.pop_back();
  found.begin = current.begin;
  const std::string_view before = text.substr(0, found.begin);
  found.line = static_cast<std::size_t>(std::ranges::count(before, '\n'));
  const std::size_t newline = before.rfind('\n');
  found.column = ColumnOf(text, newline == std::string_view::npos ? 0 : newline + 1, found.begin);
  return found;
}

std::size_t OffsetOf(std::string_view text, std::size_t line, std::size_t column) {
  std::size_t at = 0;
  for (; line > 0; --line) {
    const std::size_t newline = text.find('\n', at);
    if (newline == std::string_view::npos) return text.size();
    at = newline + 1;
  }
  for (std::size_t reached = 0; reached < column && at < text.size() && text[at] != '\n'; ++at) {
    reached = NextColumn(text[at], reached);
  }
  return at;
}

std::size_t ColumnOf(std::string_view text, std::size_t line_begin, std::size_t offset) {
  std::size_t column = 0;
  for (std::size_t at = line_begin; at < offset; ++at) column = NextColumn(text[at], column);
  return column;
}

}  // namespace twinstep
