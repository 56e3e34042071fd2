// A file that is there whole or not at all, whatever kills the process or the machine.
//
//   Result<AtomicFile> file = AtomicFile::Create("step-7.safetensors");
//   Status written = file.value().Append(bytes);   // Into .step-7.safetensors.tmp beside it.
//   Status done = file.value().Commit();           // fsync, rename, fsync of the folder.
//
// A symbolic link stays, and what it names is replaced; the new file has the old one's permissions.
// A device, a pipe or a socket stays too, and is written to at once. Without Commit nothing of the
// name changes: the temporary file is removed at destruction, or, if the process was killed,
// overwritten by the next file of that name. Errors (kBadInput) name the file and the system's
// reason. Work of hours asks CheckWritable first.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "sim/result.h"

namespace twinstep {

// Whose end a committed file survives. That of the machine (power) costs a wait for the disk.
enum class Survives { kMachine, kProcess };

class AtomicFile {
 public:
  static Result<AtomicFile> Create(const std::string& named);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  Status Append(std::span<const std::byte> bytes);
  // Replaces what was at the path.
  Status Commit(Survives survives = Survives::kMachine);

 private:
  AtomicFile(std::string path, std::string temporary_path, int descriptor)
      : path_(std::move(path)),
        temporary_path_(std::move(temporary_path)),
        descriptor_(descriptor) {}

  bool is_stream() const { return temporary_path_.empty(); }

  std::string path_, temporary_path_;
  int descriptor_;  // -1 once committed or moved from.
};

// Whether a file of this name could be created or replaced now; leaves nothing behind.
Status CheckWritable(const std::string& path);

// What AtomicFile replaces: `path`, or what it names as a symbolic link; absolute.
std::string WrittenPath(const std::string& path);

// Whether a name is of a device, a pipe or a socket.
bool IsStream(const std::string& path);

// Where AtomicFile writes what will be `path`.
std::string TemporaryPath(const std::string& path);

}  // namespace twinstep
