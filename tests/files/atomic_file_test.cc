#include "sim/files/atomic_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "tests/exec/runtime/test_folder.h"

namespace twinstep {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

std::span<const std::byte> Bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(AtomicFile, LeavesTheOldFileUntilCommitted) {
  const TestFolder folder;
  const std::string path = folder.File("x");
  WriteBytes(path, "old");
  {
    Result<AtomicFile> file = AtomicFile::Create(path);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file.value().Append(Bytes("new")).ok());
    EXPECT_EQ(ReadBytes(path), "old");
    EXPECT_EQ(ReadBytes(TemporaryPath(path)), "new");
  }
  EXPECT_EQ(ReadBytes(path), "old");
  EXPECT_FALSE(fs::exists(TemporaryPath(path)));
  Result<AtomicFile> file = AtomicFile::Create(path);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file.value().Append(Bytes("new")).ok());
  ASSERT_TRUE(file.value().Commit().ok());
  EXPECT_EQ(ReadBytes(path), "new");
  EXPECT_FALSE(fs::exists(TemporaryPath(path)));
}

// Else it would hold the bytes of both.
TEST(AtomicFile, OneWritesAFileAtATime) {
  const TestFolder folder;
  const std::string path = folder.File("x");
  WriteBytes(TemporaryPath(path), "left by a process that died");
  {
    Result<AtomicFile> first = AtomicFile::Create(path);
    ASSERT_TRUE(first.ok()) << first.error().message;
    const Result<AtomicFile> second = AtomicFile::Create(path);
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.error().message, path + ": another process is writing it");
    ASSERT_TRUE(first.value().Append(Bytes("first")).ok());
    ASSERT_TRUE(first.value().Commit().ok());
  }
  EXPECT_EQ(ReadBytes(path), "first");
  EXPECT_TRUE(AtomicFile::Create(path).ok());  // Given up again,
  EXPECT_TRUE(AtomicFile::Create(path).ok());  // it is free.
  EXPECT_EQ(ReadBytes(path), "first");
}

// Each file is one writer's, whole, and whoever comes too early is told.
TEST(AtomicFile, ProcessesThatRaceDoNotMix) {
  const TestFolder folder;
  const std::string path = folder.File("x");
  std::vector<pid_t> children;
  for (const char letter : {'a', 'b', 'c'}) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (int i = 0; i < 300; ++i) {
        Result<AtomicFile> file = AtomicFile::Create(path);
        if (!file.ok()) {
          if (!file.error().message.ends_with("writing it")) _exit(1);
          continue;
        }
        for (int j = 0; j < 20; ++j) {
          if (!file.value().Append(Bytes(std::string(50, letter))).ok()) _exit(2);
        }
        if (!file.value().Commit(Survives::kProcess).ok()) _exit(3);
        const std::string there = ReadBytes(path);
        if (there != std::string(1000, there.empty() ? ' ' : there[0])) _exit(4);
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  EXPECT_FALSE(fs::exists(TemporaryPath(path)));
}

void WriteAll(const std::string& path, const std::string& text) {
  ASSERT_TRUE(CheckWritable(path).ok());
  Result<AtomicFile> file = AtomicFile::Create(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  ASSERT_TRUE(file.value().Append(Bytes(text)).ok());
  ASSERT_TRUE(file.value().Commit().ok());
}

TEST(AtomicFile, ReplacesWhatALinkNamesAndNotTheLink) {
  const TestFolder folder;
  const std::string target = folder.File("target"), link = folder.File("link");
  WriteBytes(target, "old");
  fs::create_symlink("target", link);
  WriteAll(link, "new");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(ReadBytes(target), "new");
}

TEST(AtomicFile, WritesIntoAPipeAndLeavesIt) {
  const TestFolder folder;
  const std::string pipe = folder.File("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  WriteAll(pipe, "new");
  std::array<char, 8> got{};
  EXPECT_EQ(read(reader, got.data(), got.size()), 3);
  EXPECT_EQ(std::string(got.data()), "new");
  close(reader);
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_FALSE(fs::exists(TemporaryPath(pipe)));
}

TEST(AtomicFile, FollowsLinksToWhatIsNotThereYet) {
  const TestFolder folder;
  fs::create_directory(folder.File("inside"));
  fs::create_symlink("inside/second", folder.File("first"));
  fs::create_symlink("../target", folder.File("inside/second"));
  EXPECT_EQ(WrittenPath(folder.File("first")), WrittenPath(folder.File("target")));
  WriteAll(folder.File("first"), "new");
  EXPECT_TRUE(fs::is_symlink(folder.File("first")));
  EXPECT_TRUE(fs::is_symlink(folder.File("inside/second")));
  EXPECT_EQ(ReadBytes(folder.File("target")), "new");
}

TEST(AtomicFile, KeepsPermissionsAndWhatIsProtected) {
  const TestFolder folder;
  const std::string path = folder.File("x");
  WriteBytes(path, "old");
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
  WriteAll(path, "new");
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  if (geteuid() == 0) return;  // Who may write everything.
  fs::permissions(path, fs::perms::owner_read);
  EXPECT_THAT(CheckWritable(path).error().message, HasSubstr("Permission denied"));
  EXPECT_EQ(ReadBytes(path), "new");
}

TEST(AtomicFile, SaysWhatCannotBeWritten) {
  const TestFolder folder;
  EXPECT_EQ(CheckWritable(folder.path()).error().message,
            folder.path() + ": cannot write: Is a directory");
  const std::string missing = folder.File("no/such");
  EXPECT_EQ(CheckWritable(missing).error().message,
            missing + ": cannot write: No such file or directory");
}

}  // namespace
}  // namespace twinstep
