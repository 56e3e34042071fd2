#include "traces/shape_text.h"

#include <gtest/gtest.h>

namespace twinstep {
namespace {

TEST(ShapeTextTest, NamesDimensions) {
  OpShape shape{.op = OpCode::kGemmForward, .dims = {4096, 8192, 2048}};
  EXPECT_EQ(ShapeText(shape), "n 4096 x out 8192 x in 2048, bf16");
  shape.op = OpCode::kAllReduce;
  EXPECT_EQ(ShapeText(shape), "");
}

}  // namespace
}  // namespace twinstep
