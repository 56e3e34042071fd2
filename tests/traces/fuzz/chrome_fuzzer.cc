// Bytes as a Chrome trace, of ours and of Kineto: an error that names the file, or a trace that
// holds what its schema says, can be summed up, and replayed.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "traces/activity.h"
#include "traces/check_trace.h"
#include "traces/chrome_reader.h"
#include "traces/kineto/byte_source.h"
#include "traces/kineto/kineto_import.h"
#include "traces/kineto/kineto_reader.h"
#include "traces/kineto/kineto_work.h"
#include "traces/work_replay.h"

namespace twinstep {
namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

void RequireSound(const Trace& trace) {
  Require(TraceProblem(trace).empty());
  SummarizeActivity(trace);
}

void ReadProfile(std::string_view bytes) {
  ByteSource source(bytes);
  const Result<KinetoTrace> file = ReadKineto(source, "f");
  if (!file.ok()) return Require(file.error().message.starts_with("f: "));
  for (const bool whole : {true, false}) {
    const StepChoice step{.whole = whole, .number = {}};
    const Result<Trace> trace = ImportKineto({&file.value(), 1}, step);
    if (trace.ok()) RequireSound(trace.value());
    const Result<WorkGraph> work = WorkOfKineto({&file.value(), 1}, step);
    if (!work.ok()) continue;
    const Result<WorkReplay> run = ReplayWork(work.value(), {});
    if (run.ok()) RequireSound(run.value().trace);
  }
}

}  // namespace
}  // namespace twinstep

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace twinstep;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  ByteSource source(bytes);
  const Result<Trace> own = ReadChromeTrace(source, "f");
  if (own.ok()) RequireSound(own.value());
  ReadProfile(bytes);
  return 0;
}
