// Which files a name stands for, and names that stand for none.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/exec/runtime/test_folder.h"
#include "traces/open_trace.h"

namespace twinstep {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TraceFilesTest, LinksThatLeadNowhereArePassedOver) {
  const TestFolder folder;
  fs::create_symlink("loop.json", folder.File("loop.json"));
  fs::create_symlink("missing.json", folder.File("gone.json"));
  fs::create_symlink("ping.json", folder.File("pong.json"));
  fs::create_symlink("pong.json", folder.File("ping.json"));
  EXPECT_THAT(FilesOfTrace(folder.path()).error().message, HasSubstr("no trace in this folder"));
  WriteBytes(folder.File("a.json"), "{}");
  EXPECT_THAT(FilesOfTrace(folder.path()).value(), ElementsAre(folder.File("a.json")));
  // By its own name it is an error, and no exception.
  EXPECT_FALSE(OpenTrace(folder.File("loop.json"), {}).ok());
  EXPECT_FALSE(OpenTrace(folder.File("gone.json"), {}).ok());
}

TEST(TraceFilesTest, WhatMustNotBeLookedAtIsPassedOver) {
  if (geteuid() == 0) GTEST_SKIP() << "root may look at everything";
  const TestFolder folder;
  fs::create_directory(folder.File("private"));
  WriteBytes(folder.File("private/a.json"), "{}");
  fs::create_symlink("private/a.json", folder.File("a.json"));
  WriteBytes(folder.File("b.json"), "{}");
  fs::permissions(folder.File("private"), fs::perms::none);
  EXPECT_THAT(FilesOfTrace(folder.path()).value(), ElementsAre(folder.File("b.json")));
  EXPECT_FALSE(OpenTrace(folder.File("a.json"), {}).ok());
  fs::permissions(folder.File("private"), fs::perms::owner_all);
}

TEST(TraceFilesTest, APipeIsNamedAndNotWaitedFor) {
  const TestFolder folder;
  const std::string pipe = folder.File("pipe.json");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(OpenTrace(pipe, {}).error().message,
            pipe + ": is a pipe, which can be read only once: save it as a file");
  // In a folder it is none of its traces.
  WriteBytes(folder.File("a.json"), "{}");
  EXPECT_THAT(FilesOfTrace(folder.path()).value(), ElementsAre(folder.File("a.json")));
}

TEST(TraceFilesTest, AnEmptyFileIsNoTrace) {
  const TestFolder folder;
  for (const char* name : {"a.pb", "a.pb.gz", "a.json", "a.json.gz", "a.0.et"}) {
    WriteBytes(folder.File(name), "");
    const Result<OpenedTrace> opened = OpenTrace(folder.File(name), {});
    ASSERT_FALSE(opened.ok()) << name;
    EXPECT_THAT(opened.error().message, HasSubstr(folder.File(name) + ": "));
  }
}

}  // namespace
}  // namespace twinstep
