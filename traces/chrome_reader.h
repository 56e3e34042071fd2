// Reads our own Chrome JSON (traces/chrome_json.h) back as the Trace that it was written from.
//
//   if (IsOwnChromeJson("step.json.gz").value()) Result<Trace> trace = ReadChromeTrace(path);
#pragma once

#include <string>

#include "sim/result.h"
#include "traces/kineto/byte_source.h"
#include "traces/trace.pb.h"

namespace twinstep {

// Whether the file is ours, also where a tool has written it anew; another Chrome trace is not. An
// Error where it cannot be read.
Result<bool> IsOwnChromeJson(const std::string& path);

// Errors (kBadInput) name the file and the event or table that does not fit.
Result<Trace> ReadChromeTrace(const std::string& path);
Result<Trace> ReadChromeTrace(ByteSource& source, const std::string& name);

}  // namespace twinstep
