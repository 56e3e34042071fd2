#include "traces/show/columns.h"

#include <zlib.h>

#include <algorithm>

namespace twinstep {
namespace {

constexpr int kDeflateLevel = 6;

std::string Deflate(const std::string& bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string packed(size, '\0');
  // Fails only for want of memory or room, and has both.
  compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
            reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uLong>(bytes.size()),
            kDeflateLevel);
  packed.resize(size);
  return packed;
}

std::string Base64(const std::string& bytes) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      group = group << 8 | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      text += j <= count ? kDigits[group >> (18 - 6 * j) & 63] : '=';
    }
  }
  return text;
}

}  // namespace

void ColumnWriter::Add(std::uint64_t value) {
  while (value > 127) {
    bytes_ += static_cast<char>(value | 128);
    value >>= 7;
  }
  bytes_ += static_cast<char>(value);
}

void ColumnWriter::AddSigned(std::int64_t value) {
  Add(static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63));
}

std::string ColumnWriter::ToBase64() const { return Base64(Deflate(bytes_)); }

}  // namespace twinstep
