// The JSON header of a safetensors file.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/runtime/safetensors.h"
#include "sim/result.h"

namespace twinstep {

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  // In the order of their data.
  SafetensorsMetadata metadata;      // Without the sums.
  SafetensorsMetadata checksums;     // By tensor name, eight hexadecimal digits.
  bool has_header_checksum = false;  // Found and verified; the writer always adds one.
};

// Checks every rule of the format against `data_bytes`, the bytes behind the header. Errors say
// what is wrong, not in which file.
Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json, std::int64_t data_bytes);

// Padded with spaces to a multiple of 8 bytes, with the header's own sum in it.
std::string FormatSafetensorsHeader(const SafetensorsHeader& header);

// Eight hexadecimal digits.
std::string Crc32(std::span<const std::byte> bytes);

}  // namespace twinstep
