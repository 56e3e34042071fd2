#include "sim/report/markup.h"

#include "sim/format.h"
#include "sim/printable.h"
#include "sim/str_cat.h"

namespace twinstep {

std::string MarkupText(std::string_view text) {
  std::string escaped;
  for (const char c : Printable(text)) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (c == '>') {
      escaped += "&gt;";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string SvgText(double x, double y, const char* anchor, std::string_view text,
                    const char* more) {
  return StrCat("<text x=\"", Fixed(x, 1), "\" y=\"", Fixed(y, 1), "\" text-anchor=\"", anchor,
                "\"", more, ">", MarkupText(text), "</text>\n");
}

std::string SvgLine(double x1, double y1, double x2, double y2, const char* style) {
  return StrCat("<line x1=\"", Fixed(x1, 1), "\" y1=\"", Fixed(y1, 1), "\" x2=\"", Fixed(x2, 1),
                "\" y2=\"", Fixed(y2, 1), "\" ", style, "/>\n");
}

}  // namespace twinstep
