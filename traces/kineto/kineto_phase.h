// Which part of the iteration launched a kernel: forward, recomputation, backward or optimizer.
#pragma once

#include <vector>

#include "sim/graph/ids.h"
#include "traces/kineto/kineto_trace.h"

namespace twinstep {

// By index of KinetoTrace::device. A launch inside of "Optimizer.step#..." is the optimizer's; one
// inside of autograd's evaluation of a node is the backward's, unless the innermost node is that of
// a checkpoint, which runs the forward again; all others are the forward's.
std::vector<Phase> PhasesOfDeviceEvents(const KinetoTrace& trace);

}  // namespace twinstep
