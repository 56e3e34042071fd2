#include "sim/files/write_file.h"

#include <array>
#include <optional>
#include <span>
#include <streambuf>
#include <utility>

#include "sim/files/atomic_file.h"

namespace twinstep {
namespace {

// Hands what is written on in pieces, and keeps the first error.
class FileBuffer : public std::streambuf {
 public:
  explicit FileBuffer(AtomicFile* file) : file_(*file) { Restart(); }

  Status Finish() {
    Flush();
    return status_;
  }

 protected:
  int_type overflow(int_type c) override {
    if (!Flush()) return traits_type::eof();
    if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
    return sputc(traits_type::to_char_type(c));
  }
  int sync() override { return Flush() ? 0 : -1; }

 private:
  void Restart() { setp(piece_.data(), piece_.data() + piece_.size()); }
  bool Flush() {
    const std::span<const char> bytes(pbase(), pptr());
    if (status_.ok() && !bytes.empty()) status_ = file_.Append(std::as_bytes(bytes));
    Restart();
    return status_.ok();
  }

  AtomicFile& file_;
  std::array<char, 1 << 16> piece_;
  Status status_ = Unit{};
};

}  // namespace

Status WriteFile(const std::string& path, const std::function<Status(std::ostream&)>& write) {
  Result<AtomicFile> file = AtomicFile::Create(path);
  if (!file.ok()) return file.error();
  FileBuffer buffer(&file.value());
  std::ostream out(&buffer);
  const Status written = write(out);
  // A full disk is why `write` fails, where it does.
  if (const Status finished = buffer.Finish(); !finished.ok()) return finished;
  if (!written.ok()) return written;
  return file.value().Commit(Survives::kProcess);
}

}  // namespace twinstep
