// Profiles as one Trace, a rank a device.
//
//   std::vector<KinetoTrace> files = ...;   // One a process.
//   Result<Trace> trace = ImportKineto(files, {});
//
// A stream is a lane ("stream 7"), a kernel's name the operator, copies and collectives have the
// kinds of sim/graph/ids.h. Without any event on a device, threads are the lanes, and their
// outermost operators and process-group annotations ("gloo:all_reduce") the tasks. Events of
// categories that are not known stay, as kind kUnknownKind (traces/imported_names.h).
#pragma once

#include <span>
#include <string>

#include "sim/result.h"
#include "traces/kineto/kineto_trace.h"
#include "traces/kineto/kineto_window.h"
#include "traces/trace.pb.h"

namespace twinstep {

// Which step, and whose clock: ChooseWindows (traces/kineto/kineto_window.h). An Error (kBadInput)
// names the file: what ChooseWindows says, a second file of a rank, or nothing that runs.
Result<Trace> ImportKineto(std::span<const KinetoTrace> files, const StepChoice& choice);

// What an event is called.
std::string OperatorName(const KinetoTrace& trace, const DeviceEvent& event);

}  // namespace twinstep
