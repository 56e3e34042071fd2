#include "sim/files/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
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

// The temporary file, empty. Of two processes that write one file the later one is refused: its
// bytes would be mixed with the other's. What a process that died has left is taken over.
Result<int> OpenAlone(const std::string& path, const std::string& temporary_path) {
  constexpr int kTries = 8;
  for (int i = 0; i < kTries; ++i) {
    const int descriptor = open(temporary_path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0) return SystemError(path, "write", errno);
    struct stat locked, there;
    // File systems without locks say other things than EWOULDBLOCK.
    const bool is_taken = flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    // Between the two the other process may have given the file its name, or removed it.
    const bool is_same = !is_taken && fstat(descriptor, &locked) == 0 &&
                         stat(temporary_path.c_str(), &there) == 0 &&
                         locked.st_ino == there.st_ino && locked.st_dev == there.st_dev;
    if (is_same && ftruncate(descriptor, 0) == 0) return descriptor;
    const int reason = errno;
    close(descriptor);
    if (is_taken) return Error{.message = path + ": another process is writing it"};
    if (is_same) return SystemError(path, "write", reason);
  }
  return Error{.message = path + ": other processes are writing it"};
}

}  // namespace

// Devices, pipes and sockets are written to: a file in their place would end them.
bool IsStream(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
         !std::filesystem::is_directory(status);
}

std::string WrittenPath(const std::string& path) {
  // As many links as Linux follows; what they name need not be there.
  constexpr int kMostLinks = 40;
  std::error_code error;
  std::filesystem::path at = std::filesystem::absolute(path, error);
  for (int i = 0; i < kMostLinks && std::filesystem::is_symlink(at, error); ++i) {
    at = at.parent_path() / std::filesystem::read_symlink(at, error);
  }
  const std::filesystem::path whole = std::filesystem::weakly_canonical(at, error);
  return error ? at.string() : whole.string();
}

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
  std::error_code error;
  const std::string path = std::filesystem::is_symlink(named, error) ? WrittenPath(named) : named;
  if (std::filesystem::is_directory(path, error)) return SystemError(named, "write", EISDIR);
  const std::string temporary_path = TemporaryPath(path);
  const Result<int> opened = OpenAlone(path, temporary_path);
  if (!opened.ok()) return opened.error();
  const int descriptor = opened.value();
  AtomicFile file(path, temporary_path, descriptor);
  struct stat old;
  if (stat(path.c_str(), &old) == 0) {
    // A file that was protected stays so.
    if (access(path.c_str(), W_OK) != 0) return SystemError(path, "write", errno);
    // Some file systems have no permissions to keep.
    (void)fchmod(descriptor, old.st_mode & 07777);
  }
  return file;
}

Status CheckWritable(const std::string& path) {
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
  // As long as it is locked the file is no other process's.
  if (!is_stream()) unlink(temporary_path_.c_str());
  close(descriptor_);
}

Status AtomicFile::Append(std::span<const std::byte> bytes) {
  // Linux writes at most 2 GiB a call.
  constexpr std::size_t kMaxWriteBytes = std::size_t{1} << 30;
  while (!bytes.empty()) {
    const ssize_t written =
        write(descriptor_, bytes.data(), std::min(bytes.size(), kMaxWriteBytes));
    if (written < 0) {
      if (errno == EINTR) continue;
      return SystemError(path_, "write", errno);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return Unit{};
}

Status AtomicFile::Commit(Survives survives) {
  if (is_stream()) {
    if (close(std::exchange(descriptor_, -1)) != 0) return SystemError(path_, "close", errno);
    return Unit{};
  }
  const bool is_synced = survives == Survives::kMachine;
  if (is_synced && fsync(descriptor_) != 0) return SystemError(path_, "sync", errno);
  // Holds the lock until the file has its name.
  const int lock = dup(descriptor_);
  const auto fail = [&](const char* action) {
    const int reason = errno;
    unlink(temporary_path_.c_str());
    if (lock >= 0) close(lock);
    return SystemError(path_, action, reason);
  };
  // A network file system may report a failed write only here.
  if (close(std::exchange(descriptor_, -1)) != 0) return fail("close");
  if (std::rename(temporary_path_.c_str(), path_.c_str()) != 0) {
    return fail("rename the temporary file");
  }
  if (lock >= 0) close(lock);
  return is_synced ? SyncFolder(FolderOf(path_)) : Status(Unit{});
}

}  // namespace twinstep
