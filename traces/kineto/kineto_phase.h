// Which part of the iteration launched a kernel: forward, recomputation, backward or optimizer.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "sim/graph/ids.h"
#include "traces/kineto/kineto_trace.h"

namespace twinstep {

// What the name of an operator or annotation says: optimizer ("Optimizer.step#..."), backward
// (autograd's evaluation of a node) or recomputation (that of a checkpoint's node, which runs the
// forward again). Nothing of others.
std::optional<Phase> PhaseOfSpan(std::string_view name);

// By index of KinetoTrace::device: the phase of the innermost such span around the launch. Launches
// outside of them are the forward's where the profile has such spans, or an operator is around
// them. Nothing where the profile does not tell: without the launch, or without operators.
std::vector<std::optional<Phase>> PhasesOfDeviceEvents(const KinetoTrace& trace);

}  // namespace twinstep
