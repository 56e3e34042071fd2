// Columns of whole numbers as few bytes: LEB128, then deflate, then base64.
#pragma once

#include <cstdint>
#include <string>

namespace twinstep {

class ColumnWriter {
 public:
  void Add(std::uint64_t value);
  void AddSigned(std::int64_t value);  // Zigzag.

  // Everything that was added, as a page's decoder reads it.
  std::string ToBase64() const;

 private:
  std::string bytes_;
};

}  // namespace twinstep
