// Any bytes as a safetensors file: refused with a reason, or read with every tensor inside the
// file.

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "exec/runtime/safetensors_header.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace twinstep;  // NOLINT: one function.
  if (size < 2) return 0;
  // The first two bytes say how many data lie behind the header.
  const std::int64_t data_bytes = data[0] | data[1] << 8;
  const std::string_view json(reinterpret_cast<const char*>(data + 2), size - 2);
  const Result<SafetensorsHeader> header = ParseSafetensorsHeader(json, data_bytes);
  if (!header.ok()) {
    if (header.error().message.empty()) std::abort();
    return 0;
  }
  std::int64_t end = 0;
  for (const TensorEntry& entry : header.value().tensors) {
    if (entry.begin != end || entry.end < entry.begin) std::abort();
    end = entry.end;
  }
  if (end != data_bytes) std::abort();
  // What was read can be written and read again.
  const std::string again = FormatSafetensorsHeader(header.value());
  if (!ParseSafetensorsHeader(again, data_bytes).ok()) std::abort();
  return 0;
}
