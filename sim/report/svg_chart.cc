#include "sim/report/svg_chart.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/format.h"
#include "sim/printable.h"
#include "sim/report/markup.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

constexpr double kWidth = 800, kHeight = 480;
constexpr double kLeft = 90, kRight = 30, kTop = 50, kBottom = 60;
constexpr double kLegendLine = 18;
constexpr double kLetterWidth = 7.5;  // At most, on average: nothing here knows the font.
// Distinguishable without colour vision (Okabe and Ito).
constexpr std::array<const char*, 5> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                 "#666666"};

std::string Number(double value) { return Fixed(value, 1); }

// One direction: values to places, and the values that are marked.
class Axis {
 public:
  Axis(double least, double most, double from, double to) : from_(from), to_(to) {
    if (!(most > least)) most = least + 1;
    if (least > 0 && least < 0.7 * most) least = 0;
    const double raw = (most - least) / 6;
    const double power = std::pow(10, std::floor(std::log10(raw)));
    step_ = power * (raw / power <= 1 ? 1 : raw / power <= 2 ? 2 : raw / power <= 5 ? 5 : 10);
    least_ = std::floor(least / step_) * step_;
    most_ = std::ceil(most / step_) * step_;
  }
  double Place(double value) const {
    return from_ + (value - least_) / (most_ - least_) * (to_ - from_);
  }
  std::vector<double> Marks() const {
    std::vector<double> marks;
    const auto count = static_cast<int>(std::lround((most_ - least_) / step_));
    for (int i = 0; i <= count; ++i) marks.push_back(least_ + i * step_);
    return marks;
  }
  std::string Label(double value) const {
    if (most_ >= 10000) return Grouped(value, 0);
    return Fixed(value, step_ >= 1 ? 0 : static_cast<int>(std::ceil(-std::log10(step_))));
  }

 private:
  double from_, to_, least_ = 0, most_ = 1, step_ = 1;
};

std::string SeriesSvg(const SvgChart::Series& series, const char* colour, const Axis& x,
                      const Axis& y) {
  std::string svg;
  if (series.line && series.points.size() > 1) {
    svg += "<polyline fill=\"none\" stroke-width=\"2\" stroke=\"" + std::string(colour) + "\"";
    if (series.dashed) svg += " stroke-dasharray=\"6 4\"";
    svg += " points=\"";
    for (const SvgChart::Point& point : series.points) {
      svg += StrCat(Number(x.Place(point.x)), ",", Number(y.Place(point.y)), " ");
    }
    svg += "\"/>\n";
  }
  for (const SvgChart::Point& point : series.points) {
    const std::string values = StrCat(x.Label(point.x), ", ", Fixed(point.y, 3));
    svg += StrCat("<circle r=\"4\" fill=\"", colour, "\" cx=\"", Number(x.Place(point.x)),
                  "\" cy=\"", Number(y.Place(point.y)), "\"><title>", MarkupText(series.name), ": ",
                  MarkupText(point.label.empty() ? values : point.label), "</title></circle>\n");
    if (!point.label.empty()) {
      svg += SvgText(x.Place(point.x) + 8, y.Place(point.y) - 8, "start", point.label);
    }
  }
  return svg;
}

struct Place {
  double x = 0, y = 0;
};

// What the legend should leave free: points, what is written beside them, and lines.
std::vector<Place> Taken(const SvgChart& chart, const Axis& x, const Axis& y) {
  constexpr int kSteps = 16;
  std::vector<Place> taken;
  for (const SvgChart::Series& series : chart.series) {
    for (std::size_t i = 0; i < series.points.size(); ++i) {
      const SvgChart::Point& point = series.points[i];
      const Place at{x.Place(point.x), y.Place(point.y)};
      taken.push_back(at);
      for (std::size_t letter = 0; letter < point.label.size(); ++letter) {
        taken.push_back({at.x + 8 + kLetterWidth * static_cast<double>(letter + 1), at.y - 12});
      }
      if (!series.line || i == 0) continue;
      const Place from{x.Place(series.points[i - 1].x), y.Place(series.points[i - 1].y)};
      for (int step = 1; step < kSteps; ++step) {
        const double share = static_cast<double>(step) / kSteps;
        taken.push_back({from.x + share * (at.x - from.x), from.y + share * (at.y - from.y)});
      }
    }
  }
  return taken;
}

