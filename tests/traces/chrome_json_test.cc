#include "traces/chrome_json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/traces/tiny_graph.h"
#include "traces/chrome_reader.h"
#include "traces/kineto/byte_source.h"
#include "traces/trace_builder.h"

namespace twinstep {
namespace {

using nlohmann::json;

std::string ToJson(const Trace& trace, const ChromeJsonOptions& options = {}) {
  std::ostringstream out;
  WriteChromeJson(trace, options, out);
  return out.str();
}

// Lines of the format are longer than ours may be: they are put together.
const char kGolden[] =
    R"json("name":"a \"name\"","iteration_s":0.002000000999},)json"
    R"json("traceEvents":[
{"ph":"M","name":"process_name","pid":1,"tid":0,)json"
    R"json("args":{"name":"rank 0 (pp 0, dp 0, cp 0, tp 0)"}},
{"ph":"M","name":"process_sort_index","pid":1,"tid":0,"args":{"sort_index":1}},
{"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":"compute"}},
{"ph":"M","name":"thread_sort_index","pid":1,"tid":1,"args":{"sort_index":1}},
{"ph":"M","name":"thread_name","pid":1,"tid":3,"args":{"name":"d2h"}},
{"ph":"M","name":"thread_sort_index","pid":1,"tid":3,"args":{"sort_index":3}},
{"ph":"X","name":"gemm_forward","cat":"forward","pid":1,"tid":1,"ts":0.000,"dur":1.234,)json"
    R"json("ps":[0,0,1234567],"args":{"task":0,"kind":"compute","micro_batch":3,"stage":1,"shape":"n 0 x out 0 x in 0, bf16"}},
{"ph":"X","name":"copy_d2h","cat":"forward","pid":1,"tid":3,"ts":1.234,"dur":1998.766,)json"
    R"json("ps":[1000000,1234567,2000000999],"args":{"task":1,"kind":"d2h","bytes":4096,"exposed_us":1998.766,"waited_us":0.234}},
{"ph":"C","name":"gpu memory","pid":1,"ts":0.000,"ps":[0],"args":{"bytes":512}},
{"ph":"C","name":"gpu memory","pid":1,"ts":1.234,"ps":[1234567],"args":{"bytes":256}}
]}
)json";

