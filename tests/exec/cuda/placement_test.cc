#include "exec/cuda/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace twinstep::cuda {
namespace {

using Gpus = std::vector<std::size_t>;

TEST(PlacementTest, ARankAGpuOrNeighboursTogether) {
  EXPECT_EQ(PlaceRanks(1, 8), (Gpus{0}));
  EXPECT_EQ(PlaceRanks(4, 8), (Gpus{0, 1, 2, 3}));
  EXPECT_EQ(PlaceRanks(4, 2), (Gpus{0, 0, 1, 1}));
  EXPECT_EQ(PlaceRanks(5, 2), (Gpus{0, 0, 0, 1, 1}));
  EXPECT_EQ(PlaceRanks(3, 1), (Gpus{0, 0, 0}));
}

TEST(PlacementTest, AllGpusAreUsedAndNoneHasTwoRanksMoreThanAnother) {
  for (std::size_t ranks = 1; ranks <= 40; ++ranks) {
    for (std::size_t gpus = 1; gpus <= 16; ++gpus) {
      const Gpus placed = PlaceRanks(ranks, gpus);
      ASSERT_TRUE(std::is_sorted(placed.begin(), placed.end()));
      Gpus count(std::min(ranks, gpus), 0);
      for (const std::size_t gpu : placed) ++count.at(gpu);
      const auto [least, most] = std::minmax_element(count.begin(), count.end());
      EXPECT_GE(*least, 1u);
      EXPECT_LE(*most - *least, 1u);
    }
  }
}

TEST(PlacementTest, ProcessesOfAHostTakeTheirGpusInTurn) {
  EXPECT_EQ(FirstGpuOfProcess(1, 3, 8).value(), 3);
  EXPECT_EQ(FirstGpuOfProcess(4, 1, 8).value(), 4);
  EXPECT_EQ(FirstGpuOfProcess(2, 1, 2).value(), 0);  // Each is shown its own.
  const Result<int> missing = FirstGpuOfProcess(4, 1, 6);
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("needs 4 GPUs"), std::string::npos);
}

}  // namespace
}  // namespace twinstep::cuda
