#include "exec/runtime/processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
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
          .port = 20000 + (static_cast<int>(getpid()) % 750) * 16 + offset};
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
      EXPECT_FALSE(Read(wrong).ok()) << bad;
    }
  }
}

TEST(ProcessesTest, TheFirstProcessIsFoundWithoutItsAddress) {
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

TEST(ProcessesTest, RanksAreSplitEvenly) {
  const Result<RankRange> range = RanksOfProcess(8, Place(1, 4, 0));
  ASSERT_TRUE(range.ok());
  EXPECT_EQ(range.value().first, 2u);
  EXPECT_EQ(range.value().end, 4u);
  EXPECT_FALSE(RanksOfProcess(3, Place(0, 2, 0)).ok());
}

// body(processes, rank) of each of `size` processes, in a thread of its own.
template <typename Body>
void ForEachProcess(int size, int offset, Body body) {
  std::vector<std::jthread> threads;
  for (int rank = size - 1; rank >= 0; --rank) {
    threads.emplace_back([=] {
      Result<std::shared_ptr<Processes>> joined = Processes::Join(Place(rank, size, offset), 20);
      ASSERT_TRUE(joined.ok()) << joined.error().message;
      body(std::move(joined).value(), rank);
    });
  }
}

TEST(ProcessesTest, TheFirstsBytesReachAllAgainAndAgain) {
  constexpr int kSize = 3;
  std::vector<std::byte> sent(100000);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i % 251);
  ForEachProcess(kSize, 0, [&](const std::shared_ptr<Processes>& processes, int rank) {
    const auto bytes = processes->ShareFirst(rank == 0 ? sent : std::vector<std::byte>());
    ASSERT_TRUE(bytes.ok()) << bytes.error().message;
    EXPECT_EQ(bytes.value(), sent);
    const auto none = processes->ShareFirst({});
    ASSERT_TRUE(none.ok());
    EXPECT_TRUE(none.value().empty());
    EXPECT_TRUE(processes->CheckAlive().ok());
    // Nobody leaves before all have looked.
    EXPECT_TRUE(processes->ShareFirst({}).ok());
  });
}

TEST(ProcessesTest, OneProcessNeedsNobody) {
  const auto processes = Processes::Join({}, 0);
  ASSERT_TRUE(processes.ok());
  const std::vector<std::byte> bytes(3, std::byte{1});
  EXPECT_EQ(processes.value()->ShareFirst(bytes).value(), bytes);
  EXPECT_TRUE(processes.value()->Agree({{"a", "b"}}).ok());
  EXPECT_TRUE(processes.value()->CheckAlive().ok());
}

TEST(ProcessesTest, WhatDiffersIsNamedWhereItDiffers) {
  ForEachProcess(3, 1, [](const std::shared_ptr<Processes>& processes, int rank) {
    EXPECT_TRUE(processes->Agree({{"lr", "1"}, {"empty", ""}}).ok());
    const Status agreed = processes->Agree({{"lr", rank == 2 ? "2" : "1"}, {"seed", "7"}});
    EXPECT_EQ(agreed.ok() ? "" : agreed.error().message,
              rank == 2 ? "process 2: lr is 2, process 0's 1" : "");
    const Status one_more = processes->Agree({{"lr", "1"}, {rank == 1 ? "x" : "y", "1"}});
    EXPECT_EQ(one_more.ok(), rank != 1);
  });
}

TEST(ProcessesTest, TheEndOfOneIsSeenByAll) {
  ForEachProcess(3, 2, [](const std::shared_ptr<Processes>& processes, int rank) {
    ASSERT_TRUE(processes->ShareFirst({}).ok());
    if (rank == 2) return;
    if (rank == 1) {
      // Waits for process 0, which leaves when it sees that process 2 has left.
      const auto shared = processes->ShareFirst({});
      ASSERT_FALSE(shared.ok());
      EXPECT_THAT(shared.error().message, testing::HasSubstr("process 1: process 0 has ended"));
      EXPECT_EQ(shared.error().code, ExitCode::kNo);
      return;
    }
    Status alive = processes->CheckAlive();
    for (int i = 0; alive.ok() && i < 1000; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      alive = processes->CheckAlive();
    }
    ASSERT_FALSE(alive.ok());
    EXPECT_THAT(alive.error().message, testing::HasSubstr("process 0: process 2 has ended"));
    const auto shared = processes->ShareFirst({});
    ASSERT_FALSE(shared.ok());
    EXPECT_THAT(shared.error().message, testing::HasSubstr("process 2 has ended"));
  });
}

TEST(ProcessesTest, WhoDoesNotComeIsMissed) {
  const auto first = Processes::Join(Place(0, 3, 3), 0.2);
  ASSERT_FALSE(first.ok());
  EXPECT_THAT(first.error().message, testing::HasSubstr("process 1, 2 of 3 did not come"));
  const auto second = Processes::Join(Place(1, 2, 4), 0.2);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().message, testing::HasSubstr("does not answer at localhost"));
}

TEST(ProcessesTest, StrangersAreSentAway) {
  const ProcessPlace first = Place(0, 2, 5), second = Place(1, 2, 5);
  std::jthread stranger([&] {
    // Of another training.
    const ProcessPlace other{.rank = 1, .size = 7, .address = second.address, .port = second.port};
    EXPECT_FALSE(Processes::Join(other, 1).ok());
    const auto joined = Processes::Join(second, 20);
    ASSERT_TRUE(joined.ok());
    EXPECT_TRUE(joined.value()->ShareFirst({}).ok());
  });
  const auto processes = Processes::Join(first, 20);
  ASSERT_TRUE(processes.ok()) << processes.error().message;
  EXPECT_TRUE(processes.value()->ShareFirst({}).ok());
}

}  // namespace
}  // namespace twinstep
