// Numbers as a person types them on a command line.
//
//   ParseInteger("65000MiB")  -> 68157440000      ParseInteger("1e9") -> 1000000000
//   ParseInteger("1.5GiB")    -> 1610612736       ParseInteger("1.5") -> Error
//   ParseReal("128GB")        -> 1.28e11          ParseReal("0.5")    -> 0.5
//
// Suffixes: KB MB GB TB PB (powers of 1000), KiB MiB GiB TiB PiB (powers of 1024), B; upper and
// lower case alike. The error is one sentence that names the text, and the suffix where it is
// unknown.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/result.h"

namespace twinstep {

// A whole number that fits in 64 bits.
Result<std::int64_t> ParseInteger(std::string_view text);

// A finite number.
Result<double> ParseReal(std::string_view text);

}  // namespace twinstep
