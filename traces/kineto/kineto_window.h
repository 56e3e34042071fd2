// Which part of a profile is the iteration.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/result.h"
#include "traces/kineto/kineto_trace.h"

namespace twinstep {

// Which step of a profile to take, by ProfilerStep's number.
struct StepChoice {
  bool whole = false;  // Everything that the file holds.
  // Nothing, and not whole: of two steps or more with work on the device (without any device: on
  // the host) the middle one by length (the shorter of two), else everything.
  std::optional<std::int64_t> number;
};

// The steps of a profile by their begins. Those of one number are one (PyTorch marks them on the
// host, some versions twice).
std::vector<StepMark> DistinctSteps(const KinetoTrace& trace);

// The step that launched each event on a device, as an index into `steps`: the last that had begun,
// so what runs between two marks belongs to the one before; kNoIndex: none had.
std::vector<std::uint32_t> StepsOfDeviceEvents(const KinetoTrace& trace,
                                               std::span<const StepMark> steps);

struct KinetoWindow {
  std::int64_t start_ns = 0, end_ns = 0;
  std::optional<std::int64_t> step;  // None: the whole file.
  // Into KinetoTrace::device, by start. Events may reach over the window's ends.
  std::vector<std::uint32_t> device;
};

// The whole file reaches from the first call or operator on the host, or event on the device, to
// the last. A step reaches from the first event that it launched to the first of the next step's
// (of the last step: to its own last), and has all that runs in this time. Without a device it
// reaches as far as its mark. An Error (kBadInput) names the steps there are.
Result<KinetoWindow> ChooseWindow(const KinetoTrace& trace, const StepChoice& choice);

// What a reader says of windows on different clocks.
inline constexpr char kClocksApart[] = "the files' clocks do not fit together: each begins at 0";

// The windows of several files, a rank each, on one clock.
struct AlignedWindows {
  std::vector<KinetoWindow> windows;  // By file.
  std::vector<std::int64_t> zero_ns;  // By file: the time on its own clock that is 0.
  std::int64_t iteration_ns = 0;      // From 0 to the end of the last.
  bool one_clock = true;
};

// The files' clocks are taken for one where their windows lie so that all together they could cover
// the time from the first to the last; else each window begins at 0. Without a choice of the step,
// all files take the one that the first chose. An Error (kBadInput) names the file: the step is
// missing, or it spans more than a month.
Result<AlignedWindows> ChooseWindows(std::span<const KinetoTrace> files, StepChoice choice);

// What a trace of them is called: "rank0.json and 3 more, step 7". In valid UTF-8.
std::string NameOf(std::span<const KinetoTrace> files, const AlignedWindows& aligned);

}  // namespace twinstep
