// A search's report for people: the best plans, where their time goes, why the others lost.
#pragma once

#include <cstddef>
#include <string>

#include "sim/report/svg_chart.h"
#include "sim/search/rank_report.h"

namespace twinstep {

// `explain`: with a line for every plan of RankPoint::all. Tables are at most `width` wide, where
// no two of their columns are wider; 0 = any width.
std::string ToText(const Ranking& report, bool explain, std::size_t width = 0);

// Every plan of RankPoint::all, with a header line.
std::string ToCsv(const Ranking& report);

// Tokens/s over GPUs: the best plans, and plain data-parallel scaling.
SvgChart ScalingChart(const Ranking& report);

}  // namespace twinstep
