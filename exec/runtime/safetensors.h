// Files of named tensors in the safetensors format (https://github.com/huggingface/safetensors): an
// 8-byte little-endian length, a JSON header of names, types, shapes and byte ranges, then the
// data.
//
//   Status written = WriteSafetensors("weights.safetensors", tensors, {{"format", "pt"}});
//
//   Result<SafetensorsReader> file = SafetensorsReader::Open("weights.safetensors");
//   for (const TensorEntry& entry : file.value().tensors()) {
//     Result<std::vector<std::byte>> data = file.value().Read(entry);
//   }
//
// The writer adds CRC-32 sums (zlib's) to the metadata: of each tensor ("crc32.NAME") and of the
// header itself ("header_crc32", computed with zeros in its own place). The reader verifies those
// that it finds, so files of other writers can be read as well.
//
// A file that is truncated, corrupted, or breaks the format's rules (ranges that overlap, leave
// holes or contradict the shape, duplicate names, absurd sizes) is an Error (kBadInput) that names
// file, tensor and reason. The file's own size bounds what is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "sim/result.h"

namespace twinstep {

using SafetensorsMetadata = std::map<std::string, std::string>;

struct TensorEntry {
  std::string name;
  std::string dtype;  // "F64", "F32", "F16", "BF16", "I32", ...
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0, end = 0;  // Bytes, from the start of the data.
};

struct TensorView {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
};

// Bytes of an element; 0 for a type that the format does not have.
std::int64_t SafetensorsDtypeBytes(const std::string& dtype);

// Writes all or nothing (sim/files/atomic_file.h), in the order given. Names must differ, and a
// view's data be as long as its shape says: else an Error (kInternal).
Status WriteSafetensors(const std::string& path, std::span<const TensorView> tensors,
                        const SafetensorsMetadata& metadata);

class SafetensorsReader {
 public:
  // Reads and checks the header; the data are left in the file.
  static Result<SafetensorsReader> Open(const std::string& path);
  SafetensorsReader(SafetensorsReader&& other) noexcept;
  SafetensorsReader& operator=(SafetensorsReader&&) = delete;
  ~SafetensorsReader();

  const std::string& path() const { return path_; }
  // In the order of their data.
  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  // Without the sums.
  const SafetensorsMetadata& metadata() const { return metadata_; }
  // Whether sums guard the header and every tensor.
  bool is_checksummed() const { return is_checksummed_; }
  // Null if there is none of this name.
  const TensorEntry* Find(const std::string& name) const;
  Result<std::vector<std::byte>> Read(const TensorEntry& entry) const;

 private:
  SafetensorsReader(std::string path, int descriptor)
      : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_;
  bool is_checksummed_ = false;
  std::int64_t data_begin_ = 0;  // Bytes, from the start of the file.
  std::vector<TensorEntry> tensors_;
  std::map<std::string, std::size_t> by_name_;
  SafetensorsMetadata metadata_, checksums_;  // Sums by tensor name.
};

}  // namespace twinstep
