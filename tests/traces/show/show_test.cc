// The page and the text, without a browser.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/traces/kineto/tiny_profile.h"
#include "tests/traces/tiny_graph.h"
#include "traces/show/columns.h"
#include "traces/show/html_page.h"
#include "traces/show/rank_list.h"
#include "traces/show/show_command.h"
#include "traces/show/text_timeline.h"
#include "traces/trace_builder.h"
#include "traces/trace_io.h"

namespace twinstep {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Trace TinyTrace(const std::string& name = "two ranks") {
  const testing::TinyRun run = testing::TwoRankRun();
  const TraceMemoryCurve curve{1, Pool::kGpu, {0, 30'000}, {1024, 4096}};
  return BuildTrace(run.graph, run.replay, name, {&curve, 1});
}

std::string WriteTiny(const std::string& file) {
  const std::string path = ::testing::TempDir() + "/" + file;
  EXPECT_TRUE(WriteTrace(TinyTrace(), {}, path).ok());
  return path;
}

TEST(ColumnsTest, EmptyColumnsAreADeflatedNothing) {
  EXPECT_EQ(ColumnWriter().ToBase64(), "eJwDAAAAAAE=");
}

TEST(HtmlPageTest, NamesCannotLeaveTheirPlace) {
  const Trace trace = TinyTrace("</script><img src=x onerror=alert(1)>");
  const Result<std::string> page = HtmlPage({&trace}, {});
  ASSERT_TRUE(page.ok()) << page.error().message;
  EXPECT_THAT(page.value(), Not(HasSubstr("<img")));
  EXPECT_THAT(page.value(), HasSubstr("\\u003cimg"));
}

TEST(HtmlPageTest, CarriesItsLibraryWithItsLicence) {
  const Trace trace = TinyTrace();
  const Result<std::string> page = HtmlPage({&trace}, {});
  ASSERT_TRUE(page.ok());
  EXPECT_THAT(page.value(), HasSubstr("https://d3js.org v5"));
  EXPECT_THAT(page.value(), HasSubstr("Redistributions in binary form"));
  EXPECT_THAT(page.value(), Not(HasSubstr("<script src")));
}

TEST(HtmlPageTest, TracesOfDifferentGraphsAreNotPaired) {
  const Trace a = TinyTrace();
  Trace b = TinyTrace();
  b.set_op(0, b.op(0) + 1);
  const Result<std::string> same = HtmlPage({&a, &a}, {});
  const Result<std::string> different = HtmlPage({&a, &b}, {});
  ASSERT_TRUE(same.ok() && different.ok());
  EXPECT_THAT(same.value(), HasSubstr("\"sameGraph\":true"));
  EXPECT_THAT(different.value(), HasSubstr("\"sameGraph\":false"));
  EXPECT_THAT(different.value(), HasSubstr("not of the same graph"));
}

TEST(HtmlPageTest, NamesTheFilesOfTwoTraces) {
  const Trace trace = TinyTrace();
  const auto page_of = [&](const std::vector<std::string>& files) {
    return HtmlPage({&trace, &trace}, {.files = files}).value();
  };
  EXPECT_THAT(page_of({"runs/a.pb", "b.pb"}), HasSubstr("\"file\":\"a.pb\""));
  // Equal names need their folders, and a list of files is one name.
  EXPECT_THAT(page_of({"x/a.pb", "y/a.pb"}), HasSubstr("\"file\":\"y/a.pb\""));
  EXPECT_THAT(page_of({"x/0.json,x/1.json", "a.pb"}), HasSubstr("\"file\":\"x/0.json,x/1.json\""));
  EXPECT_THAT(page_of({}), Not(HasSubstr("\"file\"")));
}

TEST(HtmlPageTest, SaysWhichTraceCannotBeDrawnAndWhy) {
  const Trace a = TinyTrace();
  Trace b = TinyTrace();
  b.set_end_ps(0, -5);
  const Result<std::string> page = HtmlPage({&a, &b}, {});
  ASSERT_FALSE(page.ok());
  EXPECT_EQ(page.error().message,
            "the second trace: task 0 runs from 0 to -5 ps, outside of the iteration's 60000 ps");
}

TEST(TextTimelineTest, LanesMemoryAndTime) {
  // 60 columns less the labels: 35, of 1.714 ns each.
  const std::string text = TextTimeline(TinyTrace(), {.width = 60});
  EXPECT_EQ(text,
            "two ranks: 60.00 ns, 10 tasks of 2 ranks\n"
            "F forward, R recompute, O optimizer, P PP, D DP, M copies,\n"
            "small: less than half busy, . idle; live memory in tenths of\n"
            "its peak #\n"
            "rank 0   compute  FFFFFF..........................OOO  24 %\n"
            "         dp       ..........................DDDDDDd..  18 %\n"
            "         send_fwd .....pPPP..........................   8 %\n"
            "rank 1   compute  ........fFFFFFFFFFRRr...........OOO  41 %\n"
            "         d2h      ........mMMMMMMMMMMMMMMMMMm........  50 %\n"
            "         dp       ..........................DDDDDDd..  18 %\n"
            "         recv_fwd .....pPPP..........................   8 %\n"
            "    gpu 4.000 KiB 22222222222222222##################\n"
            "                  0 s                        60.00 ns\n"
            "\nSchedule: F3 forward, B3 backward of micro-batch 3, . neither\n"
            "rank 0   F0-------..........................................\n"
            "rank 1   .............F0-----------B0==.....................\n"
            "         0 s                                        60.00 ns\n");
}

TEST(TextTimelineTest, RanksAndTimesAreChosen) {
  const std::string text = TextTimeline(
      TinyTrace(),
      {.width = 60, .from_ps = 15'000, .to_ps = 35'000, .shows_rank = [](std::uint32_t rank) {
         return rank == 1;
       }});
  EXPECT_THAT(text, Not(HasSubstr("rank 0")));
  EXPECT_THAT(text, HasSubstr("rank 1   compute  FFFFFFFFFFFFFFFFFFFFFFFFFFFFRRRRRRR 100 %"));
}

TEST(TextTimelineTest, NumbersOfRanksAreWhole) {
  Trace trace = TinyTrace();
  trace.mutable_ranks(1)->set_global_rank(4'294'967'295);
  const std::string text = TextTimeline(trace, {.width = 60});
  EXPECT_THAT(text, HasSubstr("rank 0          compute  FF"));
  EXPECT_THAT(text, HasSubstr("rank 4294967295 compute  .."));
}

TEST(TextTimelineTest, AfterItsEndATraceHasNothingToShow) {
  EXPECT_EQ(TextTimeline(TinyTrace(), {.from_ps = 60'000}),
            "two ranks: 60.00 ns, 10 tasks of 2 ranks\n");
}

TEST(RankListTest, NumbersAndRanges) {
  const auto list = ParseRankList("0,4..7");
  ASSERT_TRUE(list.ok());
  EXPECT_EQ(list.value(), (std::vector<RankRange>{{0, 0}, {4, 7}}));
  EXPECT_TRUE(Contains(list.value(), 5));
  EXPECT_FALSE(Contains(list.value(), 1));
  for (const char* bad : {"", "x", "7..4", "1,,2", "-1", "1..", "99999999999"}) {
    EXPECT_FALSE(ParseRankList(bad).ok()) << bad;
  }
}

TEST(ShowCommandTest, WritesAPageAndSaysWhatIsWrong) {
  const std::string trace = WriteTiny("tiny.pb");
  const std::string page = ::testing::TempDir() + "/tiny.html";
  std::ostringstream out, err;
  EXPECT_EQ(RunShowCommand({trace, "--html", page}, out, err), ExitCode::kDone) << err.str();
  EXPECT_TRUE(out.str().empty());
  std::stringstream written;
  written << std::ifstream(page).rdbuf();
  EXPECT_THAT(written.str(), HasSubstr("<!DOCTYPE html>"));

  const auto error_of = [&](std::vector<std::string> arguments) {
    std::ostringstream message;
    EXPECT_EQ(RunShowCommand(arguments, out, message), ExitCode::kBadInput);
    return message.str();
  };
  EXPECT_THAT(error_of({}), HasSubstr("one trace or two, not 0"));
  EXPECT_THAT(error_of({"/nowhere.pb"}), HasSubstr("/nowhere.pb"));
  EXPECT_THAT(error_of({WriteTiny("tiny.pftrace")}), HasSubstr("format is only written"));
  const std::string text = ::testing::TempDir() + "/model.textproto";
  std::ofstream(text) << "name: \"m\"";
  EXPECT_THAT(error_of({text}), HasSubstr("traces are read from .pb, .pb.gz and .json of ours"));
  EXPECT_THAT(error_of({trace, "--ranks", "2..9"}), HasSubstr("names no rank of"));
  EXPECT_THAT(error_of({trace, "--ranks", "two"}),
              HasSubstr("'two' is neither a rank nor a range"));
  EXPECT_THAT(error_of({trace, "--from", "2"}), HasSubstr("after the end of the iteration"));
  EXPECT_THAT(error_of({trace, "--from", "2", "--to", "1"}), HasSubstr("is not after --from 2"));
  EXPECT_THAT(error_of({trace, "--html", page, "--width", "80"}), HasSubstr("is for --text"));
  EXPECT_THAT(error_of({trace, "--step", "1"}), HasSubstr("it has no step 1"));
}

TEST(ShowCommandTest, AStepOfAProfileIsChosen) {
  const std::string profile = ::testing::TempDir() + "/rank3.json";
  std::ofstream(profile) << testing::TinyProfile();
  std::ostringstream out, err;
  EXPECT_EQ(RunShowCommand({profile, "--step", "1"}, out, err), ExitCode::kDone) << err.str();
  EXPECT_THAT(out.str(), HasSubstr("rank3.json, step 1: 400.5 us, 2 tasks"));
  // Streams are told apart.
  std::ostringstream all;
  EXPECT_EQ(RunShowCommand({profile, "--step", "all"}, all, err), ExitCode::kDone) << err.str();
  EXPECT_THAT(all.str(), HasSubstr("stream 7 "));
  EXPECT_THAT(all.str(), HasSubstr("stream 20 "));
}

TEST(TextTimelineTest, LongNamesOfLanesLoseTheirMiddleAndNoCharacterItsHalf) {
  Trace trace = TinyTrace("t\x1b[31m");
  std::string name = "stream ";
  for (int i = 0; i < 20; ++i) name += "\xd1\x8f";
  for (const std::string end : {"1", "21"}) {
    *trace.mutable_lanes(0) = name + end;
    const std::string text = TextTimeline(trace, {.width = 80});
    EXPECT_THAT(text, HasSubstr("t?[31m: "));
    EXPECT_THAT(text, HasSubstr("stream "));
    EXPECT_THAT(text, HasSubstr("\xd1\x8f" + end + " "));
    // Names of any bytes are as wide as others: all rows end alike.
    EXPECT_THAT(text, HasSubstr("rank 0   stream ..\xd1\x8f"));
    // Both halves of a two-byte character, always.
    for (std::size_t i = 0; i < text.size(); ++i) {
      EXPECT_EQ(text[i] == '\xd1', i + 1 < text.size() && text[i + 1] == '\x8f') << i;
    }
  }
}

}  // namespace
}  // namespace twinstep
