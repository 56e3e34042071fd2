// A search's report for people: the best plans, where their time goes, why the others lost.
#pragma once

#include <cstddef>
#include <string>

#include "sim/report/svg_chart.h"
#include "sim/report/text_table.h"
#include "sim/search/rank_report.h"

namespace twinstep {

// `explain`: with a line for every plan of RankPoint::all. Other lines have at most `width`
// columns, where a word or a table's column is no longer.
std::string ToText(const Ranking& report, bool explain, std::size_t width = kReportWidth);

// Every plan of RankPoint::all, with a header line.
std::string ToCsv(const Ranking& report);

// Tokens/s over GPUs: the best plans, and plain data-parallel scaling.
SvgChart ScalingChart(const Ranking& report);

}  // namespace twinstep
