#include "sim/options/output_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "sim/options/run_verb.h"
#include "tests/exec/runtime/test_folder.h"

namespace twinstep {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

Result<Options> Parse(const std::vector<std::string>& arguments) {
  static const std::vector<OptionGroup> kGroups = {{"All",
                                                    {Reads({"model", "NAME|FILE", ""}),
                                                     Reads({"part", "FILE", "", /*repeats=*/true}),
                                                     {"tp", "N", ""},
                                                     Writes({"json", "FILE|-", ""}),
                                                     Writes({"html", "FILE", ""}),
                                                     MakesFolder({"traces", "FOLDER", ""}),
                                                     {"help", nullptr, ""}}}};
  return ParseOptions(kGroups, "verb", arguments);
}

std::string ErrorOf(const std::vector<std::string>& arguments,
                    const std::vector<std::string>& inputs = {},
                    const std::vector<OutputFile>& more_outputs = {}) {
  const Result<Options> options = Parse(arguments);
  if (!options.ok()) return options.error().message;
  const Status free = CheckOutputFiles(options.value(), inputs, more_outputs);
  return free.ok() ? "" : free.error().message;
}

class OutputFilesTest : public ::testing::Test {
 protected:
  OutputFilesTest() {
    fs::create_directory(File("inside"));
    WriteBytes(File("old"), "old");
    fs::create_symlink("old", File("link"));
    fs::create_symlink("link", File("link-of-link"));
    fs::create_symlink(".", File("folder-link"));
    fs::create_hard_link(File("old"), File("hard"));
    fs::create_symlink("new", File("link-of-new"));
  }
  std::string File(const std::string& name) const { return folder_.File(name); }
  // Names of the file that is there, and of one that is not.
  std::vector<std::string> NamesOfOld() const {
    return {File("old"),  File("link"),         File("link-of-link"), File("folder-link/old"),
            File("hard"), File("inside/../old")};
  }
  std::vector<std::string> NamesOfNew() const {
    return {File("new"), File("link-of-new"), File("folder-link/new"), File("./new")};
  }

  const TestFolder folder_;
};

TEST_F(OutputFilesTest, AnInputIsNotOverwrittenByWhateverName) {
  for (const std::string& a : NamesOfOld()) {
    for (const std::string& b : NamesOfOld()) {
      EXPECT_EQ(ErrorOf({"--model", a, "--json", b}),
                "--json: " + b + " is what --model reads, and would be overwritten");
      EXPECT_EQ(ErrorOf({"--html", b, "--part", File("other"), "--part", a}),
                "--html: " + b + " is what --part reads, and would be overwritten");
      EXPECT_EQ(ErrorOf({"--html", b}, {a}),
                "--html: " + b + " is what is read, and would be overwritten");
      EXPECT_EQ(ErrorOf({"--model", a}, {}, {{"plans", b}}),
                "--plans: " + b + " is what --model reads, and would be overwritten");
    }
  }
}

TEST_F(OutputFilesTest, OneFileIsNotWrittenTwice) {
  for (const auto& names : {NamesOfOld(), NamesOfNew()}) {
    for (const std::string& a : names) {
      for (const std::string& b : names) {
        EXPECT_EQ(ErrorOf({"--json", a, "--html", b}),
                  "--html: " + b + " is the file of --json, too");
        EXPECT_EQ(ErrorOf({"--json", a}, {}, {{"traces", b}}),
                  "--traces: " + b + " is the file of --json, too");
      }
    }
  }
}

TEST_F(OutputFilesTest, AFolderIsNoFile) {
  const auto error = [](const std::string& path) {
    return "--json: " + path + " is a folder of --traces, and no file";
  };
  for (const std::string& a : NamesOfNew()) {
    for (const std::string& b : NamesOfNew()) {
      EXPECT_EQ(ErrorOf({"--json", a, "--traces", b}), error(a));
      EXPECT_EQ(ErrorOf({"--traces", b, "--json", a}), error(a));
      EXPECT_EQ(ErrorOf({"--json", a + "/file", "--traces", b}), "");
      // Nothing is made behind a link to nothing.
      if (fs::is_symlink(b)) continue;
      EXPECT_EQ(ErrorOf({"--json", a, "--traces", b + "/"}), error(a));
      EXPECT_EQ(ErrorOf({"--json", a, "--traces", b + "/within/it"}), error(a));
    }
    EXPECT_EQ(ErrorOf({"--json", a, "--traces", a + "er"}), "");
  }
  EXPECT_EQ(ErrorOf({"--json", "-", "--traces", File("new")}), "");
}

TEST_F(OutputFilesTest, WhatIsNoFileOrDiffersIsFine) {
  EXPECT_EQ(ErrorOf({"--model", File("old"), "--json", File("new"), "--html", File("page")}), "");
  // Names of what is built in.
  EXPECT_EQ(ErrorOf({"--model", File("new"), "--json", File("new")}, {File("new")}), "");
  EXPECT_EQ(ErrorOf({"--tp", File("old"), "--json", File("old")}), "");
  EXPECT_EQ(ErrorOf({"--json", "-", "--model", "-"}), "");
  EXPECT_EQ(ErrorOf({"--json", "/dev/null", "--html", "/dev/null"}, {"/dev/null"}), "");
  ASSERT_EQ(mkfifo(File("pipe").c_str(), 0600), 0);
  EXPECT_EQ(ErrorOf({"--json", File("pipe"), "--html", File("pipe")}), "");
  // A link to itself is nobody's file.
  fs::create_symlink("loop", File("loop"));
  EXPECT_EQ(ErrorOf({"--model", File("loop"), "--json", File("old")}, {File("loop")}), "");
}

TEST_F(OutputFilesTest, OnlySomeCanGoToStandardOutput) {
  EXPECT_EQ(ErrorOf({"--json", "-"}), "");
  EXPECT_EQ(ErrorOf({"--html", "-"}), "--html needs a file: it cannot go to standard output");
}

TEST_F(OutputFilesTest, AVerbRunsOnlyWhereAllCanBeWritten) {
  int runs = 0;
  const auto error_of = [&](const std::vector<std::string>& arguments, Writer writer) {
    std::ostringstream out, err;
    const ExitCode code = RunVerb(
        VerbOutput("verb", out, err), Parse(arguments), [] { return "help"; },
        [&](const Options&) {
          ++runs;
          return ExitCode::kDone;
        },
        writer);
    EXPECT_EQ(code, err.str().empty() ? ExitCode::kDone : ExitCode::kBadInput);
    return err.str();
  };
  const std::vector<std::string> arguments = {"--json", File("new"), "--html",
                                              File("no/such/folder")};
  EXPECT_THAT(error_of(arguments, Writer::kThis),
              HasSubstr("--html: " + File("no/such/folder") + ": cannot write: No such file"));
  EXPECT_THAT(error_of({"--json", File("x"), "--html", File("x")}, Writer::kPerhapsAnother),
              HasSubstr("is the file of --json, too"));
  EXPECT_EQ(runs, 0);
  EXPECT_FALSE(fs::exists(File("new")));
  EXPECT_EQ(error_of(arguments, Writer::kPerhapsAnother), "");
  EXPECT_EQ(error_of({"--json", File("old")}, Writer::kThis), "");
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(ReadBytes(File("old")), "old");
}

}  // namespace
}  // namespace twinstep
