// Forwards and backwards of a pipeline as rows of text, whoever knows when they ran.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace twinstep {

struct ScheduleViewOptions {
  std::size_t width = 100;  // Columns of the terminal; at least 40 are used.
  bool colour = false;      // ANSI colours, for a terminal.
};

// A forward or a backward of one micro-batch in one stage.
struct TimedStep {
  bool backward = false;
  std::uint16_t micro_batch = 0;
  std::size_t chunk = 0;  // Of the device's stages, from 0.
  double begin_s = 0, end_s = 0;
};

// Steps of a rank in time order.
struct ScheduleRow {
  std::uint32_t global_rank = 0;
  std::size_t chunks = 1;  // Stages of the device.
  std::vector<TimedStep> steps;
};

// Time from left (0) to right (`end_s`). Where a forward is narrower than its label, the picture of
// the whole iteration is followed by its beginning and its end in more detail. Nothing if `end_s`
// is 0.
std::string DrawScheduleRows(const std::vector<ScheduleRow>& rows, double end_s,
                             const ScheduleViewOptions& options);

}  // namespace twinstep
