#include "sim/files/write_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <iterator>
#include <string>

#include "tests/exec/runtime/test_folder.h"

namespace twinstep {
namespace {

using ::testing::HasSubstr;

std::ptrdiff_t FilesIn(const std::string& folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

Status WriteBytesOf(const std::string& path, const std::string& text) {
  return WriteFile(path, [&text](std::ostream& out) -> Status {
    out << text;
    return Unit{};
  });
}

TEST(WriteFileTest, WritesWhatTheStreamTakes) {
  const TestFolder folder;
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += std::to_string(i) + "\n";
  const Status written = WriteFile(folder.File("x"), [](std::ostream& out) -> Status {
    for (int i = 0; i < 100'000; ++i) out << i << "\n";
    return Unit{};
  });
  EXPECT_TRUE(written.ok());
  EXPECT_EQ(ReadBytes(folder.File("x")), text);
  EXPECT_EQ(FilesIn(folder.path()), 1);
}

TEST(WriteFileTest, AFullDiskLeavesTheOldFile) {
  const TestFolder folder;
  const std::string path = folder.File("x");
  ASSERT_TRUE(WriteBytesOf(path, "old").ok());
  // As a disk that is full after 100 kB.
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit little{100'000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
  const Status written = WriteBytesOf(path, std::string(1'000'000, 'x'));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(written.ok());
  EXPECT_THAT(written.error().message, HasSubstr(path + ": cannot write: "));
  EXPECT_EQ(ReadBytes(path), "old");
  EXPECT_EQ(FilesIn(folder.path()), 1);
}

TEST(WriteFileTest, AnErrorOfTheWriterLeavesTheOldFile) {
  const TestFolder folder;
  const std::string path = folder.File("x");
  ASSERT_TRUE(WriteBytesOf(path, "old").ok());
  const Status written = WriteFile(path, [](std::ostream& out) -> Status {
    out << "half";
    return Error{.message = "too much"};
  });
  EXPECT_EQ(written.error().message, "too much");
  EXPECT_EQ(ReadBytes(path), "old");
  EXPECT_EQ(FilesIn(folder.path()), 1);
}

TEST(WriteFileTest, DevicesAreWrittenTo) {
  EXPECT_TRUE(WriteBytesOf("/dev/null", "text").ok());
  EXPECT_EQ(WriteBytesOf("/dev/full", "text").error().message,
            "/dev/full: cannot write: No space left on device");
}

}  // namespace
}  // namespace twinstep
