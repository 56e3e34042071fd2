#include "sim/options/chunk_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "sim/options/plan_options.h"
#include "sim/options/plan_presets.h"

namespace twinstep {
namespace {

using testing::HasSubstr;

std::string Words(const std::string& text) {
  const auto blocks = ParseBlockList(text, "file");
  if (!blocks.ok()) return blocks.error().message;
  std::string result;
  for (const BlockActivations choice : blocks.value()) {
    result += choice == BLOCK_SWAP ? 's' : choice == BLOCK_CHECKPOINT ? 'c' : 'k';
  }
  return result;
}

TEST(BlockListTest, WordsCountsAndComments) {
  EXPECT_EQ(Words("swap 2 x checkpoint\nkeep # the last\n"), "scck");
  EXPECT_EQ(Words("3 x keep"), "kkk");
}

TEST(BlockListTest, ErrorsNameFileAndLine) {
  EXPECT_EQ(Words("keep\nswop"), "file:2: 'swop' is none of keep, checkpoint, swap");
  EXPECT_THAT(Words("keep\n\n3 keep"), HasSubstr("file:3: "));
  EXPECT_THAT(Words("0 x keep"), HasSubstr("file:1: "));
  EXPECT_THAT(Words("99999999999 x keep"), HasSubstr("file:1: "));
  EXPECT_THAT(Words("65536 x keep keep"), HasSubstr("more than 65536 blocks"));
  EXPECT_EQ(Words("# nothing"), "file: names no block's choice");
}

Result<Plan> Read(const std::vector<std::string>& arguments) {
  const Result<Options> options =
      ParseOptions({PlanOptions(""), ChunkOptions(), {"", ActivationOptions()}}, "test", arguments);
  if (!options.ok()) return options.error();
  Plan plan;
  PlanRules rules;
  const Status read = ReadPlanOptions(options.value(), &plan, &rules);
  if (!read.ok()) return read.error();
  return plan;
}

TEST(ChunkOptionsTest, BlocksFileThatCannotBeUsed) {
  const std::string empty = testing::TempDir() + "/empty.blocks";
  std::ofstream(empty).close();
  EXPECT_EQ(Read({"--blocks", empty}).error().message, empty + ": names no block's choice");
  EXPECT_EQ(Read({"--blocks", testing::TempDir()}).error().message,
            testing::TempDir() + ": is a directory, not a file");
  EXPECT_EQ(Read({"--blocks", empty + "no"}).error().message,
            empty + "no: No such file or directory");
}

TEST(ChunkOptionsTest, Flags) {
  const Plan plan =
      Read({"--persist", "0", "--buffers", "4", "--chunk-size", "64MiB", "--swap", "2",
            "--checkpoint", "3", "--swap-interval", "4", "--optimizer-overlap", "off"})
          .value();
  EXPECT_TRUE(plan.has_persistent_chunks());
  EXPECT_EQ(plan.chunk_buffers(), 4);
  EXPECT_EQ(plan.chunk_bytes(), 64 << 20);
  EXPECT_EQ(plan.swapped_blocks(), 2);
  EXPECT_EQ(plan.checkpointed_blocks(), 3);
  EXPECT_EQ(plan.swap_interval(), 4);
  EXPECT_FALSE(plan.host_optimizer_overlap());
}

TEST(ChunkOptionsTest, FlagsOverrideFilesAndPresets) {
  const std::string folder = testing::TempDir();
  std::ofstream(folder + "/blocks.txt") << "swap keep";
  std::ofstream(folder + "/plan.textproto") << "swapped_blocks: 7 chunk_buffers: 9";
  const Plan listed =
      Read({"--plan", folder + "/plan.textproto", "--blocks", folder + "/blocks.txt"}).value();
  EXPECT_EQ(listed.blocks_size(), 2);
  EXPECT_EQ(listed.swapped_blocks(), 0);
  EXPECT_EQ(listed.chunk_buffers(), 9);

  const Plan preset = Read({"--preset", "zero3-offload", "--plan", folder + "/plan.textproto",
                            "--recompute", "none", "--persist", "2"})
                          .value();
  EXPECT_EQ(preset.chunk_buffers(), 9);
  EXPECT_EQ(preset.persistent_chunks(), 2);
  EXPECT_EQ(preset.recompute(), RECOMPUTE_NONE);
  EXPECT_FALSE(preset.host_optimizer_overlap());
}

TEST(ChunkOptionsTest, Errors) {
  EXPECT_THAT(Read({"--preset", "zero3"}).error().message, HasSubstr("zero3-offload"));
  EXPECT_THAT(Read({"--blocks", "/no/such/file"}).error().message, HasSubstr("/no/such/file: "));
  EXPECT_THAT(Read({"--blocks", "x", "--swap", "1"}).error().message,
              HasSubstr("--swap goes without it"));
  EXPECT_THAT(Read({"--persist", "-1"}).error().message, HasSubstr("--persist"));
}

TEST(PresetTest, EachHasAPlan) {
  for (const std::string& name : PresetNames()) {
    const auto plan = PresetPlan(name);
    ASSERT_TRUE(plan) << name;
    EXPECT_EQ(plan->persistent_chunks(), 0);
    EXPECT_FALSE(plan->host_optimizer_overlap());
  }
  EXPECT_FALSE(PresetPlan("ddp"));
}

}  // namespace
}  // namespace twinstep
