#include "traces/trace_io.h"

#include <google/protobuf/io/gzip_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "traces/check_trace.h"
#include "traces/perfetto_writer.h"

namespace twinstep {
namespace {

bool HasSuffix(const std::string& path, const std::string& suffix) {
  return path.size() > suffix.size() &&
         path.compare(path.size() - suffix.size(), suffix.size(), suffix) == 0;
}

Error FileError(const std::string& path, const std::string& what) {
  return Error{.message = path + ": " + what};
}

Error LastFileError(const std::string& path, const std::string& what) {
  return FileError(path, what + ": " + std::strerror(errno));
}

}  // namespace

Status CheckTraceName(const std::string& path) {
  for (const char* suffix : {".json", ".pb", ".pftrace"}) {
    if (HasSuffix(path, suffix)) return Unit{};
  }
  return FileError(path,
                   "a trace file ends in .json (Chrome), .pftrace (Perfetto) or .pb (Twinstep)");
}

Status WriteTrace(const Trace& trace, const ChromeJsonOptions& options, const std::string& path) {
  if (Status known = CheckTraceName(path); !known.ok()) return known;
  std::ofstream out(path, std::ios::binary);
  if (!out) return LastFileError(path, "cannot write");
  if (HasSuffix(path, ".json")) {
    WriteChromeJson(trace, options, out);
  } else if (HasSuffix(path, ".pftrace")) {
    WritePerfetto(trace, options.flows, out);
  } else if (!trace.SerializeToOstream(&out)) {
    // Protobuf refuses messages above 2 GiB.
    return FileError(path, "cannot write a trace of " + std::to_string(trace.task_size()) +
                               " events as one protobuf message");
  }
  out.close();
  if (!out) return LastFileError(path, "cannot write");
  return Unit{};
}

Result<Trace> ReadTrace(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return LastFileError(path, "cannot read");
  Trace trace;
  google::protobuf::io::IstreamInputStream bytes(&in);
  bool parsed = false;
  if (HasSuffix(path, ".gz")) {
    google::protobuf::io::GzipInputStream decompressed(&bytes);
    parsed = trace.ParseFromZeroCopyStream(&decompressed);
  } else {
    parsed = trace.ParseFromZeroCopyStream(&bytes);
  }
  if (!parsed) return FileError(path, "is not a Twinstep trace");
  if (const std::string bad = TraceProblem(trace); !bad.empty()) return FileError(path, bad);
  return trace;
}

}  // namespace twinstep
