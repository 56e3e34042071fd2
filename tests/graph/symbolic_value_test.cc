#include "sim/graph/symbolic_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "sim/graph/symbolic_memory.h"

namespace twinstep {
namespace {

constexpr std::uint64_t kV = 123456789;

SymbolicPiece Whole(std::int64_t offset, std::int64_t bytes, std::uint64_t v) {
  return {offset, bytes, 0, bytes, {.v = v}};
}

TEST(FieldTest, AddAndSubtractAreInverse) {
  const std::uint64_t a = field::kPrime - 1;
  EXPECT_EQ(field::Add(a, 2), 1u);
  EXPECT_EQ(field::Subtract(1, 2), a);
  EXPECT_EQ(field::Add(field::Subtract(5, a), a), 5u);
  EXPECT_LT(field::Hash({1, 2, 3}), field::kPrime);
  EXPECT_NE(field::Hash({1, 2}), field::Hash({2, 1}));
  EXPECT_NE(field::Hash({0}), field::Hash({0, 0}));
}

TEST(AddendTest, WholeAxisIsTheValueItself) {
  EXPECT_EQ(Addend(kV, PartialAxis::kTokens, 0, 8, 8), SymbolicValue{.v = kV});
}

TEST(AddendTest, EqualFractionsAreEqual) {
  EXPECT_EQ(Addend(kV, PartialAxis::kTokens, 1, 2, 4),
            Addend(kV, PartialAxis::kTokens, 256, 512, 1024));
  EXPECT_NE(Addend(kV, PartialAxis::kTokens, 1, 2, 4).v,
            Addend(kV, PartialAxis::kFeatures, 1, 2, 4).v);
}

TEST(AddendTest, DescribesItself) {
  EXPECT_EQ(DescribePartial(Addend(kV, PartialAxis::kFeatures, 2, 3, 4)),
            "partial 2 of 4 over features");
  SymbolicValue sum = Addend(kV, PartialAxis::kTokens, 2, 3, 4);
  AddTo(sum, Addend(kV, PartialAxis::kTokens, 0, 1, 4));
  EXPECT_EQ(DescribePartial(sum), "an incomplete sum of partials over tokens");
  EXPECT_EQ(DescribePartial({}), "a complete sum");
}

// Cuts [0, total) at random places.
std::vector<std::int64_t> Cuts(std::int64_t total) {
  std::vector<std::int64_t> cuts =
      *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(1, total));
  cuts.push_back(0);
  cuts.push_back(total);
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

RC_GTEST_PROP(AddendTest, AnyPartitionSumsToTheValueInAnyOrder, ()) {
  const auto total = *rc::gen::inRange<std::int64_t>(2, 1 << 20);
  const std::vector<std::int64_t> cuts = Cuts(total);
  std::vector<SymbolicValue> addends;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    addends.push_back(Addend(kV, PartialAxis::kTokens, cuts[i], cuts[i + 1], total));
  }
  const auto order = *rc::gen::inRange<std::size_t>(0, addends.size());
  std::rotate(addends.begin(), addends.begin() + static_cast<std::ptrdiff_t>(order), addends.end());
  SymbolicValue sum = addends[0];
  for (std::size_t i = 1; i < addends.size(); ++i) {
    RC_ASSERT(sum.partial == PartialAxis::kTokens);
    AddTo(sum, addends[i]);
  }
  RC_ASSERT(sum == SymbolicValue{.v = kV});
}

RC_GTEST_PROP(AddendTest, IncompleteOrRepeatedSumsAreNotTheValue, ()) {
  const auto count = *rc::gen::inRange<std::int64_t>(2, 16);
  const auto wrong = *rc::gen::inRange<std::int64_t>(0, count);
  const bool repeat = *rc::gen::arbitrary<bool>();
  SymbolicValue sum{.v = 0, .present = 0};
  for (std::int64_t i = 0; i < count; ++i) {
    const SymbolicValue addend = Addend(kV, PartialAxis::kFeatures, i, i + 1, count);
    if (i != wrong || repeat) AddTo(sum, addend);
    if (i == wrong && repeat) AddTo(sum, addend);
  }
  RC_ASSERT(sum.v != kV);
  RC_ASSERT(sum.present != 1u);
}

TEST(AddendTest, MicroBatchesOfOneAddendStayThatAddend) {
  SymbolicValue first = Addend(kV, PartialAxis::kTokens, 0, 1, 2);
  AddTo(first, Addend(99, PartialAxis::kTokens, 0, 1, 2));
  EXPECT_EQ(DescribePartial(first), "partial 0 of 2 over tokens");
  SymbolicValue second = Addend(kV, PartialAxis::kTokens, 1, 2, 2);
  AddTo(second, Addend(99, PartialAxis::kTokens, 1, 2, 2));
  AddTo(first, second);
  EXPECT_EQ(first, SymbolicValue{.v = kV + 99});
}

TEST(PieceTest, NeighboursOfOneTensorMerge) {
  SymbolicPieces pieces;
  AppendMerged(pieces, {0, 4, 0, 8, {.v = 1}});
  AppendMerged(pieces, {4, 4, 4, 8, {.v = 1}});
  AppendMerged(pieces, {8, 4, 0, 8, {.v = 1}});   // Another copy of it.
  AppendMerged(pieces, {12, 4, 4, 8, {.v = 2}});  // The second half of another tensor.
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_TRUE(pieces[0].IsWhole());
  EXPECT_EQ(DescribeRange(pieces[1]), "shard 0 of 2");
  EXPECT_EQ(DescribeRange(pieces[2]), "shard 1 of 2");
  EXPECT_EQ(DescribeRange({0, 3, 2, 8, {}}), "bytes [2, 5) of 8");
}

TEST(PieceTest, RescaleRefusesToCutBytes) {
  SymbolicPieces pieces{{4, 4, 2, 8, {}}};
  ASSERT_TRUE(Rescale(pieces, 16, 8));
  EXPECT_EQ(pieces[0].offset, 2);
  EXPECT_EQ(pieces[0].begin, 1);
  EXPECT_EQ(pieces[0].total, 4);
  EXPECT_FALSE(Rescale(pieces, 8, 4));
}

TEST(SymbolicMemoryTest, ReadsWhatWasWritten) {
  SymbolicMemory memory(2);
  SymbolicPieces out;
  memory.Read(0, 0, 100, out);
  EXPECT_TRUE(out.empty());
  memory.Write(0, 0, 100, {Whole(0, 100, 1)});
  memory.Write(0, 20, 10, {Whole(0, 10, 2)});
  memory.Read(0, 10, 30, out);
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(out[0].begin, 10);
  EXPECT_EQ(out[1].offset, 10);
  EXPECT_TRUE(out[1].IsWhole());
  EXPECT_EQ(out[2].begin, 30);
  EXPECT_EQ(out[2].bytes, 10);
  memory.Release(0);
  memory.Write(1, 0, 8, {Whole(0, 8, 3)});
  out.clear();
  memory.Read(0, 0, 100, out);
  EXPECT_TRUE(out.empty());
}

// Against an array of bytes.
RC_GTEST_PROP(SymbolicMemoryTest, EqualsAByteArray, ()) {
  constexpr std::int64_t kBytes = 64;
  struct Byte {
    std::uint64_t v = 0;
    std::int64_t at = 0;
  };
  std::vector<Byte> bytes(kBytes);
  SymbolicMemory memory(1);
  const auto writes = *rc::gen::inRange(0, 30);
  for (int i = 1; i <= writes; ++i) {
    const auto begin = *rc::gen::inRange<std::int64_t>(0, kBytes);
    const auto end = *rc::gen::inRange<std::int64_t>(begin + 1, kBytes + 1);
    const auto v = static_cast<std::uint64_t>(i);
    const bool two = end - begin > 2 && *rc::gen::arbitrary<bool>();
    SymbolicPieces pieces;
    const std::int64_t first = two ? (end - begin) / 2 : end - begin;
    pieces.push_back({0, first, 5, 1000, {.v = v}});
    if (two) pieces.push_back({first + 1, end - begin - first - 1, 7, 1000, {.v = v + 100}});
    memory.Write(0, begin, end - begin, pieces);
    for (std::int64_t k = begin; k < end; ++k) bytes[static_cast<std::size_t>(k)] = {};
    for (const SymbolicPiece& piece : pieces) {
      for (std::int64_t k = 0; k < piece.bytes; ++k) {
        bytes[static_cast<std::size_t>(begin + piece.offset + k)] = {piece.value.v,
                                                                     piece.begin + k};
      }
    }
  }
  const auto begin = *rc::gen::inRange<std::int64_t>(0, kBytes);
  const auto end = *rc::gen::inRange<std::int64_t>(begin + 1, kBytes + 1);
  SymbolicPieces out;
  memory.Read(0, begin, end - begin, out);
  std::vector<Byte> found(static_cast<std::size_t>(end - begin));
  for (const SymbolicPiece& piece : out) {
    for (std::int64_t k = 0; k < piece.bytes; ++k) {
      found[static_cast<std::size_t>(piece.offset + k)] = {piece.value.v, piece.begin + k};
    }
  }
  for (std::int64_t k = begin; k < end; ++k) {
    RC_ASSERT(found[static_cast<std::size_t>(k - begin)].v == bytes[static_cast<std::size_t>(k)].v);
    RC_ASSERT(found[static_cast<std::size_t>(k - begin)].at ==
              bytes[static_cast<std::size_t>(k)].at);
  }
}

}  // namespace
}  // namespace twinstep