// Upper left corner of the legend: in that corner of the chart where it covers least.
Place LegendPlace(const SvgChart& chart, const Axis& x, const Axis& y) {
  std::size_t letters = 0;
  for (const SvgChart::Series& series : chart.series) {
    letters = std::max(letters, TextColumns(series.name));
  }
  const double width = 18 + kLetterWidth * static_cast<double>(letters);
  const double height = kLegendLine * static_cast<double>(chart.series.size());
  const double left = kLeft + 12, right = kWidth - kRight - 12 - width;
  const double top = kTop + 6, bottom = kHeight - kBottom - 6 - height;
  const std::vector<Place> taken = Taken(chart, x, y);
  Place best;
  std::ptrdiff_t least = -1;
  for (const Place corner : {Place{left, top}, {right, top}, {left, bottom}, {right, bottom}}) {
    const auto covered = std::ranges::count_if(taken, [&](const Place& at) {
      constexpr double kAir = 6;
      return at.x > corner.x - kAir && at.x < corner.x + width + kAir && at.y > corner.y - kAir &&
             at.y < corner.y + height + kAir;
    });
    if (least >= 0 && covered >= least) continue;
    least = covered;
    best = corner;
  }
  return best;
}

}  // namespace

std::string ToSvg(const SvgChart& chart) {
  double least_x = INFINITY, most_x = -INFINITY, least_y = INFINITY, most_y = -INFINITY;
  for (const SvgChart::Series& series : chart.series) {
    for (const SvgChart::Point& point : series.points) {
      least_x = std::min(least_x, point.x);
      most_x = std::max(most_x, point.x);
      least_y = std::min(least_y, point.y);
      most_y = std::max(most_y, point.y);
    }
  }
  if (!(most_x >= least_x)) least_x = least_y = 0, most_x = most_y = 1;
  const Axis x(least_x, most_x, kLeft, kWidth - kRight);
  const Axis y(least_y, most_y, kHeight - kBottom, kTop);

  std::string svg =
      StrCat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", Number(kWidth), " ",
             Number(kHeight), "\" font-family=\"sans-serif\" font-size=\"13\">\n",
             "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n");
  svg += SvgText(kWidth / 2, 24, "middle", chart.title, " font-size=\"16\"");
  for (const double mark : x.Marks()) {
    svg += SvgLine(x.Place(mark), kTop, x.Place(mark), kHeight - kBottom, "stroke=\"#dddddd\"");
    svg += SvgText(x.Place(mark), kHeight - kBottom + 18, "middle", x.Label(mark));
  }
  for (const double mark : y.Marks()) {
    svg += SvgLine(kLeft, y.Place(mark), kWidth - kRight, y.Place(mark), "stroke=\"#dddddd\"");
    svg += SvgText(kLeft - 8, y.Place(mark) + 4, "end", y.Label(mark));
  }
  svg += SvgText((kLeft + kWidth - kRight) / 2, kHeight - 16, "middle", chart.x_label);
  svg += StrCat("<text text-anchor=\"middle\" transform=\"translate(20 ",
                Number((kTop + kHeight - kBottom) / 2), ") rotate(-90)\">",
                MarkupText(chart.y_label), "</text>\n");
  const Place legend = LegendPlace(chart, x, y);
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    const char* colour = kColours[i % kColours.size()];
    svg += SeriesSvg(chart.series[i], colour, x, y);
    const double at = legend.y + 10 + kLegendLine * static_cast<double>(i);
    svg += StrCat("<rect x=\"", Number(legend.x), "\" y=\"", Number(at - 10),
                  "\" width=\"12\" height=\"12\" fill=\"", colour, "\"/>\n");
    svg += SvgText(legend.x + 18, at, "start", chart.series[i].name);
  }
  return svg + "</svg>\n";
}

}  // namespace twinstep
