#include "sim/report/text_table.h"

#include <gtest/gtest.h>

namespace twinstep {
namespace {

TEST(TextTableTest, ColumnsBeyondTheWidthFollowBelow) {
  TextTable table({"plan", "seconds", "none", "bytes", "why"});
  table.AlignLeft(4);
  table.AddRow({"1", "0.5", "", "100", "fits"});
  table.AddRow({"2", "12.5", "", "7", "too long"});
  EXPECT_EQ(table.ToString(),
            "  plan  seconds  bytes  why\n"
            "  1         0.5    100  fits\n"
            "  2        12.5      7  too long\n");
  EXPECT_EQ(table.ToString(2, 32), table.ToString());
  EXPECT_EQ(table.ToString(2, 31),
            "  plan  seconds  bytes\n"
            "  1         0.5    100\n"
            "  2        12.5      7\n"
            "  plan  why\n"
            "  1     fits\n"
            "  2     too long\n");
  // A column is never cut.
  EXPECT_EQ(table.ToString(0, 1),
            "plan  seconds\n1         0.5\n2        12.5\n"
            "plan  bytes\n1       100\n2         7\n"
            "plan  why\n1     fits\n2     too long\n");
}

TEST(TextTableTest, NamesOfForeignFilesDoNotReachTheTerminal) {
  TextTable table({"name", "at"});
  table.AddRow({"a\x1b[2J\nb", "\xc2\x9b"});
  EXPECT_EQ(table.ToString(), "  name     at\n  a?[2J?b   ?\n");
  EXPECT_EQ(Paragraph("of", 3, "a\x1b[2J b", 80), "of a?[2J b\n");
}

TEST(TextTableTest, ColumnsAreOfCharactersNotOfBytes) {
  TextTable table({"größe", "modèle", "n"});
  table.AlignLeft(1);
  table.AddRow({"öö", "小-llama", "1"});
  table.AddRow({"abc", "x", "22"});
  EXPECT_EQ(table.ToString(),
            "  größe  modèle    n\n"
            "  öö     小-llama   1\n"
            "  abc    x        22\n");
  EXPECT_EQ(table.ToString(2, 20), table.ToString());
  EXPECT_EQ(Paragraph("größe", 7, "äöü äöü äöü", 14), "größe  äöü äöü\n       äöü\n");
  EXPECT_EQ(Paragraph("ä", 1, "b", 80), "ä b\n");
  // Bytes that are no text take no more than their number.
  TextTable bad({"name", "n"});
  bad.AddRow({"\xff\xbf\xc3", "1"});
  EXPECT_EQ(bad.ToString(), "  name  n\n  \xff\xbf\xc3    1\n");
}

TEST(TextTableTest, ParagraphsKeepTheirWidthAndTheirPercentSigns) {
  EXPECT_EQ(Paragraph("why", 5, "at least 99.9 % of it", 19), "why  at least\n     99.9 % of it\n");
  EXPECT_EQ(Paragraph("", 0, "a 5 %", 80), "a 5 %\n");
  EXPECT_EQ(Paragraph("", 2, "two words", 6), "  two\n  words\n");
}

}  // namespace
}  // namespace twinstep
