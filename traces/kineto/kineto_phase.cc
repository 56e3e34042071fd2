#include "traces/kineto/kineto_phase.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>

namespace twinstep {
namespace {

struct PhaseSpan {
  std::uint32_t thread = 0;
  std::int64_t start_ns = 0, end_ns = 0;
  Phase phase = Phase::kForward;
};

}  // namespace

std::optional<Phase> PhaseOfSpan(std::string_view name) {
  if (name.starts_with("Optimizer.")) return Phase::kOptimizer;
  if (name.find("Backward") == std::string_view::npos) return std::nullopt;
  if (name.find("CheckpointFunctionBackward") != std::string_view::npos) return Phase::kRecompute;
  return Phase::kBackward;
}

std::vector<std::optional<Phase>> PhasesOfDeviceEvents(const KinetoTrace& trace) {
  std::vector<std::optional<Phase>> of_name;
  for (const std::string& name : trace.names) of_name.push_back(PhaseOfSpan(name));
  std::vector<PhaseSpan> spans;
  for (const std::vector<HostSpan>* list : {&trace.host_ops, &trace.annotations}) {
    for (const HostSpan& span : *list) {
      if (of_name[span.name])
        spans.push_back({span.thread, span.start_ns, span.end_ns, *of_name[span.name]});
    }
  }
  // What lies outside of such spans is the forward's; without them, what lies inside of operators.
  const bool tells_phases = !spans.empty();
  if (!tells_phases) {
    for (const HostSpan& span : trace.host_ops) {
      spans.push_back({span.thread, span.start_ns, span.end_ns, Phase::kForward});
    }
  }
  std::sort(spans.begin(), spans.end(), [](const PhaseSpan& a, const PhaseSpan& b) {
    if (a.thread != b.thread) return a.thread < b.thread;
    if (a.start_ns != b.start_ns) return a.start_ns < b.start_ns;
    return a.end_ns > b.end_ns;  // The outer one first.
  });

  std::vector<std::uint32_t> launched;
  for (std::uint32_t i = 0; i < trace.device.size(); ++i) {
    if (trace.device[i].call != kNoIndex) launched.push_back(i);
  }
  const auto launch = [&trace](std::uint32_t event) -> const HostSpan& {
    return trace.calls[trace.device[event].call].span;
  };
  std::sort(launched.begin(), launched.end(), [&launch](std::uint32_t a, std::uint32_t b) {
    const HostSpan &x = launch(a), &y = launch(b);
    return x.thread != y.thread ? x.thread < y.thread : x.start_ns < y.start_ns;
  });

  std::vector<std::optional<Phase>> phases(trace.device.size());
  std::vector<PhaseSpan> open;  // Around the launch, the innermost last.
  std::size_t next = 0;
  for (const std::uint32_t event : launched) {
    const HostSpan& call = launch(event);
    for (; next < spans.size() &&
           (spans[next].thread < call.thread ||
            (spans[next].thread == call.thread && spans[next].start_ns <= call.start_ns));
         ++next) {
      open.push_back(spans[next]);
    }
    std::erase_if(open, [&call](const PhaseSpan& span) {
      return span.thread != call.thread || span.end_ns < call.start_ns;
    });
    if (!open.empty()) {
      phases[event] = open.back().phase;
    } else if (tells_phases) {
      phases[event] = Phase::kForward;
    }
  }
  return phases;
}

}  // namespace twinstep
