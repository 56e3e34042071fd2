// Writes a whole file through a stream; the old one stays until the new one is complete
// (sim/files/atomic_file.h).
//
//   Status written = WriteFile("step.json", [&](std::ostream& out) { WriteChromeJson(trace, out);
//   });
#pragma once

#include <functional>
#include <ostream>
#include <string>

#include "sim/result.h"

namespace twinstep {

// `write` need not look at the stream's state. An Error (kBadInput) names the path and why it
// cannot be written, or is what `write` returns; then what the file held before is as it was.
Status WriteFile(const std::string& path, const std::function<Status(std::ostream&)>& write);

}  // namespace twinstep
