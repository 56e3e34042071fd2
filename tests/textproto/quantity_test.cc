#include "sim/textproto/quantity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <utility>

namespace twinstep {
namespace {

using testing::HasSubstr;

std::int64_t Integer(std::string_view text) {
  const auto parsed = ParseInteger(text);
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  return parsed.ok() ? parsed.value() : -1;
}

TEST(ParseIntegerTest, AcceptsWhatPeopleType) {
  EXPECT_EQ(Integer("42"), 42);
  EXPECT_EQ(Integer("-7"), -7);
  EXPECT_EQ(Integer("1e9"), 1'000'000'000);
  EXPECT_EQ(Integer("65000MiB"), 68'157'440'000);
  EXPECT_EQ(Integer("80GB"), 80'000'000'000);
  EXPECT_EQ(Integer("80gb"), 80'000'000'000);
  EXPECT_EQ(Integer("1.5GiB"), 1'610'612'736);
  EXPECT_EQ(Integer("512B"), 512);
  EXPECT_EQ(Integer("4KB"), 4000);
  EXPECT_EQ(Integer("4KiB"), 4096);
  EXPECT_EQ(Integer("2TB"), 2'000'000'000'000);
  EXPECT_EQ(Integer("1PiB"), std::int64_t{1} << 50);
}

TEST(ParseIntegerTest, IsExactOverTheWholeRange) {
  EXPECT_EQ(Integer("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(Integer("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(Integer("9007199254740993"), 9007199254740993);  // No double.
}

TEST(ParseIntegerTest, RefusesTheRest) {
  for (const char* text :
       {"", " ", "abc", "1.5", "1e-3", "12XB", "12 GB", "GB", "--1", "1,2", "0.3KB1",
        "9223372036854775808", "1e19", "1e400", "nan", "inf", "9000PiBB", "9000000PiB", "0x10"}) {
    const auto parsed = ParseInteger(text);
    ASSERT_FALSE(parsed.ok()) << text << " gave " << parsed.value();
    EXPECT_THAT(parsed.error().message, HasSubstr("'" + std::string(text) + "'"));
  }
}

TEST(ParseIntegerTest, NamesAnUnknownSuffix) {
  for (const auto& [text, suffix] :
       {std::pair("4EiB", "'EiB'"), std::pair("12XB", "'XB'"), std::pair("1.5e3kilo", "'kilo'")}) {
    EXPECT_THAT(ParseInteger(text).error().message, HasSubstr(suffix));
    EXPECT_THAT(ParseReal(text).error().message, HasSubstr(suffix));
  }
}

TEST(ParseRealTest, AcceptsNumbersAndSuffixes) {
  EXPECT_EQ(ParseReal("0.5").value(), 0.5);
  EXPECT_EQ(ParseReal("128e9").value(), 128e9);
  EXPECT_EQ(ParseReal("128GB").value(), 128e9);
  EXPECT_EQ(ParseReal("-3").value(), -3);
}

TEST(ParseRealTest, RefusesTheRest) {
  for (const char* text : {"", "x", "nan", "inf", "-inf", "1e400", "1e300PB", "1..2"}) {
    EXPECT_FALSE(ParseReal(text).ok()) << text;
  }
}

TEST(ParseRealTest, PercentagesAreToldAsFractions) {
  EXPECT_EQ(ParseReal("10%").error().message, "'10%' is a percentage: write 0.1");
  EXPECT_EQ(ParseInteger("250%").error().message, "'250%' is a percentage: write 2.5");
  EXPECT_THAT(ParseReal("10%%").error().message, HasSubstr("is not a number"));
}

}  // namespace
}  // namespace twinstep
