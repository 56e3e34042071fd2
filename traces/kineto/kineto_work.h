// A profile as a program to replay: what each kernel waited for.
//
//   Result<WorkGraph> work = WorkOfKineto(files, {});
//   Result<WorkReplay> run = ReplayWork(work.value(), factors);   // traces/work_replay.h
//
// Kernels, copies and fills are tasks; a stream is a lane. A kernel waits for the one before it in
// its stream, for its launch, for what its stream was told to wait for (cudaStreamWaitEvent), and,
// over the profiles of several ranks, its collective for the other members of its process group, a
// message for its other end (which the profile names, or which ends at the same time). The host is
// one lane of launches in their order, with the host's time between them as it was; where the host
// waited for a device (cudaDeviceSynchronize and the like) it does again. What of a kernel's start
// none of these explains, but the end of one on another stream just before does, is taken to be a
// dependency (a profile without events of synchronisation has them, too). The rest stays a gap
// before the kernel.
#pragma once

#include <span>

#include "sim/result.h"
#include "traces/kineto/kineto_trace.h"
#include "traces/kineto/kineto_window.h"
#include "traces/work_graph.h"

namespace twinstep {

// Several files are ranks; so are the devices of one, each with the launches that it got and its
// own host. An Error (kBadInput) names the file: no event on a device, a second file of a rank,
// times too far apart.
Result<WorkGraph> WorkOfKineto(std::span<const KinetoTrace> files, const StepChoice& choice);

}  // namespace twinstep
