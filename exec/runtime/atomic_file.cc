#include "exec/runtime/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "sim/str_cat.h"

namespace twinstep {
namespace {

Error SystemError(const std::string& path, const char* action, int reason) {
  return Error{.message = StrCat(path, ": cannot ", action, ": ", std::strerror(reason))};
}

// Devices, pipes and sockets are written to: a file in their place would end them.
bool IsStream(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
         !std::filesystem::is_directory(status);
}

// What a symbolic link names is replaced, and not the link.
std::string Target(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error)) return path;
  const std::filesystem::path target = std::filesystem::canonical(path, error);
  return error ? path : target.string();
}

std::string FolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// The folder's entry of a renamed file survives a crash of the machine only after this.
Status SyncFolder(const std::string& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return SystemError(folder, "open", errno);
  const int failed = fsync(descriptor) == 0 ? 0 : errno;
  close(descriptor);
  // Some file systems cannot sync folders and say EINVAL.
  if (failed != 0 && failed != EINVAL) return SystemError(folder, "sync", failed);
  return Unit{};
}

}  // namespace

std::string TemporaryPath(const std::string& path) {
  const std::filesystem::path whole(path);
  return (whole.parent_path() / StrCat(".", whole.filename().string(), ".tmp")).string();
}

Result<AtomicFile> AtomicFile::Create(const std::string& named) {
  if (IsStream(named)) {
    const int descriptor = open(named.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor < 0) return SystemError(named, "open", errno);
    return AtomicFile(named, "", descriptor);
  }
  const std::string path = Target(named);
  const std::string temporary_path = TemporaryPath(path);
  const int descriptor =
      open(temporary_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) return SystemError(path, "create", errno);
  return AtomicFile(path, temporary_path, descriptor);
}

Status CheckWritable(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return SystemError(path, "write", EISDIR);
  // Opening a pipe would wait for its reader, and closing it again end what that reads.
  if (IsStream(path)) {
    if (access(path.c_str(), W_OK) != 0) return SystemError(path, "write", errno);
    return Unit{};
  }
  const Result<AtomicFile> probe = AtomicFile::Create(path);
  if (!probe.ok()) return probe.error();
  return Unit{};
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_path_(std::move(other.temporary_path_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  if (!is_stream()) unlink(temporary_path_.c_str());
}

Status AtomicFile::Append(std::span<const std::byte> bytes) {
  // Linux writes at most 2 GiB a call.
  constexpr std::size_t kMaxWriteBytes = std::size_t{1} << 30;
  while (!bytes.empty()) {
    const ssize_t written =
        write(descriptor_, bytes.data(), std::min(bytes.size(), kMaxWriteBytes));
    if (written < 0) {
      if (errno == EINTR) continue;
      return SystemError(is_stream() ? path_ : temporary_path_, "write", errno);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return Unit{};
}

Status AtomicFile::Commit() {
  if (is_stream()) {
    if (close(std::exchange(descriptor_, -1)) != 0) return SystemError(path_, "close", errno);
    return Unit{};
  }
  if (fsync(descriptor_) != 0) return SystemError(temporary_path_, "sync", errno);
  // A network file system may report a failed write only here.
  if (close(std::exchange(descriptor_, -1)) != 0) {
    const int reason = errno;
    unlink(temporary_path_.c_str());
    return SystemError(temporary_path_, "close", reason);
  }
  if (std::rename(temporary_path_.c_str(), path_.c_str()) != 0) {
    const int reason = errno;
    unlink(temporary_path_.c_str());
    return SystemError(path_, "rename the temporary file", reason);
  }
  return SyncFolder(FolderOf(path_));
}

}  // namespace twinstep
