// The scatter of predicted over measured times.

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/evaluate/evaluation_report.h"
#include "sim/format.h"
#include "sim/report/markup.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

constexpr double kSize = 640, kMargin = 70, kLegendWidth = 260;
// Of a marker, half its width.
constexpr double kHalf = 4;
// Colours that colour-blind readers tell apart (Okabe and Ito).
constexpr std::array kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                 "#e69f00", "#56b4e9", "#000000", "#f0e442"};

// Decades that hold all times.
struct Axis {
  int least = 0, most = 1;
  double Place(double seconds) const {
    const double share = (std::log10(seconds) - least) / (most - least);
    return std::clamp(share, 0.0, 1.0) * (kSize - 2 * kMargin);
  }
  double X(double seconds) const { return kMargin + Place(seconds); }
  double Y(double seconds) const { return kSize - kMargin - Place(seconds); }
};

Axis AxisOf(const std::vector<Evaluation>& evaluations) {
  double least = 1e300, most = 0;
  for (const Evaluation& evaluation : evaluations) {
    for (const EvaluatedRow& row : evaluation.rows) {
      for (const double seconds : {row.measured.Of(TIME), row.predicted.Of(TIME)}) {
        if (row.measured.Of(TIME) <= 0 || seconds <= 0) continue;
        least = std::min(least, seconds);
        most = std::max(most, seconds);
      }
    }
  }
  if (most <= 0) return {};
  Axis axis{static_cast<int>(std::floor(std::log10(least))),
            static_cast<int>(std::ceil(std::log10(most)))};
  if (axis.most == axis.least) ++axis.most;
  return axis;
}

std::string Frame(const Axis& axis) {
  std::string svg;
  const double least = std::pow(10, axis.least), most = std::pow(10, axis.most);
  for (int decade = axis.least; decade <= axis.most; ++decade) {
    const double seconds = std::pow(10, decade);
    const double x = axis.X(seconds), y = axis.Y(seconds);
    svg += SvgLine(x, kMargin, x, kSize - kMargin, "stroke=\"#ddd\"");
    svg += SvgLine(kMargin, y, kSize - kMargin, y, "stroke=\"#ddd\"");
    svg += SvgText(x, kSize - kMargin + 18, "middle", Seconds(seconds));
    svg += SvgText(kMargin - 6, y + 4, "end", Seconds(seconds));
  }
  svg += SvgLine(axis.X(least), axis.Y(least), axis.X(most), axis.Y(most), "stroke=\"#333\"");
  for (const double factor : {1.1, 1 / 1.1}) {
    const double from = std::max(least, least / factor), to = std::min(most, most / factor);
    svg += SvgLine(axis.X(from), axis.Y(from * factor), axis.X(to), axis.Y(to * factor),
                   "stroke=\"#999\" stroke-dasharray=\"4 4\"");
  }
  svg += SvgText(kSize / 2, kSize - 20, "middle", "measured (dashed: 10 % off)");
  svg += SvgText(12, kMargin - 20, "start", "predicted");
  return svg;
}

// How a suite is drawn. There are more suites than colours that can be told apart: each colour
// comes as circle, as square and as triangle.
struct Marker {
  const char* colour;
  std::size_t shape;
};

Marker MarkerOf(std::size_t suite) {
  return {kColours[suite % kColours.size()], suite / kColours.size() % 3};
}

// `inside` goes between the element's tags.
std::string Draw(const Marker& marker, double x, double y, bool filled, const std::string& inside) {
  std::string tag = "circle", place;
  if (marker.shape == 0) {
    place = StrCat("cx=\"", Fixed(x, 1), "\" cy=\"", Fixed(y, 1), "\" r=\"", kHalf, "\"");
  } else if (marker.shape == 1) {
    tag = "rect";
    place = StrCat("x=\"", Fixed(x - kHalf, 1), "\" y=\"", Fixed(y - kHalf, 1), "\" width=\"",
                   2 * kHalf, "\" height=\"", 2 * kHalf, "\"");
  } else {
    tag = "polygon";
    place =
        StrCat("points=\"", Fixed(x - kHalf, 1), ",", Fixed(y + kHalf, 1), " ", Fixed(x + kHalf, 1),
               ",", Fixed(y + kHalf, 1), " ", Fixed(x, 1), ",", Fixed(y - kHalf, 1), "\"");
  }
  return StrCat("<", tag, " ", place, " stroke=\"", marker.colour, "\" fill=\"",
                filled ? marker.colour : "none", "\" fill-opacity=\"0.5\">", inside, "</", tag,
                ">\n");
}

std::string Points(const Evaluation& evaluation, const Axis& axis, const Marker& marker) {
  std::string svg;
  for (const EvaluatedRow& row : evaluation.rows) {
    const double measured = row.measured.Of(TIME), predicted = row.predicted.Of(TIME);
    if (measured <= 0) continue;
    svg += Draw(marker, axis.X(measured), axis.Y(predicted), row.counts(),
                StrCat("<title>",
                       MarkupText(StrCat(evaluation.suite->name(), ": ", row.row->name(),
                                         ", measured ", Seconds(measured), ", predicted ",
                                         Seconds(predicted), row.counts() ? "" : ", left out")),
                       "</title>"));
  }
  return svg;
}

}  // namespace

std::string ToSvg(const std::vector<Evaluation>& evaluations) {
  const Axis axis = AxisOf(evaluations);
  std::string svg =
      StrCat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", kSize + kLegendWidth, " ",
             kSize, "\" font-family=\"sans-serif\" font-size=\"12\">\n",
             "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n");
  svg += Frame(axis);
  double y = kMargin;
  const auto legend = [&](const Marker& marker, bool filled, const std::string& label) {
    svg += Draw(marker, kSize - kMargin + 20, y - 4, filled, "");
    svg += SvgText(kSize - kMargin + 32, y, "start", label);
    y += 20;
  };
  bool any_left_out = false;
  for (std::size_t i = 0; i < evaluations.size(); ++i) {
    const Marker marker = MarkerOf(i);
    svg += Points(evaluations[i], axis, marker);
    std::string label = evaluations[i].suite->name();
    for (const QuantitySummary& summary : evaluations[i].summaries) {
      if (summary.quantity == TIME) label += StrCat(", median ", Percent(summary.model.median));
    }
    legend(marker, true, label);
    for (const EvaluatedRow& row : evaluations[i].rows) {
      any_left_out |= !row.counts() && row.measured.Of(TIME) > 0;
    }
  }
  if (any_left_out) legend({"#333", 0}, false, "hollow: outlier, in no median");
  return svg + "</svg>\n";
}

}  // namespace twinstep
