#include "traces/trace_io.h"

#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "sim/files/write_file.h"
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

// All of it, its checksum included (protobuf's own stream stops before that).
Result<std::string> ReadGzip(const std::string& path) {
  const gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) return LastFileError(path, "cannot read");
  std::string bytes;
  std::vector<char> piece(1 << 18);
  int read = 0;
  while ((read = gzread(file, piece.data(), static_cast<unsigned>(piece.size()))) > 0) {
    bytes.append(piece.data(), static_cast<std::size_t>(read));
  }
  const int closed = gzclose_r(file);
  if (read < 0 || closed != Z_OK) {
    return FileError(path, "the gzip stream is cut short or broken");
  }
  return bytes;
}

}  // namespace

Status CheckTraceName(const std::string& path, bool or_chakra) {
  if (or_chakra && HasSuffix(path, ".et")) return Unit{};
  for (const char* suffix : {".json", ".pb", ".pftrace"}) {
    if (HasSuffix(path, suffix)) return Unit{};
  }
  return FileError(path, std::string("a trace file ends in .json (Chrome), .pftrace (Perfetto)") +
                             (or_chakra ? ", .et (Chakra)" : "") + " or .pb (Twinstep)");
}

Status WriteTrace(const Trace& trace, const ChromeJsonOptions& options, const std::string& path) {
  if (Status known = CheckTraceName(path); !known.ok()) return known;
  return WriteFile(path, [&](std::ostream& out) -> Status {
    if (HasSuffix(path, ".json")) {
      WriteChromeJson(trace, options, out);
    } else if (HasSuffix(path, ".pftrace")) {
      WritePerfetto(trace, options.flows, out);
    } else if (!trace.SerializeToOstream(&out)) {
      // Protobuf refuses messages above 2 GiB.
      return FileError(path, "cannot write a trace of " + std::to_string(trace.task_size()) +
                                 " events as one protobuf message");
    }
    return Unit{};
  });
}

Result<Trace> ReadTrace(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return LastFileError(path, "cannot read");
  Trace trace;
  bool parsed = false;
  if (HasSuffix(path, ".gz")) {
    Result<std::string> bytes = ReadGzip(path);
    if (!bytes.ok()) return bytes.error();
    parsed = trace.ParseFromString(bytes.value());
  } else {
    google::protobuf::io::IstreamInputStream bytes(&in);
    parsed = trace.ParseFromZeroCopyStream(&bytes);
  }
  if (!parsed) return FileError(path, "is not a Twinstep trace");
  if (const std::string bad = TraceProblem(trace); !bad.empty()) return FileError(path, bad);
  return trace;
}

}  // namespace twinstep
