#include "exec/runtime/checkpoint.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <random>

#include "exec/runtime/safetensors.h"
#include "model_zoo/find_model.h"
#include "sim/files/atomic_file.h"
#include "tests/exec/runtime/test_folder.h"
#include "tests/exec/runtime/training_state.h"

namespace twinstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Model TinyModel() { return FindModel("tiny-llama-gqa").value(); }

std::vector<std::string> Names(const TestFolder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Checkpoint, LoadsWhatWasSaved) {
  const TestFolder folder;
  Checkpoint saved = ConstantCheckpoint(TinyModel(), 12, 400);
  for (LogicalTensor& tensor : NumberedParameters(TinyModel(), Dtype::kFp64)) {
    saved.tensors.push_back(std::move(tensor));
  }
  std::erase_if(saved.tensors, [](const LogicalTensor& tensor) {
    return tensor.block == 3 && tensor.kind == TensorKind::kUpWeight &&
           tensor.dtype == Dtype::kBf16;
  });
  std::sort(saved.tensors.begin(), saved.tensors.end(),
            [](const LogicalTensor& a, const LogicalTensor& b) {
              return std::tie(a.block, a.kind, a.state) < std::tie(b.block, b.kind, b.state);
            });
  ASSERT_TRUE(SaveCheckpoint(folder.File("new/run"), saved, 2).ok());
  std::vector<std::string> warnings;
  const auto loaded = LoadCheckpoint(folder.File("new/run"), &warnings);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_TRUE(warnings.empty());
  EXPECT_EQ(loaded.value().path, folder.File("new/run/step-00000012.safetensors"));
  const Checkpoint& checkpoint = loaded.value().checkpoint;
  EXPECT_EQ(checkpoint.step, 12);
  EXPECT_EQ(checkpoint.seed, 0xfedcba9876543210);
  EXPECT_EQ(checkpoint.settings, saved.settings);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(checkpoint.model, saved.model));
  EXPECT_TRUE(SameTensors(checkpoint.tensors, saved.tensors));
  // The file itself, too.
  const auto file = LoadCheckpoint(loaded.value().path, &warnings);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(SameTensors(file.value().checkpoint.tensors, saved.tensors));
}

TEST(Checkpoint, KeepsTheLatest) {
  const TestFolder folder;
  for (const std::int64_t step : {5, 10, 15, 20}) {
    ASSERT_TRUE(SaveCheckpoint(folder.path(), ConstantCheckpoint(TinyModel(), step, 40), 2).ok());
  }
  EXPECT_THAT(Names(folder), ElementsAre("step-00000015.safetensors", "step-00000020.safetensors"));
  // A run that went back to step 15 does not count what comes later, and 0 keeps all.
  ASSERT_TRUE(SaveCheckpoint(folder.path(), ConstantCheckpoint(TinyModel(), 16, 40), 1).ok());
  EXPECT_THAT(Names(folder), ElementsAre("step-00000016.safetensors", "step-00000020.safetensors"));
  ASSERT_TRUE(SaveCheckpoint(folder.path(), ConstantCheckpoint(TinyModel(), 21, 40), 0).ok());
  EXPECT_EQ(Names(folder).size(), 3u);
}

TEST(Checkpoint, SkipsAnUnreadableLatestWithAWarning) {
  const TestFolder folder;
  for (const std::int64_t step : {1, 2, 3}) {
    ASSERT_TRUE(SaveCheckpoint(folder.path(), ConstantCheckpoint(TinyModel(), step, 40), 0).ok());
  }
  const std::string third = CheckpointPath(folder.path(), 3);
  const std::string second = CheckpointPath(folder.path(), 2);
  std::string bytes = ReadBytes(third);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  WriteBytes(third, bytes);
  WriteBytes(second, ReadBytes(second).substr(0, 100));
  std::vector<std::string> warnings;
  const auto loaded = LoadCheckpoint(folder.path(), &warnings);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded.value().checkpoint.step, 1);
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_THAT(warnings[0], HasSubstr(third + ": tensor 'block.3.up_weight.moment2' is corrupted"));
  EXPECT_THAT(warnings[1], HasSubstr(second + ": is truncated"));

  // Asked for by name it is an error; and so is a folder without any other.
  EXPECT_FALSE(LoadCheckpoint(third, &warnings).ok());
  std::filesystem::remove(CheckpointPath(folder.path(), 1));
  const auto none = LoadCheckpoint(folder.path(), &warnings);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ExitCode::kBadInput);
  EXPECT_THAT(none.error().message, HasSubstr("holds no loadable checkpoint"));
  EXPECT_THAT(none.error().message, HasSubstr(third));
}

