#include "traces/kineto/kineto_window.h"

#include <algorithm>
#include <filesystem>
#include <unordered_map>
#include <utility>

#include "sim/str_cat.h"
#include "traces/valid_utf8.h"

namespace twinstep {
namespace {

// About a month: times in picoseconds fit in 64 bits.
constexpr std::int64_t kLongest_ns = INT64_MAX / 1000 / 4;

void Include(const HostSpan& span, KinetoWindow* window) {
  window->start_ns = std::min(window->start_ns, span.start_ns);
  window->end_ns = std::max(window->end_ns, span.end_ns);
}

KinetoWindow Whole(const KinetoTrace& trace) {
  KinetoWindow window{INT64_MAX, 0, {}, {}};
  for (std::uint32_t i = 0; i < trace.device.size(); ++i) window.device.push_back(i);
  for (const DeviceEvent& event : trace.device) {
    Include({event.start_ns, event.end_ns, 0, 0}, &window);
  }
  for (const HostCall& call : trace.calls) Include(call.span, &window);
  for (const HostSpan& op : trace.host_ops) Include(op, &window);
  if (trace.device.empty()) {
    for (const HostSpan& span : trace.annotations) Include(span, &window);
  }
  if (window.end_ns == 0 && window.start_ns == INT64_MAX) {
    for (const HostSpan& span : trace.unknown) Include(span, &window);
  }
  return window;
}

// Whether an event runs in a window, or takes no time and stands in it.
bool RunsIn(const DeviceEvent& event, const KinetoWindow& window) {
  if (event.start_ns == event.end_ns) {
    return event.start_ns >= window.start_ns && event.start_ns <= window.end_ns;
  }
  return event.start_ns < window.end_ns && event.end_ns > window.start_ns;
}

// A step's window with all that runs in it, whichever step launched it: a collective may reach into
// the next one.
KinetoWindow WithAllThatRuns(const KinetoTrace& trace, const KinetoWindow& whole,
                             KinetoWindow window) {
  window.device.clear();
  for (const std::uint32_t event : whole.device) {
    if (RunsIn(trace.device[event], window)) window.device.push_back(event);
  }
  return window;
}

bool HoldsHostOp(const KinetoTrace& trace, const KinetoWindow& window) {
  return std::any_of(trace.host_ops.begin(), trace.host_ops.end(), [&window](const HostSpan& op) {
    return op.start_ns >= window.start_ns && op.start_ns < window.end_ns;
  });
}

}  // namespace

std::vector<StepMark> DistinctSteps(const KinetoTrace& trace) {
  std::vector<StepMark> steps;
  std::unordered_map<std::int64_t, std::size_t> index;
  for (const StepMark& step : trace.steps) {
    const auto [at, is_new] = index.try_emplace(step.number, steps.size());
    if (is_new) {
      steps.push_back(step);
    } else {
      StepMark& same = steps[at->second];
      same.start_ns = std::min(same.start_ns, step.start_ns);
      same.end_ns = std::max(same.end_ns, step.end_ns);
    }
  }
  return steps;
}

std::vector<std::uint32_t> StepsOfDeviceEvents(const KinetoTrace& trace,
                                               std::span<const StepMark> steps) {
  std::vector<std::uint32_t> step_of;
  for (const DeviceEvent& device : trace.device) {
    const std::int64_t when =
        device.call == kNoIndex ? device.start_ns : trace.calls[device.call].span.start_ns;
    const auto after =
        std::upper_bound(steps.begin(), steps.end(), when,
                         [](std::int64_t t, const StepMark& step) { return t < step.start_ns; });
    step_of.push_back(
        after == steps.begin() ? kNoIndex : static_cast<std::uint32_t>(after - steps.begin() - 1));
  }
  return step_of;
}

Result<KinetoWindow> ChooseWindow(const KinetoTrace& trace, const StepChoice& choice) {
  KinetoWindow whole = Whole(trace);
  std::sort(whole.device.begin(), whole.device.end(), [&trace](std::uint32_t a, std::uint32_t b) {
    const DeviceEvent &x = trace.device[a], &y = trace.device[b];
    return x.start_ns != y.start_ns ? x.start_ns < y.start_ns : a < b;
  });
  if (choice.whole) return whole;

  const std::vector<StepMark> steps = DistinctSteps(trace);
  const std::vector<std::uint32_t> step_of = StepsOfDeviceEvents(trace, steps);
  std::vector<KinetoWindow> windows(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) windows[i].step = steps[i].number;
  for (const std::uint32_t event : whole.device) {
    if (step_of[event] != kNoIndex) windows[step_of[event]].device.push_back(event);
  }
  for (std::size_t i = 0; i < windows.size(); ++i) {
    if (windows[i].device.empty()) {
      windows[i].start_ns = steps[i].start_ns;
      windows[i].end_ns = steps[i].end_ns;
      continue;
    }
    windows[i].start_ns = trace.device[windows[i].device.front()].start_ns;
    for (const std::uint32_t event : windows[i].device) {
      windows[i].end_ns = std::max(windows[i].end_ns, trace.device[event].end_ns);
    }
    if (i + 1 < windows.size() && !windows[i + 1].device.empty()) {
      windows[i].end_ns =
          std::max(windows[i].start_ns, trace.device[windows[i + 1].device.front()].start_ns);
    }
  }
  if (choice.number) {
    std::string known;
    for (KinetoWindow& window : windows) {
      if (window.step == choice.number) return WithAllThatRuns(trace, whole, std::move(window));
      known += StrCat(known.empty() ? "" : ", ", *window.step);
    }
    return Error{.message = StrCat(trace.path, ": has no step ", *choice.number,
                                   " (steps: ", known.empty() ? "none" : known, ")")};
  }
  // Without a device, steps are what the host does in them.
  std::erase_if(windows, [&trace](const KinetoWindow& window) {
    if (window.end_ns <= window.start_ns) return true;
    return trace.device.empty() ? !HoldsHostOp(trace, window) : window.device.empty();
  });
  if (windows.size() < 2) return whole;
  std::stable_sort(windows.begin(), windows.end(),
                   [](const KinetoWindow& a, const KinetoWindow& b) {
                     return a.end_ns - a.start_ns < b.end_ns - b.start_ns;
                   });
  return WithAllThatRuns(trace, whole, std::move(windows[(windows.size() - 1) / 2]));
}

Result<AlignedWindows> ChooseWindows(std::span<const KinetoTrace> files, StepChoice choice) {
  AlignedWindows out;
  for (const KinetoTrace& file : files) {
    Result<KinetoWindow> window = ChooseWindow(file, choice);
    if (!window.ok()) return window.error();
    if (!choice.whole && !choice.number) {
      choice.number = window.value().step;
      choice.whole = !choice.number.has_value();
    }
    if (window.value().end_ns - window.value().start_ns > kLongest_ns) {
      return Error{.message = StrCat(file.path, ": spans more than a month")};
    }
    out.windows.push_back(std::move(window).value());
  }
  std::vector<std::int64_t> starts;
  std::int64_t first_start = INT64_MAX, last_end = 0, lengths_ns = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    // The reader keeps both below half of what 64 bits hold.
    starts.push_back(files[i].base_ns + out.windows[i].start_ns);
    const std::int64_t end = files[i].base_ns + out.windows[i].end_ns;
    lengths_ns += end - starts.back();
    first_start = std::min(first_start, starts.back());
    last_end = std::max(last_end, end);
  }
  // Without gaps on the whole; in a pipeline ranks begin one after the other.
  out.one_clock = last_end - first_start <= lengths_ns;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::int64_t late = out.one_clock ? starts[i] - first_start : 0;
    out.zero_ns.push_back(out.windows[i].start_ns - late);
    out.iteration_ns = std::max(out.iteration_ns, out.windows[i].end_ns - out.zero_ns[i]);
  }
  return out;
}

std::string NameOf(std::span<const KinetoTrace> files, const AlignedWindows& aligned) {
  std::string name = std::filesystem::path(files[0].path).filename().string();
  if (files.size() > 1) name += StrCat(" and ", files.size() - 1, " more");
  if (aligned.windows[0].step) name += StrCat(", step ", *aligned.windows[0].step);
  return ValidUtf8(name);
}

}  // namespace twinstep
