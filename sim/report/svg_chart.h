// A chart of lines or points as one self-contained SVG file, for a browser or a paper.
//
//   SvgChart chart{.title = "Scaling", .x_label = "GPUs", .y_label = "tokens/s"};
//   chart.series.push_back({.name = "best plan", .points = {{32, 3.6e4}, {64, 6.9e4}}});
//   file << ToSvg(chart);
#pragma once

#include <string>
#include <vector>

namespace twinstep {

struct SvgChart {
  struct Point {
    double x = 0, y = 0;
    std::string label = {};  // Written beside it; shown on hovering where empty.
  };
  struct Series {
    std::string name;
    std::vector<Point> points;
    bool line = true;  // Else points only.
    bool dashed = false;
  };
  std::string title, x_label, y_label;
  std::vector<Series> series;
};

// Axes begin at zero where the values are far from being alike, and carry round numbers.
std::string ToSvg(const SvgChart& chart);

}  // namespace twinstep
