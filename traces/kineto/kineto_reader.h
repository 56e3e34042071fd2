// Reads Kineto's traces (PyTorch's profiler of any version, NVIDIA and AMD) and other Chrome
// traces.
//
//   Result<KinetoTrace> trace = ReadKineto("rank0.pt.trace.json.gz");
//   for (const DeviceEvent& event : trace.value().device) total += event.end_ns - event.start_ns;
//
// Format: `cat` of complete events says what they are, in the words of any version;
// args.correlation joins a launch with its kernel. Memory grows with the events that are kept
// (about 60 bytes each), not with the file.
#pragma once

#include <string>

#include "sim/result.h"
#include "traces/kineto/byte_source.h"
#include "traces/kineto/kineto_trace.h"

namespace twinstep {

// Errors (kBadInput) name the file: what ReadChromeEvents says, a time below zero, or no complete
// event at all.
Result<KinetoTrace> ReadKineto(const std::string& path);
Result<KinetoTrace> ReadKineto(ByteSource& source, const std::string& name);

}  // namespace twinstep
