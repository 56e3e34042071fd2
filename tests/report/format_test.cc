#include "sim/format.h"

#include <gtest/gtest.h>

#include "sim/report/text_table.h"

namespace twinstep {
namespace {

TEST(FormatTest, NumbersKeepFourDigitsAndGetAUnit) {
  EXPECT_EQ(Count(0), "0");
  EXPECT_EQ(Count(999), "999");
  EXPECT_EQ(Count(-1234567), "-1,234,567");
  EXPECT_EQ(Count(2097152), "2,097,152");
  EXPECT_EQ(Grouped(999.16, 1), "999.2");
  EXPECT_EQ(Grouped(-1234567.25, 2), "-1,234,567.25");
  EXPECT_EQ(Grouped(1000, 0), "1,000");
  EXPECT_EQ(CountOf(1, "GPU"), "1 GPU");
  EXPECT_EQ(CountOf(0, "token"), "0 tokens");
  EXPECT_EQ(CountOf(4096, "token"), "4,096 tokens");

  EXPECT_EQ(Seconds(21.1712), "21.17 s");
  EXPECT_EQ(Seconds(0.061), "61.00 ms");
  EXPECT_EQ(Seconds(1.018e-3), "1.018 ms");
  EXPECT_EQ(Seconds(4e-12), "4 ps");
  EXPECT_EQ(Seconds(0.999999), "1.000 s");
  EXPECT_EQ(Seconds(0), "0 s");
  EXPECT_EQ(Seconds(1234.5), "1234.5 s");

  EXPECT_EQ(Bytes(512), "512 B");
  EXPECT_EQ(Bytes(65330982400.0), "60.84 GiB");
  EXPECT_EQ(Bytes(1024), "1.000 KiB");
  EXPECT_EQ(BytesPerSecond(55.1e9), "55.10 GB/s");
  EXPECT_EQ(Percent(0.4321), "43.2 %");
}

TEST(FormatTest, TablesHaveOneUnit) {
  EXPECT_STREQ(SecondsUnit(8.1).name, "s");
  EXPECT_STREQ(SecondsUnit(0.5).name, "ms");
  EXPECT_STREQ(SecondsUnit(5e-5).name, "us");
  EXPECT_STREQ(BytesUnit(std::int64_t{3} << 30).name, "GiB");
  EXPECT_STREQ(BytesUnit(3 << 20).name, "MiB");
  EXPECT_EQ(BytesUnit(100).size, 1024);
}

TEST(TextTableTest, AlignsColumnsAndDropsEmptyOnes) {
  TextTable table({"rank", "empty", "busy", "note"});
  table.AlignLeft(3);
  table.AddRow({"0", "", "1.5", "a"});
  table.AddRow({"10", "", "12.25", "longer"});
  EXPECT_EQ(table.ToString(),
            "  rank   busy  note\n"
            "  0       1.5  a\n"
            "  10    12.25  longer\n");
}

TEST(TextTableTest, ParagraphsBreakBetweenWords) {
  EXPECT_EQ(Paragraph("plan", 6, "short"), "plan  short\n");
  EXPECT_EQ(Paragraph("longer label", 6, "x"), "longer label x\n");
  const std::string text = Paragraph("p", 4, std::string(90, 'x') + " " + std::string(20, 'y'));
  EXPECT_EQ(text, "p   " + std::string(90, 'x') + "\n    " + std::string(20, 'y') + "\n");
}

TEST(TextTableTest, NamesOfForeignFilesMoveNoCursor) {
  TextTable table({"name", "busy"});
  table.AddRow({std::string("\x1b[31mred\n\t\0\x7f", 12), "1"});
  table.AddRow(
      {"\xc2\x9b"
       "2J \xc3\xa9",
       "2"});
  EXPECT_EQ(table.ToString(),
            "  name          busy\n"
            "  ?[31mred????     1\n"
            "  ?2J \xc3\xa9            2\n");
  EXPECT_EQ(Paragraph("p", 4, "a\x1b[31m b\r\nc"), "p   a?[31m b? c\n");
}

}  // namespace
}  // namespace twinstep
