// Text in HTML and SVG, and the elements that pictures share.
//
//   SvgText(400, 24, "middle", "a < b")   // <text x="400.0" ...>a &lt; b</text>
#pragma once

#include <string>
#include <string_view>

namespace twinstep {

// Plain text between tags. Names of foreign files may hold characters that no SVG may: '?' stands
// for them (sim/printable.h).
std::string MarkupText(std::string_view text);

// Places are in units of the picture's viewBox; `anchor` is start, middle or end. `more` goes into
// the tag, behind a blank of its own.
std::string SvgText(double x, double y, const char* anchor, std::string_view text,
                    const char* more = "");
std::string SvgLine(double x1, double y1, double x2, double y2, const char* style);

}  // namespace twinstep
