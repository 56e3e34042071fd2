// Bytes as a Chakra file: an error that names the file, or tasks that can be replayed.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "traces/chakra/chakra_file.h"
#include "traces/chakra/chakra_import.h"
#include "traces/chakra/chakra_trace.h"
#include "traces/check_trace.h"
#include "traces/work_replay.h"

namespace twinstep {
namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace
}  // namespace twinstep

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace twinstep;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Result<ChakraFile> file = ParseChakraFile(bytes, "f.0.et");
  if (!file.ok()) {
    Require(file.error().message.starts_with("f.0.et: "));
    return 0;
  }
  const Result<std::optional<Trace>> own = OwnTraceOf({&file.value(), 1});
  if (own.ok() && own.value()) Require(TraceProblem(*own.value()).empty());
  const Result<ChakraImport> import = ImportChakra({&file.value(), 1});
  if (!import.ok()) return 0;
  LintText(import.value().lint);
  const Result<WorkReplay> run = ReplayWork(import.value().work, {});
  if (run.ok()) Require(TraceProblem(run.value().trace).empty());
  return 0;
}
