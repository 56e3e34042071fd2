// Finds which field of a protobuf text file a position lies in, without a schema: the parser's own
// messages name a position and no field.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace twinstep {

struct FieldAt {
  std::string path;        // "node.pcie.h2d_bytes_per_s"; "" outside any field.
  std::size_t begin = 0;   // Where the innermost field's name stands.
  std::size_t column = 0;  // 0-based, of `begin`, as OffsetOf takes it.
  std::size_t line = 0;    // 0-based, of `begin`.
};

// The innermost field that begins at or before `offset` and has not ended there.
FieldAt FindField(std::string_view text, std::size_t offset);

// Byte offset of a 0-based line and column as protobuf's tokenizer counts them (a tab moves to the
// next multiple of 8), at most the size of the text.
std::size_t OffsetOf(std::string_view text, std::size_t line, std::size_t column);

// The column of `offset` in the line that starts at `line_begin`, counted likewise.
std::size_t ColumnOf(std::string_view text, std::size_t line_begin, std::size_t offset);

}  // namespace twinstep
