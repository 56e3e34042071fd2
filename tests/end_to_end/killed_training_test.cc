// A training is killed with SIGKILL at random moments and resumed until it is done: its last
// checkpoint equals, byte for byte, that of a training which nobody disturbed.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "tests/exec/runtime/test_folder.h"

namespace twinstep {
namespace {

constexpr const char* kLast = "/step-00000060.safetensors";

pid_t Start(const std::string& folder, const std::string& data, bool resumes) {
  std::vector<std::string> arguments = {"./twinstep",     "train", "--model",   "tiny-llama-gqa",
                                        "--data",         data,    "--steps",   "60",
                                        "--seq",          "32",    "--pp",      "2",
                                        "--global-batch", "4",     "--dropout", "0.1",
                                        "--threads",      "2",     "--save",    folder,
                                        "--save-every",   "1"};
  if (resumes) arguments.insert(arguments.end(), {"--resume", folder});
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  EXPECT_EQ(posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  return child;
}

bool HoldsACheckpoint(const std::string& folder) {
  std::error_code none;
  for (std::filesystem::directory_iterator it(folder, none), end; it != end; ++it) {
    if (it->path().filename().string().starts_with("step-")) return true;
  }
  return false;
}

TEST(KilledTraining, EndsWithTheSameBytes) {
  const TestFolder folder;
  const std::string data = folder.File("text");
  std::string text;
  for (int i = 0; i < 300; ++i) text += std::to_string(i * i) + " ";
  WriteBytes(data, text);
  const std::string undisturbed = folder.File("undisturbed");
  int status = 0;
  ASSERT_EQ(waitpid(Start(undisturbed, data, false), &status, 0) > 0, true);
  ASSERT_EQ(status, 0);

  const std::string disturbed = folder.File("disturbed");
  std::mt19937 random(1);
  int kills = 0;
  constexpr int kMaxKills = 12;
  for (bool done = false; !done;) {
    const pid_t child = Start(disturbed, data, HoldsACheckpoint(disturbed));
    ASSERT_GT(child, 0);
    if (kills < kMaxKills) {
      usleep(static_cast<useconds_t>(50'000 + random() % 350'000));
      kill(child, SIGKILL);
    }
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
      ++kills;
    } else {
      ASSERT_EQ(status, 0);
      done = true;
    }
  }
  EXPECT_GT(kills, 0);
  EXPECT_EQ(ReadBytes(disturbed + kLast), ReadBytes(undisturbed + kLast));
  EXPECT_GT(ReadBytes(undisturbed + kLast).size(), 1'000'000u);
}

}  // namespace
}  // namespace twinstep
