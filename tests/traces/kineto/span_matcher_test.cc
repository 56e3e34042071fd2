#include "traces/kineto/span_matcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace twinstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SpanMatcherTest, SpansNestAndNamesTellWhichOneEnds) {
  SpanMatcher matcher;
  matcher.Begin(0, 10, /*name=*/1, /*span=*/100);
  matcher.Begin(0, 20, 2, 101);
  matcher.End(0, 30, kNoIndex);  // The innermost.
  matcher.Begin(0, 35, 3, 102);
  matcher.End(0, 40, 1);  // Not the innermost.
  matcher.End(0, 50, 3);
  matcher.End(0, 60, 9);
  matcher.Begin(1, 5, 1, 103);
  matcher.End(2, 6, kNoIndex);
  const MatchedSpans spans = matcher.Run();
  ASSERT_EQ(spans.matched.size(), 3u);
  EXPECT_EQ(spans.matched[0].span, 101u);
  EXPECT_EQ(spans.matched[0].start_ns, 20);
  EXPECT_EQ(spans.matched[0].end_ns, 30);
  EXPECT_EQ(spans.matched[1].span, 100u);
  EXPECT_EQ(spans.matched[1].end_ns, 40);
  EXPECT_EQ(spans.matched[2].span, 102u);
  EXPECT_THAT(spans.unended, ElementsAre(103));
  EXPECT_THAT(spans.unbegun, ElementsAre(9, kNoIndex));
}

TEST(SpanMatcherTest, TheOrderInTheFileDoesNotMatter) {
  EXPECT_TRUE(rc::check([] {
    // Nested spans on some tracks at times of their own, their marks shuffled.
    struct Mark {
      bool begins;
      std::uint32_t track, span;
      std::int64_t time_ns;
    };
    std::vector<Mark> marks;
    std::vector<std::int64_t> end_of;
    const int tracks = *rc::gen::inRange(1, 4);
    std::int64_t now = 0;
    for (std::uint32_t track = 0; track < static_cast<std::uint32_t>(tracks); ++track) {
      std::vector<std::uint32_t> open;
      const int steps = *rc::gen::inRange(0, 20);
      for (int i = 0; i < steps || !open.empty(); ++i) {
        ++now;
        if (i < steps && (open.empty() || *rc::gen::arbitrary<bool>())) {
          open.push_back(static_cast<std::uint32_t>(end_of.size()));
          end_of.push_back(0);
          marks.push_back({true, track, open.back(), now});
        } else {
          end_of[open.back()] = now;
          marks.push_back({false, track, 0, now});
          open.pop_back();
        }
      }
    }
    const auto keys =
        *rc::gen::container<std::vector<int>>(marks.size(), rc::gen::arbitrary<int>());
    std::vector<std::size_t> order(marks.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&keys](std::size_t a, std::size_t b) {
      return std::pair(keys[a], a) < std::pair(keys[b], b);
    });
    SpanMatcher matcher;
    for (const std::size_t i : order) {
      const Mark& mark = marks[i];
      if (mark.begins) {
        matcher.Begin(mark.track, mark.time_ns, 0, mark.span);
      } else {
        matcher.End(mark.track, mark.time_ns, kNoIndex);
      }
    }
    const MatchedSpans spans = matcher.Run();
    RC_ASSERT(spans.unended.empty() && spans.unbegun.empty());
    RC_ASSERT(spans.matched.size() == end_of.size());
    for (const MatchedSpan& span : spans.matched) RC_ASSERT(span.end_ns == end_of[span.span]);
  }));
}

TEST(SpanMatcherTest, NamedAndNamelessEndsCloseTheInnermostTheyMay) {
  EXPECT_TRUE(rc::check([] {
    const auto codes = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 7));
    SpanMatcher matcher;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> open;  // Span and name.
    std::vector<std::uint32_t> closed, unended, unbegun;
    std::uint32_t spans = 0;
    std::int64_t now = 0;
    for (const int code : codes) {
      // Begins and ends of three names, and ends without one.
      const std::uint32_t name = code == 6 ? kNoIndex : static_cast<std::uint32_t>(code % 3);
      if (code < 3) {
        open.emplace_back(spans, name);
        matcher.Begin(0, ++now, name, spans++);
        continue;
      }
      matcher.End(0, ++now, name);
      const auto at = std::find_if(open.rbegin(), open.rend(), [name](const auto& span) {
        return name == kNoIndex || span.second == name;
      });
      if (at == open.rend()) {
        unbegun.push_back(name);
      } else {
        closed.push_back(at->first);
        open.erase(std::prev(at.base()));
      }
    }
    for (const auto& [span, name] : open) unended.push_back(span);
    const MatchedSpans result = matcher.Run();
    std::vector<std::uint32_t> matched;
    for (const MatchedSpan& span : result.matched) matched.push_back(span.span);
    RC_ASSERT(matched == closed);
    RC_ASSERT(result.unended == unended);
    RC_ASSERT(result.unbegun == unbegun);
  }));
}

TEST(SpreadOverLanesTest, OverlapsGetLanesOfTheirOwn) {
  EXPECT_THAT(SpreadOverLanes({{0, 0, 10}, {1, 5, 8}, {2, 6, 20}, {3, 8, 9}, {4, 10, 11}}),
              ElementsAre(0, 1, 2, 1, 0));
  EXPECT_THAT(SpreadOverLanes({}), IsEmpty());
}

}  // namespace
}  // namespace twinstep
