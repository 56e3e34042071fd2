// Trace files, by suffix: .pb is the Trace message (binary), .json Chrome JSON, .pftrace Perfetto's
// protobuf. (What is read, of any origin: traces/open_trace.h.)
#pragma once

#include <string>

#include "sim/result.h"
#include "traces/chrome_json.h"
#include "traces/trace.pb.h"

namespace twinstep {

// Whether WriteTrace knows the suffix, to refuse a name before any work is done; with `or_chakra`
// also .et, for which the caller has a writer (traces/chakra).
Status CheckTraceName(const std::string& path, bool or_chakra = false);

// `options` are for .json and .pftrace. An Error (kBadInput) names the file and the reason.
Status WriteTrace(const Trace& trace, const ChromeJsonOptions& options, const std::string& path);

// Reads a .pb file, or a .pb.gz; it holds what TraceProblem (traces/check_trace.h) asks for.
Result<Trace> ReadTrace(const std::string& path);

}  // namespace twinstep
