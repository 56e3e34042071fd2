#include "exec/runtime/safetensors_header.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "sim/str_cat.h"

namespace twinstep {
namespace {

using Json = nlohmann::json;

constexpr const char* kMetadata = "__metadata__";
constexpr std::string_view kChecksumPrefix = "crc32.";
constexpr std::string_view kHeaderChecksum = "header_crc32";
constexpr std::string_view kNoChecksum = "00000000";

// The deepest legal value is a number of a shape: header, tensor, shape.
constexpr int kMaxDepth = 3;

Error Bad(std::string message) { return Error{.message = std::move(message)}; }

// Where the header's own sum stands in the text; npos if it has none. A quotation mark inside of a
// JSON string is escaped, so that this text can only be the key.
std::size_t HeaderChecksumAt(std::string_view json) {
  const std::string key = StrCat('"', kHeaderChecksum, "\":\"");
  const std::size_t at = json.find(key);
  if (at == std::string_view::npos || json.size() - at < key.size() + kNoChecksum.size()) {
    return std::string_view::npos;
  }
  return at + key.size();
}

std::string Crc32OfText(std::string_view text) {
  return Crc32(std::as_bytes(std::span(text.data(), text.size())));
}

// The JSON library keeps the last of two equal keys; here they are an error.
Result<Json> ParseObject(std::string_view text) {
  std::vector<std::set<std::string>> keys;
  std::string problem;
  const auto check = [&](int depth, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) {
      keys.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (event == Json::parse_event_t::key && !keys.empty() &&
               !keys.back().insert(value.get<std::string>()).second) {
      problem = StrCat("the header has the name '", value.get<std::string>(), "' twice");
    }
    if (depth > kMaxDepth) problem = "the header is nested too deeply";
    return problem.empty();
  };
  Json json = Json::parse(text.begin(), text.end(), check, /*allow_exceptions=*/false);
  if (!problem.empty()) return Bad(problem);
  if (json.is_discarded() || !json.is_object()) return Bad("the header is not a JSON object");
  return json;
}

// A number of [0, 2^63).
bool ReadCount(const Json& value, std::int64_t* count) {
  if (!value.is_number_unsigned()) return false;
  const auto number = value.get<std::uint64_t>();
  if (number > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) return false;
  *count = static_cast<std::int64_t>(number);
  return true;
}

Result<TensorEntry> ParseTensor(const std::string& name, const Json& value,
                                std::int64_t data_bytes) {
  const auto bad = [&name](const std::string& what) {
    return Bad(StrCat("tensor '", name, "' ", what));
  };
  TensorEntry entry{.name = name, .dtype = {}, .shape = {}};
  if (!value.is_object()) return bad("is not described by an object");
  for (const auto& [key, field] : value.items()) {
    if (key == "dtype" && field.is_string()) {
      entry.dtype = field.get<std::string>();
    } else if (key == "shape" && field.is_array()) {
      for (const Json& size : field) {
        std::int64_t count = 0;
        if (!ReadCount(size, &count)) return bad("has a size that is not a whole number");
        entry.shape.push_back(count);
      }
    } else if (key == "data_offsets" && field.is_array() && field.size() == 2) {
      if (!ReadCount(field[0], &entry.begin) || !ReadCount(field[1], &entry.end)) {
        return bad("has offsets that are not whole numbers");
      }
    } else {
      return bad(StrCat("has a field '", key, "' that is unknown or of the wrong type"));
    }
  }
  for (const char* required : {"dtype", "shape", "data_offsets"}) {
    if (!value.contains(required)) return bad(StrCat("has no ", required));
  }
  std::int64_t bytes = SafetensorsDtypeBytes(entry.dtype);
  if (bytes == 0) return bad(StrCat("has the unknown type '", entry.dtype, "'"));
  for (const std::int64_t size : entry.shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) return bad("has a shape above 2^63 bytes");
  }
  if (entry.begin > entry.end || entry.end > data_bytes) {
    return bad(StrCat("has bytes ", entry.begin, " to ", entry.end, " of ", data_bytes,
                      ": the file is truncated or corrupted"));
  }
  if (entry.end - entry.begin != bytes) {
    return bad(StrCat("has ", entry.end - entry.begin, " bytes where type and shape need ", bytes));
  }
  return entry;
}

// The data must be covered without holes and overlaps.
Status CheckRanges(const std::vector<TensorEntry>& tensors, std::int64_t data_bytes) {
  std::int64_t end = 0;
  for (const TensorEntry& entry : tensors) {
    if (entry.begin != end) {
      return Bad(StrCat("tensor '", entry.name, "' begins at byte ", entry.begin,
                        entry.begin < end ? ", inside of another that ends at "
                                          : ", behind a hole that begins at ",
                        end));
    }
    end = entry.end;
  }
  if (end != data_bytes) {
    return Bad(StrCat("the tensors end at byte ", end, " of ", data_bytes));
  }
  return Unit{};
}

Status ReadMetadata(const Json& value, SafetensorsHeader* header) {
  if (!value.is_object()) return Bad(StrCat(kMetadata, " is not an object"));
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) return Bad(StrCat(kMetadata, " '", key, "' is not a string"));
    if (key == kHeaderChecksum) continue;
    if (key.starts_with(kChecksumPrefix)) {
      header->checksums[key.substr(kChecksumPrefix.size())] = text.get<std::string>();
    } else {
      header->metadata[key] = text.get<std::string>();
    }
  }
  return Unit{};
}

}  // namespace

