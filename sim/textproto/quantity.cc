#include "sim/textproto/quantity.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>

#include "sim/str_cat.h"

namespace twinstep {
namespace {

Error NoNumber(std::string_view text, std::string_view why) {
  return {.message = StrCat("'", text.substr(0, 60), "' is not ", why,
                            " (such as 42, 1e9, 80GB or 65000MiB)")};
}

bool EqualIgnoringCase(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(a[i])) !=
        std::tolower(static_cast<unsigned char>(b[i]))) {
      return false;
    }
  }
  return true;
}

std::optional<std::int64_t> Multiplier(std::string_view suffix) {
  if (suffix.empty() || EqualIgnoringCase(suffix, "B")) return 1;
  std::int64_t decimal = 1, binary = 1;
  for (const std::string_view prefix : {"K", "M", "G", "T", "P"}) {
    decimal *= 1000;
    binary *= 1024;
    if (EqualIgnoringCase(suffix, StrCat(prefix, "B"))) return decimal;
    if (EqualIgnoringCase(suffix, StrCat(prefix, "iB"))) return binary;
  }
  return std::nullopt;
}

// The number at the start of the text and the multiplier behind it.
template <typename Number>
struct Scanned {
  Number number;
  std::int64_t multiplier;
};

template <typename Number>
std::optional<Scanned<Number>> Scan(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc()) return std::nullopt;
  const auto multiplier = Multiplier({rest, static_cast<std::size_t>(end - rest)});
  if (!multiplier) return std::nullopt;
  return Scanned<Number>{number, *multiplier};
}

}  // namespace

Result<std::int64_t> ParseInteger(std::string_view text) {
  // Digits only: exact over the whole range, where a double holds 53 bits.
  if (const auto whole = Scan<std::int64_t>(text)) {
    std::int64_t value = 0;
    if (__builtin_mul_overflow(whole->number, whole->multiplier, &value)) {
      return NoNumber(text, "a number that fits in 64 bits");
    }
    return value;
  }
  const auto real = Scan<double>(text);
  if (!real || !std::isfinite(real->number)) return NoNumber(text, "a whole number");
  const double value = real->number * static_cast<double>(real->multiplier);
  if (!(std::fabs(value) < 0x1p63)) return NoNumber(text, "a number that fits in 64 bits");
  if (value != std::floor(value)) return NoNumber(text, "a whole number");
  return static_cast<std::int64_t>(value);
}

Result<double> ParseReal(std::string_view text) {
  const auto real = Scan<double>(text);
  if (!real) return NoNumber(text, "a number");
  const double value = real->number * static_cast<double>(real->multiplier);
  if (!std::isfinite(value)) return NoNumber(text, "a finite number");
  return value;
}

}  // namespace twinstep
