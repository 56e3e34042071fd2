#include "sim/estimate/mfu.h"

#include <gtest/gtest.h>

#include "sim/estimate/model_size.h"
#include "sim/estimate/zero_volumes.h"
#include "tests/estimate/paper_plans.h"

namespace twinstep {
namespace {

// Yuan et al., ATC 2024: every published pair, to the printed digit.
TEST(MfuTest, PublishedPairs) {
  struct Pair {
    const char* model;
    std::int64_t s;
    double tokens_per_s, percent;
  };
  for (const Pair& pair :
       {Pair{"llama-7b", 12288, 6639, 33.1}, Pair{"llama-7b", 12288, 8273, 41.2},
        Pair{"llama-7b", 12288, 6138, 30.6}, Pair{"llama-175b", 8192, 299, 33.4},
        Pair{"llama-175b", 8192, 387, 43.2}, Pair{"llama-175b", 8192, 278, 31.0},
        Pair{"llama-175b", 4096, 381.2, 41.4}, Pair{"llama-65b", 4096, 914.0, 37.5},
        Pair{"llama2-70b", 8192, 895.9, 40.3}}) {
    const double mfu = Mfu(PaperModel(pair.model), pair.s, pair.tokens_per_s, kH800Flops);
    EXPECT_NEAR(100 * mfu, pair.percent, 0.051) << pair.model << " " << pair.tokens_per_s;
  }
}

TEST(MfuTest, ColumnOfFigure9) {
  for (const PaperRow& row : Figure9()) {
    const double per_gpu = row.tokens_per_s / static_cast<double>(row.gpus);
    const double mfu = Mfu(PaperModel(row.model), row.sequence_length, per_gpu, kH800Flops);
    EXPECT_NEAR(100 * mfu, row.mfu_percent, 0.051) << row.model << " on " << row.gpus;
  }
}

TEST(MfuTest, FlopsPerTokenOf175B) {
  const Model model = PaperModel("llama-175b");
  EXPECT_NEAR(ModelFlopsPerToken(model, 8192), 1.104e12, 0.0005e12);
  EXPECT_NEAR(ModelFlopsPerToken(model, 32768), 1.278e12, 0.0005e12);
}

// hw_specs/SOURCES.md M8.6.
TEST(MegatronFlopsTest, TwoFormulas) {
  const Model model = PaperModel("megatron-175b", 51200);
  const double batch = 1536, s = 2048, l = 96, h = 12288, vocabulary = 51200;
  EXPECT_DOUBLE_EQ(MegatronFlopsPerStep(model, 1536, 2048, false),
                   72 * batch * s * l * h * h * (1 + s / (6 * h) + vocabulary / (12 * l * h)));
  EXPECT_DOUBLE_EQ(MegatronFlopsPerStep(model, 1536, 2048, true),
                   96 * batch * s * l * h * h * (1 + s / (6 * h) + vocabulary / (16 * l * h)));
}

// hw_specs/SOURCES.md M8.5: M parameters in fp16.
TEST(ZeroVolumesTest, VolumesInModelSizes) {
  const std::int64_t parameters = 10'070'000'000;
  EXPECT_EQ(ZeroOffloadPcieBytes(2 * parameters), 4 * parameters);
  EXPECT_EQ(ZeroNetworkBytes(2 * parameters, 0), 4 * parameters);
  EXPECT_EQ(ZeroNetworkBytes(2 * parameters, 2), 4 * parameters);
  EXPECT_EQ(ZeroNetworkBytes(2 * parameters, 3), 6 * parameters);
}

}  // namespace
}  // namespace twinstep
