#include "exec/runtime/host_cores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace twinstep {
namespace {

using testing::ElementsAre;

HostCores On(const std::string& host, std::size_t begin, std::size_t end) {
  HostCores result;
  std::copy(host.begin(), host.end(), result.host.begin());
  for (std::size_t core = begin; core < end; ++core) result.cores.set(core);
  return result;
}

std::vector<int> Share(const std::vector<HostCores>& processes) { return ShareCores(processes); }

TEST(HostCoresTest, OneHasAllItsCores) { EXPECT_THAT(Share({On("a", 0, 16)}), ElementsAre(16)); }

TEST(HostCoresTest, WhoMayUseTheSameCoresSharesThem) {
  EXPECT_THAT(Share({On("a", 0, 16), On("a", 0, 16)}), ElementsAre(8, 8));
  EXPECT_THAT(Share({On("a", 0, 16), On("a", 0, 16), On("a", 0, 16)}), ElementsAre(5, 5, 5));
  // Thirds of three cores are one, not nearly one.
  EXPECT_THAT(Share({On("a", 0, 3), On("a", 0, 3), On("a", 0, 3)}), ElementsAre(1, 1, 1));
}

TEST(HostCoresTest, HostsShareNothing) {
  EXPECT_THAT(Share({On("a", 0, 16), On("b", 0, 8), On("b", 0, 8)}), ElementsAre(16, 4, 4));
}

// As mpirun and srun bind processes.
TEST(HostCoresTest, WhoIsBoundToCoresOfItsOwnKeepsThem) {
  EXPECT_THAT(Share({On("a", 0, 8), On("a", 8, 16)}), ElementsAre(8, 8));
  EXPECT_THAT(Share({On("a", 0, 4), On("a", 2, 6)}), ElementsAre(3, 3));
  EXPECT_THAT(Share({On("a", 0, 1), On("a", 0, 8)}), ElementsAre(1, 7));
}

TEST(HostCoresTest, NoneHasLessThanOne) {
  EXPECT_THAT(Share({On("a", 0, 2), On("a", 0, 2), On("a", 0, 2), On("a", 0, 0)}),
              ElementsAre(1, 1, 1, 1));
}

TEST(HostCoresTest, ThisHostHasANameAndCores) {
  const HostCores own = ThisHostCores();
  EXPECT_NE(own.host[0], 0);
  EXPECT_EQ(own.host.back(), 0);
  EXPECT_TRUE(own.cores.any());
  EXPECT_EQ(own.host, ThisHostCores().host);
}

}  // namespace
}  // namespace twinstep