TEST(ChromeJsonTest, GoldenOfOneRank) {
  const testing::TinyRun run = testing::MakeTinyRun(
      {{{.op = OpCode::kGemmForward, .micro_batch = 3, .stage = 1, .end_ps = 1'234'567},
        {.op = OpCode::kCopyD2H,
         .kind = TaskKind::kD2H,
         .lane = Lane::kD2H,
         .dim0 = 4096,
         .ready_ps = 1'000'000,
         .start_ps = 1'234'567,
         .end_ps = 2'000'000'999}}});
  const TraceMemoryCurve curve{0, Pool::kGpu, {0, 1'234'567}, {512, 256}};
  const std::string name = R"(a "name")";
  const std::string text = ToJson(BuildTrace(run.graph, run.replay, name, {&curve, 1}));
  ASSERT_NE(text.find("\"name\":"), std::string::npos);
  EXPECT_EQ(text.substr(text.find("\"name\":")), kGolden);
  EXPECT_TRUE(
      text.starts_with(R"json({"displayTimeUnit":"ms","otherData":{"twinstep":{"version":1,)json"
                       R"json("origin":"simulated","iteration_ps":2000000999,)json"
                       R"json("lanes":["compute","h2d","d2h","tp",)json"));
}

TEST(ChromeJsonTest, ReadsBackToTheBit) {
  const testing::TinyRun run = testing::TwoRankRun();
  const TraceMemoryCurve curves[] = {{0, Pool::kGpu, {0, 7, 45'001}, {1, 2, 3}},
                                     {1, Pool::kGpu, {0}, {0}},
                                     {1, Pool::kPinnedHost, {0, 45'000}, {0, 2048}}};
  for (const Trace::Origin origin :
       {Trace::SIMULATED, Trace::EXECUTED, Trace::IMPORTED, Trace::ORIGIN_UNSPECIFIED}) {
    Trace trace = BuildTrace(run.graph, run.replay, "a \"name\"", curves);
    trace.set_origin(origin);
    trace.mutable_ranks(1)->set_global_rank(41);
    trace.mutable_ranks(1)->set_class_size(7);
    trace.add_operators("a kernel<of, \\ \"another\" origin>");
    trace.set_op(3, static_cast<std::uint32_t>(trace.operators_size() - 1));
    const std::string text = ToJson(trace, {.flows = &run.graph});
    ByteSource source{std::string_view(text)};
    const Result<Trace> read = ReadChromeTrace(source, "f");
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read.value().SerializeAsString(), trace.SerializeAsString());
  }
}

TEST(ChromeJsonTest, WhatWasChangedIsNamed) {
  const testing::TinyRun run = testing::TwoRankRun();
  const std::string good = ToJson(BuildTrace(run.graph, run.replay, ""));
  const auto error = [&good](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    ByteSource source{std::string_view(text)};
    const Result<Trace> read = ReadChromeTrace(source, "f");
    return read.ok() ? "" : read.error().message;
  };
  EXPECT_EQ(error("\"version\":1", "\"version\":9"), "f: is of version 9, this program reads 1");
  EXPECT_EQ(error("\"kind\":\"compute\"", "\"kind\":\"sleep\""),
            "f: event 18 (add) has no or an unknown kind");
  EXPECT_EQ(error("\"ps\":[0,0,10000]", "\"ps\":[0,0]"),
            "f: event 18 (add) has no or an unknown time in ps");
  EXPECT_EQ(error("\"tid\":1,\"ts\"", "\"tid\":99,\"ts\""),
            "f: column lane holds 98, there are 11");
}

// Other tools break lines and sort keys (nlohmann's do both).
TEST(ChromeJsonTest, IsOursAlsoWhereAToolHasWrittenItAnew) {
  const testing::TinyRun run = testing::TwoRankRun();
  const Trace trace = BuildTrace(run.graph, run.replay, "name");
  const nlohmann::json whole = nlohmann::json::parse(ToJson(trace, {.flows = &run.graph}));
  const std::string path = ::testing::TempDir() + "/anew.json";
  const auto is_own = [&path](const std::string& text) {
    std::ofstream(path) << text;
    const Result<bool> own = IsOwnChromeJson(path);
    EXPECT_TRUE(own.ok());
    return own.ok() && own.value();
  };
  for (const int indent : {-1, 0, 4}) {
    EXPECT_TRUE(is_own(whole.dump(indent)));
    const Result<Trace> read = ReadChromeTrace(path);
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read.value().SerializeAsString(), trace.SerializeAsString());
  }
  EXPECT_TRUE(is_own("{\"traceEvents\":" + whole.at("traceEvents").dump() +
                     ",\"otherData\":" + whole.at("otherData").dump() + "}"));
  EXPECT_EQ(ReadChromeTrace(path).error().message,
            path +
                ": otherData.twinstep, which says what the events mean, does not stand in front "
                "of them: the file's keys were put into another order");
  EXPECT_FALSE(is_own(R"({"otherData":{"name":"twinstep"},"traceEvents":[]})"));
  EXPECT_FALSE(is_own(R"({"traceEvents":[{"ph":"X","name":"otherData.twinstep.version",)"
                      R"("ts":1,"dur":1,"pid":1,"tid":1}]})"));
  EXPECT_FALSE(is_own("no JSON"));
}

TEST(ChromeJsonTest, SlicesOfATrackNeverOverlapOnceRounded) {
  // Tasks that touch at odd picoseconds.
  std::vector<testing::TinyTask> tasks;
  Picoseconds now = 0;
  for (int i = 0; i < 2000; ++i) {
    const Picoseconds end = now + 1 + (i * 7919) % 2503;
    tasks.push_back({.ready_ps = now, .start_ps = now, .end_ps = end});
    now = end;
  }
  const testing::TinyRun run = testing::MakeTinyRun({tasks});
  const json parsed = json::parse(ToJson(BuildTrace(run.graph, run.replay, "")));
  long long previous_end_ns = 0;
  int slices = 0;
  for (const json& event : parsed.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    // As Perfetto reads them.
    const long long ts = std::llround(event.at("ts").get<double>() * 1000.0);
    const long long duration = std::llround(event.at("dur").get<double>() * 1000.0);
    EXPECT_GE(duration, 0);
    EXPECT_EQ(ts, previous_end_ns);
    previous_end_ns = ts + duration;
    ++slices;
  }
  EXPECT_EQ(slices, 2000);
}

TEST(ChromeJsonTest, CopiesSayHowMuchOfThemIsExposed) {
  const testing::TinyRun run = testing::TwoRankRun();
  const json parsed = json::parse(ToJson(BuildTrace(run.graph, run.replay, "")));
  int copies = 0;
  for (const json& event : parsed.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    EXPECT_EQ(event.at("args").contains("exposed_us"), event.at("name") != "add");
    if (event.at("name") != "copy_d2h") continue;
    ++copies;
    EXPECT_EQ(event.at("args").at("exposed_us"), 0.010);  // Of 30 ns 20 are beside computation.
  }
  EXPECT_EQ(copies, 1);
}

TEST(ChromeJsonTest, ArrowsJoinSlicesOfDifferentTracks) {
  const testing::TinyRun run = testing::TwoRankRun();
  const Trace trace = BuildTrace(run.graph, run.replay, "");
  EXPECT_EQ(ToJson(trace).find("\"cat\":\"dependency\""), std::string::npos);

  const json parsed = json::parse(ToJson(trace, {.flows = &run.graph}));
  std::map<int, json> starts;
  int arrows = 0;
  bool message_found = false;
  for (const json& event : parsed.at("traceEvents")) {
    if (event.at("ph") == "s") starts[event.at("id")] = event;
    if (event.at("ph") != "f") continue;
    ++arrows;
    const json& start = starts.at(event.at("id"));
    EXPECT_TRUE(start.at("pid") != event.at("pid") || start.at("tid") != event.at("tid"));
    message_found |= start.at("pid") != event.at("pid");
  }
  // Of the nine edges (5, 7) stays on the compute lane; the message adds one.
  EXPECT_EQ(arrows, 9);
  EXPECT_TRUE(message_found);
}

}  // namespace
}  // namespace twinstep
