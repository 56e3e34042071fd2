#include "exec/runtime/processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "exec/runtime/tcp_socket.h"

namespace twinstep {
namespace {

// A port that is likely free, another one in every process.
ProcessPlace Place(int rank, int size, int offset) {
  return {.rank = rank,
          .size = size,
          .local_rank = rank,
          .address = "localhost",
          .port = 20000 + (static_cast<int>(getpid()) % 750) * 16 + offset};
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
    EXPECT_EQ(one_more.ok() ? "" : one_more.error().message,
              rank == 1 ? "process 1: x is 1, process 0 has none" : "");
  });
}

TEST(ProcessesTest, AnEmptySettingIsNotAMissingOne) {
  const std::map<std::string, std::string> empty{{"x", ""}}, one{{"x", "1"}}, none;
  ForEachProcess(3, 11, [&](const std::shared_ptr<Processes>& processes, int rank) {
    const auto told = [&](const auto& first, const auto& second, const auto& third) {
      const Status agreed = processes->Agree(rank == 0 ? first : rank == 1 ? second : third);
      return agreed.ok() ? "" : agreed.error().message;
    };
    const auto expected = [rank](const char* second, const char* third) {
      return rank == 0 ? "" : rank == 1 ? second : third;
    };
    EXPECT_EQ(told(empty, none, one), expected("process 1 has no x, process 0's is empty",
                                               "process 2: x is 1, process 0's empty"));
    EXPECT_EQ(told(none, empty, none), expected("process 1: x is empty, process 0 has none", ""));
    EXPECT_EQ(told(one, empty, none), expected("process 1: x is empty, process 0's 1",
                                               "process 2 has no x, process 0's is 1"));
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

// Where a launcher binds no process to cores; and none has less than one.
TEST(ProcessesTest, ProcessesOfAHostShareItsCores) {
  constexpr int kSize = 3;
  const int alone = Processes::Join({}, 0).value()->cores();
  ForEachProcess(kSize, 6, [=](const std::shared_ptr<Processes>& processes, int) {
    EXPECT_EQ(processes->cores(), std::max(1, alone / kSize));
    EXPECT_TRUE(processes->ShareFirst({}).ok());
  });
}

TEST(ProcessesTest, WhoDoesNotComeIsMissed) {
  const ProcessPlace place = Place(0, 3, 3);
  const auto first = Processes::Join(place, 0.2);
  ASSERT_FALSE(first.ok());
  EXPECT_EQ(first.error().code, ExitCode::kNo);
  EXPECT_THAT(first.error().message,
              testing::HasSubstr("process 1, 2 of 3 did not come to localhost, port " +
                                 std::to_string(place.port)));
  EXPECT_THAT(first.error().message, testing::HasSubstr("in 0.2 s"));
}

// What a process with a port to itself is told after a short while.
std::string ErrorOfSecond(const ProcessPlace& place) {
  const auto begin = std::chrono::steady_clock::now();
  const auto second = Processes::Join(place, 0.3);
  EXPECT_FALSE(second.ok());
  // The system's own limit for a connection is some minutes.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_EQ(second.error().code, ExitCode::kNo);
  const std::string& message = second.error().message;
  EXPECT_THAT(message, testing::HasSubstr("process 1: process 0 at " + place.address + ", port " +
                                          std::to_string(place.port)));
  EXPECT_THAT(message, testing::HasSubstr("in 0.3 s"));
  return message;
}

TEST(ProcessesTest, APortThatRefusesIsGivenUp) {
  EXPECT_THAT(ErrorOfSecond(Place(1, 2, 4)), testing::HasSubstr("Connection refused"));
}

TEST(ProcessesTest, AHostWithoutAnAddressIsGivenUp) {
  ProcessPlace place = Place(1, 2, 4);
  place.address = "no-such-host.invalid";
  EXPECT_THAT(ErrorOfSecond(place), testing::HasSubstr("does not answer"));
}

// Connects, and says nothing.
TEST(ProcessesTest, AListenerThatNeverSpeaksIsGivenUp) {
  const ProcessPlace place = Place(1, 2, 7);
  const Result<Socket> listener = Listen(place.port, 8);
  ASSERT_TRUE(listener.ok()) << listener.error().message;
  EXPECT_THAT(ErrorOfSecond(place), testing::HasSubstr("is not process 0 of 2"));
}

// As behind a firewall that drops what comes: its queue of connections is full.
TEST(ProcessesTest, APortThatNeverAnswersIsGivenUp) {
  ProcessPlace place = Place(1, 2, 8);
  place.address = "127.0.0.1";
  const Result<Socket> listener = Listen(place.port, 0);
  ASSERT_TRUE(listener.ok()) << listener.error().message;
  const auto soon = [] {
    return std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  };
  std::vector<Socket> queued;
  for (int i = 0; i < 64; ++i) {
    Result<Socket> connected = ConnectTo(place.address, place.port, soon());
    if (!connected.ok()) break;
    queued.push_back(std::move(connected).value());
  }
  ASSERT_LT(queued.size(), 64u);
  EXPECT_THAT(ErrorOfSecond(place), testing::HasSubstr("(no answer)"));
}

TEST(ProcessesTest, APortThatRefusesUntilLateIsReached) {
  const ProcessPlace first = Place(0, 2, 9), second = Place(1, 2, 9);
  std::jthread early([&] {
    const auto joined = Processes::Join(second, 20);
    ASSERT_TRUE(joined.ok()) << joined.error().message;
    EXPECT_TRUE(joined.value()->ShareFirst({}).ok());
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const auto processes = Processes::Join(first, 20);
  ASSERT_TRUE(processes.ok()) << processes.error().message;
  EXPECT_TRUE(processes.value()->ShareFirst({}).ok());
}

// The second is there, and the third does not come.
TEST(ProcessesTest, WhoWaitsForOthersIsToldSo) {
  const ProcessPlace first = Place(0, 3, 10), second = Place(1, 3, 10);
  std::jthread waiting([&] {
    const auto joined = Processes::Join(second, 0.5);
    ASSERT_FALSE(joined.ok());
    EXPECT_THAT(joined.error().message, testing::HasSubstr("still waits for others after 0.5 s"));
  });
  const auto processes = Processes::Join(first, 1.5);
  ASSERT_FALSE(processes.ok());
  EXPECT_THAT(processes.error().message, testing::HasSubstr("process 2 of 3 did not come"));
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
