// Spans of which a file has begin and end as events of their own ("B" and "E", "b" and "e").
//
//   SpanMatcher matcher;
//   matcher.Begin(track, 1000, name, span);   // `span`: what the caller knows it by.
//   matcher.End(track, 2000, name);
//   for (const MatchedSpan& match : matcher.Run().matched) ...
//
// Marks may come in any order: they are put in that of their times, those of one time stay as they
// came. An end closes the innermost open span of its track that has its name, or without a name the
// innermost one, as the format asks for.
#pragma once

#include <cstdint>
#include <vector>

#include "traces/kineto/kineto_trace.h"

namespace twinstep {

struct MatchedSpan {
  std::uint32_t span = 0;
  std::int64_t start_ns = 0, end_ns = 0;
};

struct MatchedSpans {
  std::vector<MatchedSpan> matched;    // By track, then in the order of their ends.
  std::vector<std::uint32_t> unended;  // Spans without an end.
  std::vector<std::uint32_t> unbegun;  // Names of ends without a begin; kNoIndex: none.
};

class SpanMatcher {
 public:
  void Begin(std::uint32_t track, std::int64_t time_ns, std::uint32_t name, std::uint32_t span) {
    marks_.push_back({time_ns, track, name, span});
  }
  // `name`: kNoIndex where the end has none.
  void End(std::uint32_t track, std::int64_t time_ns, std::uint32_t name) {
    marks_.push_back({time_ns, track, name, kNoIndex});
  }
  bool empty() const { return marks_.empty(); }
  // All marks are there.
  MatchedSpans Run();

 private:
  struct Mark {
    std::int64_t time_ns = 0;
    std::uint32_t track = 0, name = 0;
    std::uint32_t span = kNoIndex;  // kNoIndex: an end.
  };
  std::vector<Mark> marks_;
};

// Lanes for spans that may overlap: of each span the least lane that is free from its start on.
std::vector<std::uint32_t> SpreadOverLanes(const std::vector<MatchedSpan>& by_start);

}  // namespace twinstep
