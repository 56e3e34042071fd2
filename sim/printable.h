// Text of foreign files as a terminal may see it: no character of it moves the cursor or changes
// colours.
//
//   Printable("gemm\x1b[31m")   // "gemm?[31m"
#pragma once

#include <string>
#include <string_view>

namespace twinstep {

// The text with '?' for every control character (ASCII's and those of Unicode up to U+009F) but
// ends of lines.
std::string Printable(std::string_view text);

// The same for what stays on one line: '?' for ends of lines, too.
std::string PrintableLine(std::string_view text);

}  // namespace twinstep
