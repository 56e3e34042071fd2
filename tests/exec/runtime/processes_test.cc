#include "exec/runtime/processes.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace twinstep {
namespace {

Result<ProcessPlace> Read(const std::map<std::string, std::string>& variables) {
  return ReadProcessPlace([&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

// A port that is likely free, another one in every process.
ProcessPlace Place(int rank, int size, int offset) {
  return {.rank = rank,
          .size = size,
          .local_rank = rank,
          .address = "localhost",
          .port = 20000 + (static_cast<int>(getpid()) % 10000) * 4 + offset};
}

TEST(ProcessesTest, AloneWhereNothingIsSet) {
  const Result<ProcessPlace> place = Read({});
  ASSERT_TRUE(place.ok());
  EXPECT_EQ(place.value().size, 1);
  EXPECT_EQ(place.value().rank, 0);
  EXPECT_EQ(Read({{"WORLD_SIZE", "1"}, {"RANK", "0"}}).value().size, 1);
  // A batch script of Slurm.
  EXPECT_EQ(Read({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}).value().size, 1);
}

TEST(ProcessesTest, EveryLauncherIsUnderstood) {
  const std::vector<std::vector<std::string>> launchers{
      {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
      {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"}};
  for (const auto& names : launchers) {
    const std::map<std::string, std::string> all{{names[0], "5"},
                                                 {names[1], "8"},
                                                 {names[2], "1"},
                                                 {"MASTER_ADDR", "node0"},
                                                 {"MASTER_PORT", "29500"}};
    const Result<ProcessPlace> place = Read(all);
    ASSERT_TRUE(place.ok()) << place.error().message;
    EXPECT_EQ(place.value().rank, 5);
    EXPECT_EQ(place.value().size, 8);
    EXPECT_EQ(place.value().local_rank, 1);
    EXPECT_EQ(place.value().address, "node0");
    EXPECT_EQ(place.value().port, 29501);
    for (const auto& [missing, value] : all) {
      if (missing == names[1]) continue;
      auto some = all;
      some.erase(missing);
      const Result<ProcessPlace> incomplete = Read(some);
      ASSERT_FALSE(incomplete.ok()) << missing;
      EXPECT_NE(incomplete.error().message.find(missing), std::string::npos);
      EXPECT_EQ(incomplete.error().code, ExitCode::kBadInput);
    }
    for (const char* bad : {"8", "-1", "x", ""}) {
      auto wrong = all;
      wrong[names[0]] = bad;
      EXPECT_FALSE(Read(wrong).ok()) << bad;
    }
  }
}

TEST(ProcessesTest, RanksAreSplitEvenly) {
  const Result<RankRange> range = RanksOfProcess(8, Place(1, 4, 0));
  ASSERT_TRUE(range.ok());
  EXPECT_EQ(range.value().first, 2u);
  EXPECT_EQ(range.value().end, 4u);
  EXPECT_FALSE(RanksOfProcess(3, Place(0, 2, 0)).ok());
}

TEST(ProcessesTest, TheFirstsBytesReachAll) {
  constexpr int kSize = 3;
  const std::vector<std::byte> sent(100000, std::byte{7});
  std::vector<std::vector<std::byte>> got(kSize);
  {
    std::vector<std::jthread> threads;
    for (int rank = kSize - 1; rank >= 0; --rank) {
      threads.emplace_back([&, rank] {
        const auto bytes =
            ShareFirst(Place(rank, kSize, 0), rank == 0 ? sent : std::vector<std::byte>(), 20);
        if (bytes.ok()) got[static_cast<std::size_t>(rank)] = bytes.value();
      });
    }
  }
  for (const auto& bytes : got) EXPECT_EQ(bytes, sent);
}

TEST(ProcessesTest, WhoDoesNotComeIsMissed) {
  const auto first = ShareFirst(Place(0, 2, 1), {}, 0.2);
  ASSERT_FALSE(first.ok());
  EXPECT_NE(first.error().message.find("1 of 2"), std::string::npos);
  const auto second = ShareFirst(Place(1, 2, 2), {}, 0.2);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message.find("localhost"), std::string::npos);
}

}  // namespace
}  // namespace twinstep
