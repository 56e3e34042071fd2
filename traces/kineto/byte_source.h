// The bytes of a file, decompressed if it is gzip, in pieces of bounded size.
//
//   Result<ByteSource> source = ByteSource::Open("trace.json.gz");
//   while (source.value().Peek() != '\0') Use(source.value().Take());
//   if (!source.value().error().empty()) ...   // "the gzip stream is cut short"
#pragma once

#include <zlib.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/result.h"

namespace twinstep {

// Also the input stream that RapidJSON reads from: '\0' stands for the end.
class ByteSource {
 public:
  using Ch = char;  // Asked for by RapidJSON.

  // An Error (kBadInput) names the file.
  static Result<ByteSource> Open(const std::string& path);
  // Of bytes in memory, as they are; they must outlive the source.
  explicit ByteSource(std::string_view bytes);

  char Peek() const { return *current_; }
  char Take() {
    const char c = *current_;
    if (current_ == last_) {
      Refill();
    } else {
      ++current_;
    }
    return c;
  }
  // Decompressed bytes before the next one.
  std::size_t Tell() const { return consumed_ + static_cast<std::size_t>(current_ - begin_); }

  // Why the bytes end before the file's own end; empty if they do not.
  const std::string& error() const { return error_; }

  // What RapidJSON's stream concept has for streams that are written.
  char* PutBegin() { return nullptr; }
  void Put(char) {}
  void Flush() {}
  std::size_t PutEnd(char*) { return 0; }

 private:
  struct Close {
    void operator()(gzFile file) const { gzclose(file); }
  };

  ByteSource() = default;
  // Moves on to the next piece; the end is a piece of one '\0'.
  void Refill();

  std::unique_ptr<gzFile_s, Close> file_;
  std::vector<char> buffer_;
  const char* begin_ = nullptr;
  const char* current_ = nullptr;
  const char* last_ = nullptr;  // The piece's last byte.
  std::size_t consumed_ = 0;    // Bytes of the pieces before.
  std::string error_;
};

}  // namespace twinstep
