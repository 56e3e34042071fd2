// Text of foreign files as a terminal may see it: no character of it moves the cursor or changes
// colours; and how wide it is there.
//
//   Printable("gemm\x1b[31m")   // "gemm?[31m"
//   TextColumns("größer")       // 6
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace twinstep {

// The text with '?' for every control character (ASCII's and those of Unicode up to U+009F) but
// ends of lines.
std::string Printable(std::string_view text);

// The same for what stays on one line: '?' for ends of lines, too.
std::string PrintableLine(std::string_view text);

// How many columns of a terminal it takes: its characters (code points of UTF-8, and each byte that
// is none counts as one or none).
std::size_t TextColumns(std::string_view text);

// What of it stands in the first so many columns.
std::string_view FirstColumns(std::string_view text, std::size_t columns);

}  // namespace twinstep
