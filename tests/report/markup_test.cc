#include "sim/report/markup.h"

#include <gtest/gtest.h>

namespace twinstep {
namespace {

TEST(MarkupTest, TextIsNoMarkupAndHoldsNoControlCharacters) {
  EXPECT_EQ(MarkupText("a<b> && \"c\"\n\xc3\xa9"), "a&lt;b&gt; &amp;&amp; \"c\"\n\xc3\xa9");
  // No XML holds them, not even as entities.
  EXPECT_EQ(MarkupText("gemm\x1b[31m\x01"), "gemm?[31m?");
}

TEST(MarkupTest, ElementsOfPictures) {
  EXPECT_EQ(SvgText(1, 2.25, "end", "<&", " font-size=\"16\""),
            "<text x=\"1.0\" y=\"2.2\" text-anchor=\"end\" font-size=\"16\">&lt;&amp;</text>\n");
  EXPECT_EQ(SvgLine(0, 1, 2, 3.5, "stroke=\"#ddd\""),
            "<line x1=\"0.0\" y1=\"1.0\" x2=\"2.0\" y2=\"3.5\" stroke=\"#ddd\"/>\n");
}

}  // namespace
}  // namespace twinstep
