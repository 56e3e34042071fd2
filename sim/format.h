// Numbers as a person reads them.
#pragma once

#include <cstdint>
#include <string>

namespace twinstep {

// `value` with a fixed number of decimals: Fixed(2.5, 2) = "2.50".
std::string Fixed(double value, int decimals);
// Thousands apart: 2,097,152.
std::string Count(std::int64_t value);
// The same with a fixed number of decimals: Grouped(1234.56, 1) = "1,234.6".
std::string Grouped(double value, int decimals);
// A count of things: "1 GPU", "1,024 GPUs". The plural is the noun and an s.
std::string CountOf(std::int64_t value, const std::string& noun);
// Four significant digits and a unit that fits: "21.17 s", "61.00 ms", "1.018 us".
std::string Seconds(double seconds);
// Powers of 1024: "512 B", "61.24 GiB".
std::string Bytes(double bytes);
// Powers of 1000: "55.10 GB/s".
std::string BytesPerSecond(double bytes_per_s);
// A unit for a whole table, chosen by its largest value.
struct TableUnit {
  const char* name = "";
  double size = 1;  // In seconds or bytes.
};
TableUnit SecondsUnit(double largest_seconds);    // s, ms or us.
TableUnit BytesUnit(std::int64_t largest_bytes);  // GiB, MiB or KiB.
// 0.4321 -> "43.2 %".
std::string Percent(double fraction);

}  // namespace twinstep
