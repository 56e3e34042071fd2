#include "exec/profile/profile_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "hw_specs/profile.pb.h"
#include "hw_specs/validate_profile.h"
#include "sim/textproto/text_file.h"
#include "tests/exec/runtime/test_folder.h"

namespace twinstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::StartsWith;

struct Outcome {
  ExitCode code = ExitCode::kDone;
  std::string out, err;
};
Outcome RunProfile(const std::vector<std::string>& arguments) {
  std::ostringstream out, err;
  const ExitCode code = RunProfileCommand(arguments, out, err);
  return {code, out.str(), err.str()};
}

class ProfileCommand : public testing::Test {
 protected:
  ProfileCommand() : file_(folder_.File("cpu.textproto")) {}

  static std::vector<std::string> Small(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {
        "--model", "tiny-llama-gqa", "--seq", "16",        "--global-batch",
        "4",       "--seconds",      "0.02",  "--threads", "2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  Profile ReadOrFail() const {
    Result<ParsedText<Profile>> read = ParseTextFileWithSource<Profile>(file_);
    EXPECT_TRUE(read.ok()) << read.error().message;
    const Status valid = ValidateProfile(read.value().message, read.value().source);
    EXPECT_TRUE(valid.ok()) << valid.error().message;
    return std::move(read).value().message;
  }

  TestFolder folder_;
  std::string file_;
};

TEST_F(ProfileCommand, WritesEntriesWithProvenance) {
  const Outcome run = RunProfile(Small({"--pp", "4", "--offload-ratio", "0.5", "--output", file_}));
  ASSERT_EQ(run.code, ExitCode::kDone) << run.err;
  EXPECT_EQ(run.err, "");
  EXPECT_THAT(run.out, HasSubstr(" operators, "));
  EXPECT_THAT(run.out, HasSubstr(file_));
  for (const char* phase : {"\n  time in s ", "\n  tasks alone ", "\n  tasks on busy threads ",
                            "\n  cores and memory ", "\n  all "}) {
    EXPECT_THAT(run.out, HasSubstr(phase));
  }
  const Profile profile = ReadOrFail();
  EXPECT_THAT(profile.name(), StartsWith("tiny-llama-gqa on "));
  EXPECT_THAT(profile.machine(), MatchesRegex(".*, [0-9]+ cores?, .*GiB"));
  EXPECT_THAT(profile.date(), MatchesRegex("20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]"));
  ASSERT_EQ(profile.versions_size(), 3);
  EXPECT_THAT(profile.versions(0), StartsWith("twinstep "));
  EXPECT_THAT(profile.versions(1), StartsWith("OpenBLAS "));
  EXPECT_THAT(profile.options(), ElementsAre("backend cpu", "threads 2"));
  EXPECT_THAT(profile.runs(), ElementsAre("tiny-llama-gqa fp32, tensor 1 x context 1 x pipeline 4 "
                                          "x data 1, 4 micro-batches of 1 x 16 tokens"));
  EXPECT_GT(profile.operators_size(), 20);
  EXPECT_GT(profile.copies_size(), 0);
  EXPECT_GT(profile.collectives_size(), 0);
  EXPECT_EQ(profile.busy_threads(), 2);
  const Cluster& machine = profile.measured_on();
  EXPECT_EQ(machine.node().workers().threads(), 2);
  EXPECT_GT(machine.node().workers().dispatch_s(), 0);
  EXPECT_GT(machine.node().workers().wake_s(), 0);
  EXPECT_GT(machine.gpu().fp32_flops_per_s(), 0);
  EXPECT_GT(machine.node().host().dram_bytes_per_s(), 0);
}

TEST_F(ProfileCommand, OneProfileForSeveralPlansAndModels) {
  const std::string tensor = folder_.File("tensor.textproto");
  const std::string data = folder_.File("data.textproto");
  WriteBytes(tensor, "tensor_parallel: 2");
  WriteBytes(data, "data_parallel: 2");
  const Outcome two = RunProfile(Small({"--plan", tensor, "--plan", data, "--output", file_}));
  ASSERT_EQ(two.code, ExitCode::kDone) << two.err;
  const Profile first = ReadOrFail();
  EXPECT_EQ(first.runs_size(), 2);

  std::vector<std::string> more = Small({"--append", file_});
  more[1] = "tiny-gpt";
  const Outcome appended = RunProfile(more);
  ASSERT_EQ(appended.code, ExitCode::kDone) << appended.err;
  const Profile second = ReadOrFail();
  EXPECT_EQ(second.runs_size(), 3);
  EXPECT_GT(second.operators_size(), first.operators_size());
  EXPECT_EQ(second.collectives_size(), first.collectives_size());

  std::vector<std::string> one_thread = Small({"--append", file_});
  *(std::ranges::find(one_thread, "--threads") + 1) = "1";
  const Outcome other_threads = RunProfile(one_thread);
  EXPECT_EQ(other_threads.code, ExitCode::kBadInput);
  EXPECT_THAT(other_threads.err, HasSubstr(file_ + ": the profile to append to was measured with"));
}

TEST_F(ProfileCommand, BadInputSaysWhatIsWrong) {
  const auto error = [&](const std::vector<std::string>& more) {
    const Outcome run = RunProfile(Small(more));
    EXPECT_NE(run.code, ExitCode::kDone);
    EXPECT_THAT(run.out, IsEmpty());
    return run.err;
  };
  EXPECT_THAT(error({}), HasSubstr("--output or --append is missing"));
  EXPECT_THAT(error({"--output", folder_.File("no/such/folder")}), HasSubstr("no/such/folder"));
  EXPECT_THAT(RunProfile({"--model", "tiny-gpt", "--global-batch", "1", "--output", file_,
                          "--threads", "1025"})
                  .err,
              HasSubstr("--threads: 1025 is more than 1024"));
  EXPECT_THAT(error({"--append", folder_.File("none")}), HasSubstr("none"));
  EXPECT_THAT(error({"--output", file_, "--backend", "cuda"}), HasSubstr("--backend"));
  EXPECT_THAT(error({"--output", file_, "--tp", "3"}), HasSubstr("3"));
  EXPECT_THAT(error({"--output", file_, "--data", folder_.File("none")}), HasSubstr("none"));
  EXPECT_THAT(error({"--output", file_, "--data", file_, "--set", "vocab_size=255"}),
              HasSubstr("a vocabulary of 256"));
  WriteBytes(file_, "operators { op: \"add\" median_s: -1 }");
  EXPECT_THAT(error({"--append", file_}), HasSubstr("cpu.textproto:1:"));
  // What was there is still there.
  EXPECT_THAT(ReadBytes(file_), StartsWith("operators"));
  const std::string plan = folder_.File("plan.textproto");
  WriteBytes(plan, "tensor_parallel: 3");
  EXPECT_THAT(error({"--output", file_, "--plan", plan, "--plan", plan}),
              HasSubstr("plan.textproto: "));
  EXPECT_THAT(RunProfile({}).err, HasSubstr("--model is missing"));
  EXPECT_THAT(RunProfile({"--sconds", "1"}).err, HasSubstr("--seconds"));
}

TEST_F(ProfileCommand, SeveralProcessesAreRefused) {
  const std::map<std::string, std::string> launched{
      {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "localhost"}};
  for (const auto& [name, value] : launched) setenv(name.c_str(), value.c_str(), 1);
  const Outcome run = RunProfile(Small({"--output", file_}));
  for (const auto& [name, value] : launched) unsetenv(name.c_str());
  EXPECT_EQ(run.code, ExitCode::kBadInput);
  EXPECT_THAT(run.err, HasSubstr("WORLD_SIZE is 2"));
  EXPECT_THAT(run.err, HasSubstr("profile needs all ranks in one"));
}

TEST_F(ProfileCommand, HelpSaysHowItMeasures) {
  const Outcome help = RunProfile({"--help"});
  EXPECT_EQ(help.code, ExitCode::kDone);
  for (const char* word : {"--append", "--seconds", "Exit status", "outliers"}) {
    EXPECT_THAT(help.out, HasSubstr(word));
  }
}

}  // namespace
}  // namespace twinstep
