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

// The number at the start of the text, what is behind it, and the multiplier that this is, if any.
template <typename Number>
struct Scanned {
  Number number;
  std::string_view suffix;
  std::optional<std::int64_t> multiplier;
};

template <typename Number>
std::optional<Scanned<Number>> Scan(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc()) return std::nullopt;
  const std::string_view suffix{rest, static_cast<std::size_t>(end - rest)};
  return Scanned<Number>{number, suffix, Multiplier(suffix)};
}

// A finite number, to be multiplied. `kind`: what the text should be.
Result<Scanned<double>> ScanReal(std::string_view text, std::string_view kind) {
  const auto real = Scan<double>(text);
  if (!real || !std::isfinite(real->number)) return NoNumber(text, kind);
  if (real->multiplier) return *real;
  if (real->suffix == "%") {
    return Error{.message = StrCat("'", text.substr(0, 60), "' is a percentage: write ",
                                   real->number / 100)};
  }
  const bool is_word = std::isalpha(static_cast<unsigned char>(real->suffix[0])) != 0;
  if (!is_word) return NoNumber(text, kind);
  return Error{.message = StrCat("'", text.substr(0, 60), "' ends in the unknown suffix '",
                                 real->suffix.substr(0, 60), "' (known: B, KB to PB, KiB to PiB)")};
}

}  // namespace

Result<std::int64_t> ParseInteger(std::string_view text) {
  // Digits only: exact over the whole range, where a double holds 53 bits.
  if (const auto whole = Scan<std::int64_t>(text); whole && whole->multiplier) {
    std::int64_t value = 0;
    if (__builtin_mul_overflow(whole->number, *whole->multiplier, &value)) {
      return NoNumber(text, "a number that fits in 64 bits");
    }
    return value;
  }
  const Result<Scanned<double>> real = ScanReal(text, "a whole number");
  if (!real.ok()) return real.error();
  const double value = real.value().number * static_cast<double>(*real.value().multiplier);
  if (!(std::fabs(value) < 0x1p63)) return NoNumber(text, "a number that fits in 64 bits");
  if (value != std::floor(value)) return NoNumber(text, "a whole number");
  return static_cast<std::int64_t>(value);
}

Result<double> ParseReal(std::string_view text) {
  const Result<Scanned<double>> real = ScanReal(text, "a number");
  if (!real.ok()) return real.error();
  const double value = real.value().number * static_cast<double>(*real.value().multiplier);
  if (!std::isfinite(value)) return NoNumber(text, "a finite number");
  return value;
}

}  // namespace twinstep
