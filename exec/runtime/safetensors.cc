#include "exec/runtime/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "exec/runtime/safetensors_header.h"
#include "sim/files/atomic_file.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

constexpr std::int64_t kLengthBytes = 8;
// The format's own limit.
constexpr std::int64_t kMaxHeaderBytes = 100'000'000;

Error FileError(const std::string& path, const std::string& reason) {
  return Error{.message = StrCat(path, ": ", reason)};
}

// Reads from `offset` of a file until `bytes` are full.
Status ReadAt(int descriptor, const std::string& path, std::int64_t offset,
              std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = pread(descriptor, bytes.data(), bytes.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(path, StrCat("cannot read: ", std::strerror(errno)));
    if (got == 0) return FileError(path, "ended while it was read");
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += got;
  }
  return Unit{};
}

std::array<std::byte, kLengthBytes> LittleEndian(std::uint64_t value) {
  std::array<std::byte, kLengthBytes> bytes;
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(value & 0xff);
    value >>= 8;
  }
  return bytes;
}

std::uint64_t FromLittleEndian(const std::array<std::byte, kLengthBytes>& bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    value = value << 8 | std::to_integer<unsigned>(bytes[i]);
  return value;
}

}  // namespace

std::int64_t SafetensorsDtypeBytes(const std::string& dtype) {
  static const std::map<std::string, std::int64_t> kBytes = {
      {"F64", 8},     {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F8_E4M3", 1},
      {"F8_E5M2", 1}, {"I64", 8}, {"I32", 4}, {"I16", 2},  {"I8", 1},
      {"U64", 8},     {"U32", 4}, {"U16", 2}, {"U8", 1},   {"BOOL", 1}};
  const auto found = kBytes.find(dtype);
  return found == kBytes.end() ? 0 : found->second;
}

Status WriteSafetensors(const std::string& path, std::span<const TensorView> tensors,
                        const SafetensorsMetadata& metadata) {
  SafetensorsHeader header;
  header.metadata = metadata;
  std::int64_t end = 0;
  for (const TensorView& tensor : tensors) {
    const auto bytes = static_cast<std::int64_t>(tensor.data.size());
    std::int64_t expected = SafetensorsDtypeBytes(tensor.dtype);
    for (const std::int64_t size : tensor.shape) expected *= size;
    if (!header.checksums.emplace(tensor.name, Crc32(tensor.data)).second || expected != bytes) {
      return Error{.code = ExitCode::kInternal,
                   .message = StrCat(path, ": tensor '", tensor.name, "' of ", bytes,
                                     " bytes is there twice or should have ", expected)};
    }
    header.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, end, end + bytes});
    end += bytes;
  }
  const std::string text = FormatSafetensorsHeader(header);

  Result<AtomicFile> created = AtomicFile::Create(path);
  if (!created.ok()) return created.error();
  AtomicFile& file = created.value();
  if (const Status status = file.Append(LittleEndian(text.size())); !status.ok()) return status;
  if (const Status status = file.Append(std::as_bytes(std::span(text))); !status.ok()) {
    return status;
  }
  for (const TensorView& tensor : tensors) {
    if (const Status status = file.Append(tensor.data); !status.ok()) return status;
  }
  return file.Commit();
}

SafetensorsReader::SafetensorsReader(SafetensorsReader&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      is_checksummed_(other.is_checksummed_),
      data_begin_(other.data_begin_),
      tensors_(std::move(other.tensors_)),
      by_name_(std::move(other.by_name_)),
      metadata_(std::move(other.metadata_)),
      checksums_(std::move(other.checksums_)) {}

SafetensorsReader::~SafetensorsReader() {
  if (descriptor_ >= 0) close(descriptor_);
}

Result<SafetensorsReader> SafetensorsReader::Open(const std::string& path) {
  // Not blocking: opening a pipe would wait for its writer.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return FileError(path, StrCat("cannot open: ", std::strerror(errno)));
  SafetensorsReader reader(path, descriptor);
  struct stat info = {};
  if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    return FileError(path, "is not a regular file");
  }
  const std::int64_t file_bytes = info.st_size;
  if (file_bytes < kLengthBytes) {
    return FileError(path, StrCat("is truncated: ", file_bytes, " bytes hold no header"));
  }
  std::array<std::byte, kLengthBytes> length_bytes;
  if (const Status read = ReadAt(descriptor, path, 0, length_bytes); !read.ok()) {
    return read.error();
  }
  const std::uint64_t length = FromLittleEndian(length_bytes);
  if (length > kMaxHeaderBytes) {
    return FileError(path, StrCat("is no safetensors file: a header of ", length, " bytes"));
  }
  const auto header_bytes = static_cast<std::int64_t>(length);
  if (header_bytes > file_bytes - kLengthBytes) {
    return FileError(path, StrCat("is truncated: the header of ", header_bytes,
                                  " bytes does not fit in the file's ", file_bytes));
  }
  std::string text(length, '\0');
  if (const Status read =
          ReadAt(descriptor, path, kLengthBytes, std::as_writable_bytes(std::span(text)));
      !read.ok()) {
    return read.error();
  }
  reader.data_begin_ = kLengthBytes + header_bytes;
  Result<SafetensorsHeader> header = ParseSafetensorsHeader(text, file_bytes - reader.data_begin_);
  if (!header.ok()) return FileError(path, header.error().message);
  reader.tensors_ = std::move(header.value().tensors);
  reader.metadata_ = std::move(header.value().metadata);
  reader.checksums_ = std::move(header.value().checksums);
  for (std::size_t i = 0; i < reader.tensors_.size(); ++i) {
    reader.by_name_[reader.tensors_[i].name] = i;
  }
  const auto is_guarded = [&reader](const TensorEntry& entry) {
    return reader.checksums_.contains(entry.name);
  };
  reader.is_checksummed_ = header.value().has_header_checksum &&
                           std::all_of(reader.tensors_.begin(), reader.tensors_.end(), is_guarded);
  return reader;
}

const TensorEntry* SafetensorsReader::Find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

Result<std::vector<std::byte>> SafetensorsReader::Read(const TensorEntry& entry) const {
  std::vector<std::byte> data(static_cast<std::size_t>(entry.end - entry.begin));
  const Status read = ReadAt(descriptor_, path_, data_begin_ + entry.begin, data);
  if (!read.ok()) return read.error();
  const auto sum = checksums_.find(entry.name);
  if (sum != checksums_.end() && sum->second != Crc32(data)) {
    return FileError(path_, StrCat("tensor '", entry.name, "' is corrupted: its CRC-32 differs"));
  }
  return data;
}

}  // namespace twinstep
