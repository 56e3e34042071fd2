#include "exec/cpu/group_operations.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace twinstep {
namespace {

// More than one block of the sums, and no multiple of it.
constexpr std::int64_t kElements = 3 * 5000;
constexpr std::int64_t kBytes = kElements * 4;
constexpr std::int64_t kShard = kElements / 3;

using Floats = std::vector<float>;

// In order (1e8 + 1) - 1e8 is 0 in fp32; in any other order 1 is left.
std::vector<Floats> Inputs() {
  std::vector<Floats> inputs(3, Floats(kElements));
  for (std::int64_t i = 0; i < kElements; ++i) {
    const auto k = static_cast<std::size_t>(i);
    inputs[0][k] = i % 2 == 0 ? 1e8f : static_cast<float>(i);
    inputs[1][k] = 1;
    inputs[2][k] = i % 2 == 0 ? -1e8f : 0.5f;
  }
  return inputs;
}
float Sum(std::int64_t i) { return i % 2 == 0 ? 0 : static_cast<float>(i) + 1.5f; }

std::byte* Bytes(Floats& floats, std::int64_t element = 0) {
  return reinterpret_cast<std::byte*>(floats.data() + element);
}

void Operate(OpCode op, std::int64_t bytes, const std::vector<MemberBuffers>& members) {
  std::vector<const std::byte*> parts;
  parts.reserve(members.size());
  RunGroupOperation({.op = op, .dtype = Dtype::kFp32}, bytes, members, &parts);
}

TEST(GroupOperationsTest, AllReduceSumsInGroupOrder) {
  std::vector<Floats> data = Inputs();
  std::vector<Floats> out(3, Floats(kElements));
  std::vector<MemberBuffers> apart, in_place;
  for (std::size_t i = 0; i < 3; ++i) {
    apart.push_back({Bytes(data[i]), Bytes(out[i])});
    in_place.push_back({Bytes(data[i]), Bytes(data[i])});
  }
  Operate(OpCode::kAllReduce, kBytes, apart);
  EXPECT_EQ(data, Inputs());
  Operate(OpCode::kAllReduce, kBytes, in_place);
  for (const std::vector<Floats>* results : {&out, &data}) {
    for (const Floats& result : *results) {
      for (std::int64_t i = 0; i < kElements; ++i) {
        ASSERT_EQ(result[static_cast<std::size_t>(i)], Sum(i));
      }
    }
  }
}

TEST(GroupOperationsTest, ReduceScatterGivesEachMemberItsShard) {
  std::vector<Floats> data = Inputs();
  std::vector<Floats> out(3, Floats(kShard));
  std::vector<MemberBuffers> apart, in_place;
  for (std::size_t i = 0; i < 3; ++i) {
    apart.push_back({Bytes(data[i]), Bytes(out[i])});
    in_place.push_back({Bytes(data[i]), Bytes(data[i], static_cast<std::int64_t>(i) * kShard)});
  }
  Operate(OpCode::kReduceScatter, kBytes, apart);
  Operate(OpCode::kReduceScatter, kBytes, in_place);
  const std::vector<Floats> inputs = Inputs();
  for (std::size_t rank = 0; rank < 3; ++rank) {
    for (std::int64_t i = 0; i < kElements; ++i) {
      const std::int64_t at = i - static_cast<std::int64_t>(rank) * kShard;
      const bool own = at >= 0 && at < kShard;
      if (own) {
        ASSERT_EQ(out[rank][static_cast<std::size_t>(at)], Sum(i));
      }
      const auto k = static_cast<std::size_t>(i);
      ASSERT_EQ(data[rank][k], own ? Sum(i) : inputs[rank][k]);
    }
  }
}

TEST(GroupOperationsTest, AllGatherConcatenatesInGroupOrder) {
  std::vector<Floats> out(3, Floats(kElements, -1));
  std::vector<Floats> shards;
  std::vector<MemberBuffers> apart, in_place;
  for (std::size_t i = 0; i < 3; ++i) {
    shards.emplace_back(kShard, static_cast<float>(i));
    const std::int64_t at = static_cast<std::int64_t>(i) * kShard;
    std::memcpy(Bytes(out[i], at), shards[i].data(), kShard * 4);
    in_place.push_back({Bytes(out[i], at), Bytes(out[i])});
  }
  Operate(OpCode::kAllGather, kBytes, in_place);
  std::vector<Floats> others(3, Floats(kElements, -1));
  for (std::size_t i = 0; i < 3; ++i) apart.push_back({Bytes(shards[i]), Bytes(others[i])});
  Operate(OpCode::kAllGather, kBytes, apart);
  EXPECT_EQ(out, others);
  for (std::int64_t i = 0; i < kElements; ++i) {
    ASSERT_EQ(out[1][static_cast<std::size_t>(i)], static_cast<float>(i / kShard));
  }
}

TEST(GroupOperationsTest, RingShiftPassesOn) {
  std::vector<Floats> data = Inputs();
  std::vector<Floats> out(3, Floats(kElements));
  std::vector<MemberBuffers> members;
  for (std::size_t i = 0; i < 3; ++i) members.push_back({Bytes(data[i]), Bytes(out[i])});
  Operate(OpCode::kRingShift, kBytes, members);
  EXPECT_EQ(out[0], data[2]);
  EXPECT_EQ(out[1], data[0]);
  EXPECT_EQ(out[2], data[1]);
}

TEST(GroupOperationsTest, MessagesGoFromSenderToReceiverWhereverTheyStand) {
  std::vector<Floats> data = Inputs();
  Floats received(kElements);
  Operate(OpCode::kSend, kBytes, {{Bytes(data[0]), nullptr}, {nullptr, Bytes(received)}});
  EXPECT_EQ(received, data[0]);
  Operate(OpCode::kRecv, kBytes, {{nullptr, Bytes(received)}, {Bytes(data[1]), nullptr}});
  EXPECT_EQ(received, data[1]);
}

}  // namespace
}  // namespace twinstep