TEST(Checkpoint, RefusesOtherSafetensorsFiles) {
  const TestFolder folder;
  const std::string path = folder.File("weights.safetensors");
  const Checkpoint checkpoint = ConstantCheckpoint(TinyModel(), 1, 4);
  std::vector<TensorView> views = {
      {.name = "x", .dtype = "BF16", .shape = {1, 1}, .data = checkpoint.tensors[0].data}};
  std::vector<std::string> warnings;
  ASSERT_TRUE(WriteSafetensors(path, views, {}).ok());
  EXPECT_THAT(LoadCheckpoint(path, &warnings).error().message,
              path + ": is no checkpoint of this version");
  const SafetensorsMetadata metadata = {{"format", "twinstep-checkpoint-1"},
                                        {"step", "1"},
                                        {"seed", "1"},
                                        {"model", TinyModel().ShortDebugString()}};
  ASSERT_TRUE(WriteSafetensors(path, views, metadata).ok());
  EXPECT_THAT(LoadCheckpoint(path, &warnings).error().message,
              path + ": tensor 'x' has no place in a checkpoint");
  auto without_step = metadata;
  without_step["step"] = "-1";
  ASSERT_TRUE(WriteSafetensors(path, views, without_step).ok());
  EXPECT_THAT(LoadCheckpoint(path, &warnings).error().message, path + ": has no step or seed");
  auto bad_model = metadata;
  bad_model["model"] = "name: \"x\"";
  ASSERT_TRUE(WriteSafetensors(path, views, bad_model).ok());
  EXPECT_THAT(LoadCheckpoint(path, &warnings).error().message, HasSubstr(path + ": "));
}

TEST(Checkpoint, RemovesWhatAKilledWriterLeft) {
  const TestFolder folder;
  WriteBytes(TemporaryPath(CheckpointPath(folder.path(), 7)), "half");
  WriteBytes(folder.File(".other.tmp"), "not ours");
  ASSERT_TRUE(SaveCheckpoint(folder.path(), ConstantCheckpoint(TinyModel(), 8, 4), 2).ok());
  EXPECT_THAT(Names(folder), ElementsAre(".other.tmp", "step-00000008.safetensors"));
}

// A child saves one checkpoint after another and is killed at a random moment: whatever it was
// doing, the folder's latest checkpoint loads whole, and none is older than the last that the child
// had reported.
TEST(Checkpoint, KilledAtAnyMomentThePreviousOneLoads) {
  constexpr std::int64_t kElements = 200'000;
  const TestFolder folder;
  const Model model = TinyModel();
  ASSERT_TRUE(SaveCheckpoint(folder.path(), ConstantCheckpoint(model, 1, kElements), 2).ok());
  std::mt19937 random(1);
  std::int64_t step = 1;
  int interrupted = 0;
  for (int round = 0; round < 25; ++round) {
    int report[2];
    ASSERT_EQ(pipe(report), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      close(report[0]);
      for (std::int64_t next = step + 1;; ++next) {
        const bool saved =
            SaveCheckpoint(folder.path(), ConstantCheckpoint(model, next, kElements), 2).ok();
        if (!saved || write(report[1], &next, sizeof(next)) != sizeof(next)) _exit(1);
      }
    }
    close(report[1]);
    usleep(static_cast<useconds_t>(random() % 20'000));
    ASSERT_EQ(kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child failed to save";
    std::int64_t reported = step;
    for (std::int64_t number; read(report[0], &number, sizeof(number)) == sizeof(number);) {
      reported = number;
    }
    close(report[0]);
    for (const std::string& name : Names(folder)) interrupted += name.ends_with(".tmp") ? 1 : 0;

    std::vector<std::string> warnings;
    const auto loaded = LoadCheckpoint(folder.path(), &warnings);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    EXPECT_THAT(warnings, ElementsAre());
    const Checkpoint& checkpoint = loaded.value().checkpoint;
    EXPECT_GE(checkpoint.step, reported);
    EXPECT_LE(checkpoint.step, reported + 1);
    EXPECT_TRUE(SameTensors(checkpoint.tensors,
                            ConstantCheckpoint(model, checkpoint.step, kElements).tensors));
    step = checkpoint.step;
  }
  EXPECT_GT(interrupted, 0) << "no round hit a checkpoint in the middle";
}

}  // namespace
}  // namespace twinstep
