#include "exec/runtime/process_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace twinstep {
namespace {

using Variables = std::map<std::string, std::string>;

EnvironmentVariable Of(const Variables& variables) {
  return [&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

Result<ProcessPlace> Read(const Variables& variables) { return ReadProcessPlace(Of(variables)); }
Status Check(const Variables& variables) { return CheckOneProcess(Of(variables), "profile"); }

TEST(ProcessPlaceTest, AloneWhereNothingIsSet) {
  const Result<ProcessPlace> place = Read({});
  ASSERT_TRUE(place.ok());
  EXPECT_EQ(place.value().size, 1);
  EXPECT_EQ(place.value().rank, 0);
  EXPECT_EQ(Read({{"WORLD_SIZE", "1"}, {"RANK", "0"}}).value().size, 1);
  // A batch script of Slurm.
  EXPECT_EQ(Read({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}).value().size, 1);
}

TEST(ProcessPlaceTest, EveryLauncherIsUnderstood) {
  const std::vector<std::vector<std::string>> launchers{
      {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
      {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"},
      {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"}};
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
    EXPECT_EQ(place.value().variable, names[1]);
    for (const auto& [missing, value] : all) {
      if (missing == names[1] || missing == "MASTER_PORT") continue;
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
      const Result<ProcessPlace> place_of_none = Read(wrong);
      ASSERT_FALSE(place_of_none.ok()) << bad;
      EXPECT_THAT(place_of_none.error().message,
                  testing::HasSubstr(names[0] + " is '" + bad + "', not a number from 0 to 7"));
    }
  }
}

TEST(ProcessPlaceTest, TheFirstProcessIsFoundWithoutItsAddress) {
  const std::map<std::string, std::string> mpi{{"OMPI_COMM_WORLD_RANK", "1"},
                                               {"OMPI_COMM_WORLD_SIZE", "2"},
                                               {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                               {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  const Result<ProcessPlace> on_host = Read(mpi);
  ASSERT_TRUE(on_host.ok());
  EXPECT_EQ(on_host.value().address, "127.0.0.1");
  EXPECT_EQ(on_host.value().port, 29501);
  auto on_hosts = mpi;
  on_hosts["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";
  EXPECT_FALSE(Read(on_hosts).ok());
  for (const auto& [list, first] :
       std::map<std::string, std::string>{{"gpu[007-009,012],login1", "gpu007"},
                                          {"a3,b[1-2]", "a3"},
                                          {"single", "single"},
                                          {"rack[1,4]-x,c", "rack1-x"},
                                          {"bad[", "bad"}}) {
    const Result<ProcessPlace> slurm = Read({{"SLURM_PROCID", "0"},
                                             {"SLURM_STEP_NUM_TASKS", "2"},
                                             {"SLURM_LOCALID", "0"},
                                             {"SLURM_STEP_NODELIST", list}});
    ASSERT_TRUE(slurm.ok());
    EXPECT_EQ(slurm.value().address, first);
  }
}

TEST(ProcessPlaceTest, RanksAreSplitEvenly) {
  const Result<RankRange> range = RanksOfProcess(8, {.rank = 1, .size = 4});
  ASSERT_TRUE(range.ok());
  EXPECT_EQ(range.value().first, 2u);
  EXPECT_EQ(range.value().end, 4u);
  EXPECT_FALSE(RanksOfProcess(3, {.rank = 0, .size = 2}).ok());
}

TEST(ProcessPlaceTest, WhatNeedsOneProcessNamesTheVariableOfSeveral) {
  EXPECT_TRUE(Check({}).ok());
  EXPECT_TRUE(Check({{"WORLD_SIZE", "1"}}).ok());
  EXPECT_TRUE(Check({{"SLURM_NTASKS", "8"}}).ok());
  // Who sets no more than the number of processes is refused, too.
  for (const char* size :
       {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "PMI_SIZE"}) {
    const Status several = Check({{size, "2"}});
    ASSERT_FALSE(several.ok());
    EXPECT_EQ(several.error().code, ExitCode::kBadInput);
    EXPECT_THAT(several.error().message, testing::HasSubstr(std::string(size) + " is 2"));
    EXPECT_THAT(several.error().message, testing::HasSubstr("profile needs all ranks in one"));
    EXPECT_THAT(several.error().message,
                testing::HasSubstr("start it without torchrun, mpirun or srun"));
    EXPECT_THAT(Check({{size, "many"}}).error().message, testing::HasSubstr(size));
  }
}

}  // namespace
}  // namespace twinstep
