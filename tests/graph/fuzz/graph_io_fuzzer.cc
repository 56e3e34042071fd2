// Bytes as a task graph: refused with a reason, or sound: then written and read again, verified,
// drawn.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sim/graph/dot.h"
#include "sim/graph/graph_io.h"
#include "sim/graph/verifier.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace twinstep;
  const Result<TaskGraph> graph = ParseGraph({reinterpret_cast<const char*>(data), size}, "fuzzed");
  if (!graph.ok()) return 0;
  const Result<std::string> bytes = SerializeGraph(graph.value());
  if (!bytes.ok()) std::abort();
  const Result<TaskGraph> again = ParseGraph(bytes.value(), "again");
  if (!again.ok() || SerializeGraph(again.value()).value() != bytes.value()) std::abort();
  const std::optional<Violation> violation = Verify(graph.value());
  if (violation.has_value() && violation->message.empty()) std::abort();
  if (ToDot(graph.value()).empty()) std::abort();
  return 0;
}
