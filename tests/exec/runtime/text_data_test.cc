#include "exec/runtime/text_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/exec/runtime/test_folder.h"

namespace twinstep {
namespace {

using testing::HasSubstr;

std::string Letters(std::size_t count) {
  std::string text(count, ' ');
  for (std::size_t i = 0; i < count; ++i) text[i] = static_cast<char>(i);
  return text;
}

TEST(TextData, AnEpochHoldsEverySequenceOnce) {
  const TestFolder folder;
  const std::string path = folder.File("text");
  WriteBytes(path, Letters(41));  // Ten sequences of 4, nothing left over.
  auto data = TextData::Open(path, {.sequence_length = 4, .seed = 3});
  ASSERT_TRUE(data.ok()) << data.error().message;
  EXPECT_EQ(data.value().sequences_per_epoch(), 10);
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    const TokenBatch batch = data.value().Batch(epoch, 10);
    ASSERT_EQ(batch.tokens.size(), 40u);
    std::vector<std::int32_t> sorted = batch.tokens;
    std::sort(sorted.begin(), sorted.end());
    for (std::int32_t i = 0; i < 40; ++i) EXPECT_EQ(sorted[static_cast<std::size_t>(i)], i);
    for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(batch.labels[i], batch.tokens[i] + 1);
    for (std::size_t i = 0; i < 40; i += 4) EXPECT_EQ(batch.tokens[i] % 4, 0);
    EXPECT_FALSE(std::is_sorted(batch.tokens.begin(), batch.tokens.end()));
  }
  EXPECT_NE(data.value().Batch(0, 10).tokens, data.value().Batch(1, 10).tokens);
}

// However the steps are cut and in whichever order they are asked for (resume), the stream of
// sequences is the same, and runs on from one epoch into the next.
TEST(TextData, BatchesAreACutOfOneStream) {
  const TestFolder folder;
  const std::string path = folder.File("text");
  WriteBytes(path, Letters(120));
  auto data = TextData::Open(path, {.sequence_length = 9, .seed = 1});
  ASSERT_TRUE(data.ok());
  const TokenBatch stream = data.value().Batch(0, 60);
  for (const std::int64_t size : {1, 4, 15, 20}) {
    for (std::int64_t step = 60 / size - 1; step >= 0; --step) {
      const TokenBatch batch = data.value().Batch(step, size);
      const auto begin = static_cast<std::ptrdiff_t>(step * size * 9);
      EXPECT_TRUE(
          std::equal(batch.tokens.begin(), batch.tokens.end(), stream.tokens.begin() + begin));
      EXPECT_TRUE(
          std::equal(batch.labels.begin(), batch.labels.end(), stream.labels.begin() + begin));
    }
  }
}

TEST(TextData, EpochsBeginAnywhereInTheLeftOver) {
  const TestFolder folder;
  const std::string path = folder.File("text");
  WriteBytes(path, Letters(20));  // One sequence of 10 and nine bytes left over.
  auto data = TextData::Open(path, {.sequence_length = 10, .seed = 1});
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(data.value().sequences_per_epoch(), 1);
  std::set<std::int32_t> begins;
  for (std::int64_t epoch = 0; epoch < 200; ++epoch) {
    begins.insert(data.value().Batch(epoch, 1).tokens.front());
  }
  EXPECT_EQ(begins.size(), 10u);
  EXPECT_EQ(*begins.rbegin(), 9);
}

TEST(TextData, SeedDecidesTheOrder) {
  const TestFolder folder;
  const std::string path = folder.File("text");
  WriteBytes(path, Letters(200));
  const auto order = [&path](std::uint64_t seed) {
    return TextData::Open(path, {.sequence_length = 5, .seed = seed}).value().Batch(0, 39).tokens;
  };
  EXPECT_EQ(order(7), order(7));
  EXPECT_NE(order(7), order(8));
  EXPECT_NE(order(7), order(7 + (std::uint64_t{1} << 32)));
}

TEST(TextData, BytesAreUnsigned) {
  const TestFolder folder;
  const std::string path = folder.File("text");
  WriteBytes(path, "\xff\xfe\x80");
  auto data = TextData::Open(path, {.sequence_length = 2, .seed = 0});
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(data.value().Batch(0, 1).tokens, (std::vector<std::int32_t>{255, 254}));
  EXPECT_EQ(data.value().Batch(0, 1).labels, (std::vector<std::int32_t>{254, 128}));
}

TEST(TextData, RefusesWhatIsTooShortOrNoFile) {
  const TestFolder folder;
  const std::string path = folder.File("text");
  WriteBytes(path, "12345678");
  const auto shorter = TextData::Open(path, {.sequence_length = 8, .seed = 0});
  ASSERT_FALSE(shorter.ok());
  EXPECT_EQ(shorter.error().code, ExitCode::kBadInput);
  EXPECT_EQ(shorter.error().message,
            path + ": 8 bytes are too few for one sequence of 8 tokens and the label of its last");
  EXPECT_TRUE(TextData::Open(path, {.sequence_length = 7, .seed = 0}).ok());
  const auto none = TextData::Open(folder.File("none"), {.sequence_length = 8, .seed = 0});
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message, HasSubstr(folder.File("none")));
  EXPECT_FALSE(TextData::Open(folder.path(), {.sequence_length = 8, .seed = 0}).ok());
}

}  // namespace
}  // namespace twinstep