std::string Crc32(std::span<const std::byte> bytes) {
  uLong sum = crc32(0, nullptr, 0);
  while (!bytes.empty()) {  // zlib counts in 32 bits.
    const std::size_t count = std::min(bytes.size(), std::size_t{1} << 30);
    sum = crc32(sum, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(count));
    bytes = bytes.subspan(count);
  }
  std::string digits(kNoChecksum);
  for (std::size_t i = digits.size(); i-- > 0; sum >>= 4) digits[i] = "0123456789abcdef"[sum & 15];
  return digits;
}

Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view text, std::int64_t data_bytes) {
  SafetensorsHeader header;
  if (const std::size_t at = HeaderChecksumAt(text); at != std::string_view::npos) {
    header.has_header_checksum = true;
    std::string zeroed(text);
    zeroed.replace(at, kNoChecksum.size(), kNoChecksum);
    if (Crc32OfText(zeroed) != text.substr(at, kNoChecksum.size())) {
      return Bad("the header is corrupted: its CRC-32 differs");
    }
  }
  const Result<Json> json = ParseObject(text);
  if (!json.ok()) return json.error();
  for (const auto& [name, value] : json.value().items()) {
    if (name == kMetadata) {
      if (const Status read = ReadMetadata(value, &header); !read.ok()) return read.error();
      continue;
    }
    Result<TensorEntry> entry = ParseTensor(name, value, data_bytes);
    if (!entry.ok()) return entry.error();
    header.tensors.push_back(std::move(entry).value());
  }
  std::stable_sort(header.tensors.begin(), header.tensors.end(),
                   [](const TensorEntry& a, const TensorEntry& b) {
                     return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
                   });
  if (const Status ranges = CheckRanges(header.tensors, data_bytes); !ranges.ok()) {
    return ranges.error();
  }
  return header;
}

std::string FormatSafetensorsHeader(const SafetensorsHeader& header) {
  Json json = Json::object();
  Json& metadata = json[kMetadata] = Json::object();
  for (const auto& [key, text] : header.metadata) metadata[key] = text;
  for (const auto& [name, sum] : header.checksums) metadata[StrCat(kChecksumPrefix, name)] = sum;
  metadata[std::string(kHeaderChecksum)] = kNoChecksum;
  for (const TensorEntry& entry : header.tensors) {
    json[entry.name] = {
        {"dtype", entry.dtype}, {"shape", entry.shape}, {"data_offsets", {entry.begin, entry.end}}};
  }
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  text.replace(HeaderChecksumAt(text), kNoChecksum.size(), Crc32OfText(text));
  return text;
}

}  // namespace twinstep
