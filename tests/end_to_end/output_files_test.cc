// No verb overwrites what it reads, or writes two things into one file.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <filesystem>
#include <map>
#include <string>

#include "tests/exec/runtime/test_folder.h"

namespace twinstep {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class OutputFilesTest : public ::testing::Test {
 protected:
  // Runs `twinstep ARGUMENTS` in the folder, and returns its exit code.
  int Call(const std::string& arguments) {
    const std::string binary = fs::absolute("twinstep").string();
    const int status = system(
        ("cd '" + folder_.path() + "' && '" + binary + "' " + arguments + " >out 2>err").c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  // What stands in each file, but for what Call itself writes.
  std::map<std::string, std::string> Files() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      const std::string name = fs::relative(entry.path(), folder_.path()).string();
      if (name == "out" || name == "err") continue;
      files[name] = entry.is_directory() ? "" : ReadBytes(entry.path().string());
    }
    return files;
  }

  const TestFolder folder_;
};

TEST_F(OutputFilesTest, EveryVerbRefusesToReplaceAnInputOrAnotherOutput) {
  const std::string simulate =
      "simulate --model tiny-llama --cluster h800 --gpus 2 "
      "--global-batch 4 ";
  ASSERT_EQ(Call(simulate + "--all-ranks --trace a.pb"), 0) << ReadBytes(folder_.File("err"));
  ASSERT_EQ(Call(simulate + "--trace step.et"), 0) << ReadBytes(folder_.File("err"));
  WriteBytes(folder_.File("text"), "global_batch: 4");
  for (const char* folder : {"plans", "weights", "traces"}) {
    fs::create_directory(folder_.File(folder));
  }
  WriteBytes(folder_.File("plans/plan-2-1.textproto"), "global_batch: 4");
  WriteBytes(folder_.File("weights/model.safetensors"), "weights");
  fs::copy_file(folder_.File("step.0.et"), folder_.File("traces/rank.0.et"));
  fs::create_symlink("a.pb", folder_.File("link.json"));
  fs::create_symlink("text", folder_.File("link"));
  fs::create_symlink("text", folder_.File("linked.1.et"));
  const auto before = Files();
  for (const std::string& arguments : {
           simulate + "--plan text --json text",
           simulate + "--profile text --dot ./link",
           simulate + "--json x.json --trace x.json",
           simulate + "--plan text --trace linked.et",
           simulate + "--trace new.et --json new.1.et",
           simulate + "--trace new.et --dot new.groups.json",
           std::string("simulate --graph step.0.et,step.1.et --json step.1.et"),
           std::string("simulate --graph step --json step.1.et"),
           std::string("simulate --graph traces --json traces/rank.0.et"),
           std::string("simulate --graph traces --json x.json --trace x.json"),
           std::string("compare a.pb step --json a.pb"),
           std::string("compare step a.pb --html link.json"),
           std::string("compare step a.pb --html step.1.et"),
           std::string("compare a.pb a.pb --json x --html x"),
           std::string("compare a.pb a.pb --html -"),
           std::string("show a.pb --html a.pb"),
           std::string("show a.pb link.json --html link.json"),
           std::string("show step --html step.0.et"),
           std::string("show a.pb --html -"),
           std::string("rank --model tiny-llama --cluster h800 --gpus 2 --global-batch 4 --plan "
                       "text --csv link"),
           std::string("rank --model tiny-llama --cluster h800 --gpus 2 --global-batch 4 "
                       "--plan plans/plan-2-1.textproto --plans plans"),
           std::string("rank --model tiny-llama --cluster h800 --gpus 2 --global-batch 4 "
                       "--json x --csv x"),
           std::string("merge --part text --part link --json text"),
           std::string("merge --part text --json x --plot x"),
           std::string("pareto --model tiny-llama --cluster h800 --profile text --plot link"),
           std::string("profile --model tiny-llama --global-batch 4 --data text --output link"),
           std::string(
               "train --model tiny-llama --global-batch 4 --steps 1 --data text --log link"),
           std::string("train --model tiny-llama --global-batch 4 --steps 1 --data text "
                       "--export x.pb --trace x.pb"),
           std::string("train --model tiny-llama --global-batch 4 --steps 1 --data text "
                       "--init-from weights --export weights/model.safetensors"),
           std::string("validate --model tiny-llama --global-batch 4 --data text --profile text "
                       "--json link"),
           std::string("validate --model tiny-llama --global-batch 4 --data text --cluster cpu-x2 "
                       "--save-traces traces --json traces/executed.pb"),
           std::string("evaluate text --json link"),
           std::string("evaluate --json x --svg x"),
       }) {
    EXPECT_EQ(Call(arguments), 2) << arguments;
    const std::string said = ReadBytes(folder_.File("err"));
    const bool is_named = said.find(", and would be overwritten\n") != std::string::npos ||
                          said.find(", too\n") != std::string::npos ||
                          said.find("cannot go to standard output\n") != std::string::npos;
    EXPECT_TRUE(is_named) << arguments << ": " << said;
    EXPECT_EQ(Files(), before) << arguments;
  }
}

// One output that cannot be written leaves the others as they were.
TEST_F(OutputFilesTest, NothingIsWrittenWhereOneOutputCannotBe) {
  WriteBytes(folder_.File("x.json"), "old");
  const auto before = Files();
  const std::string simulate =
      "simulate --model tiny-llama --cluster h800 --gpus 2 "
      "--global-batch 4 ";
  for (const char* outputs : {"--json x.json --trace no/such.pb", "--json x.json --dot .",
                              "--json x.json --trace no/such.et"}) {
    EXPECT_EQ(Call(simulate + outputs), 2) << outputs;
    EXPECT_THAT(ReadBytes(folder_.File("err")), HasSubstr(": cannot write: ")) << outputs;
    EXPECT_EQ(Files(), before) << outputs;
  }
}

}  // namespace
}  // namespace twinstep
