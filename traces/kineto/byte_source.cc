#include "traces/kineto/byte_source.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "sim/str_cat.h"

namespace twinstep {
namespace {

constexpr unsigned kPieceBytes = 256 * 1024;
constexpr char kEnd = '\0';

}  // namespace

Result<ByteSource> ByteSource::Open(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return Error{.message = StrCat(path, ": is a folder")};
  }
  errno = 0;
  ByteSource source;
  source.file_.reset(gzopen(path.c_str(), "rb"));
  if (source.file_ == nullptr) {
    return Error{.message = StrCat(
                     path, ": cannot read: ", errno == 0 ? "out of memory" : std::strerror(errno))};
  }
  gzbuffer(source.file_.get(), kPieceBytes);
  source.buffer_.resize(kPieceBytes);
  source.Refill();
  return source;
}

ByteSource::ByteSource(std::string_view bytes) {
  if (bytes.empty()) {
    begin_ = current_ = last_ = &kEnd;
    return;
  }
  begin_ = current_ = bytes.data();
  last_ = bytes.data() + bytes.size() - 1;
}

void ByteSource::Refill() {
  if (last_ != nullptr && last_ != &kEnd) consumed_ += static_cast<std::size_t>(last_ - begin_) + 1;
  int read = 0;
  if (file_ != nullptr && error_.empty()) {
    read = gzread(file_.get(), buffer_.data(), kPieceBytes);
    // zlib tells of a stream that is cut short beside the last bytes that it has.
    int code = Z_OK;
    const char* what = gzerror(file_.get(), &code);
    if (code == Z_BUF_ERROR) {
      error_ = "the gzip stream is cut short";
    } else if (code == Z_ERRNO) {
      error_ = std::strerror(errno);
    } else if (code != Z_OK && code != Z_STREAM_END) {
      error_ = StrCat("the gzip stream is broken: ", what);
    }
  }
  if (read > 0) {
    begin_ = current_ = buffer_.data();
    last_ = begin_ + read - 1;
  } else {
    begin_ = current_ = last_ = &kEnd;
  }
}

}  // namespace twinstep
