#include "sim/format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace twinstep {
namespace {

// Commas between thousands of the digits before the point, if the text has digits.
std::string WithSeparators(std::string number) {
  const std::size_t first = number.starts_with('-') ? 1 : 0;
  const std::size_t digits_end =
      std::min(number.find_first_not_of("0123456789", first), number.size());
  for (std::size_t i = digits_end; i > first + 3; i -= 3) number.insert(i - 3, 1, ',');
  return number;
}

// Four significant digits of a value in [1, 1000), by decimals.
int DecimalsOf(double value) { return value < 10 ? 3 : value < 100 ? 2 : 1; }

// The largest unit of which `value` is at least one (after rounding), else the smallest.
template <std::size_t n>
std::string Scaled(double value, double base, const std::array<const char*, n>& units) {
  std::size_t unit = 0;
  while (unit + 1 < n && std::fabs(value) >= base * 0.99995) {
    value /= base;
    ++unit;
  }
  const bool exact_units = unit == 0 && value == std::floor(value);
  return Fixed(value, exact_units ? 0 : DecimalsOf(std::fabs(value))) + " " + units[unit];
}

}  // namespace

std::string Fixed(double value, int decimals) {
  std::array<char, 400> text;
  const int length = std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return {text.data(), static_cast<std::size_t>(std::max(length, 0))};
}

std::string Count(std::int64_t value) { return WithSeparators(std::to_string(value)); }

std::string Grouped(double value, int decimals) { return WithSeparators(Fixed(value, decimals)); }

std::string CountOf(std::int64_t value, const std::string& noun) {
  return Count(value) + " " + noun + (value == 1 ? "" : "s");
}

std::string Seconds(double seconds) {
  if (seconds == 0) return "0 s";
  if (std::fabs(seconds) >= 0.99995) return Fixed(seconds, DecimalsOf(std::fabs(seconds))) + " s";
  static constexpr std::array<const char*, 4> kUnits = {"ps", "ns", "us", "ms"};
  return Scaled(seconds * 1e12, 1000, kUnits);
}

std::string Bytes(double bytes) {
  static constexpr std::array<const char*, 6> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  return Scaled(bytes, 1024, kUnits);
}

std::string BytesPerSecond(double bytes_per_s) {
  static constexpr std::array<const char*, 6> kUnits = {"B/s",  "KB/s", "MB/s",
                                                        "GB/s", "TB/s", "PB/s"};
  return Scaled(bytes_per_s, 1000, kUnits);
}

TableUnit SecondsUnit(double largest_seconds) {
  if (largest_seconds >= 1) return {"s", 1};
  if (largest_seconds >= 1e-3) return {"ms", 1e-3};
  return {"us", 1e-6};
}

TableUnit BytesUnit(std::int64_t largest_bytes) {
  if (largest_bytes >= std::int64_t{1} << 30) return {"GiB", 0x1p30};
  if (largest_bytes >= std::int64_t{1} << 20) return {"MiB", 0x1p20};
  return {"KiB", 0x1p10};
}

std::string Percent(double fraction) { return Fixed(fraction * 100, 1) + " %"; }

}  // namespace twinstep
