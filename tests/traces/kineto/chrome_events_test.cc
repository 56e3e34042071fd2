#include "traces/kineto/chrome_events.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/traces/kineto/tiny_profile.h"
#include "traces/kineto/byte_source.h"

namespace twinstep {
namespace {

class Recorder : public ChromeEventSink {
 public:
  Status OnHeader(std::string_view path, std::string_view value) override {
    headers.push_back(std::string(path) + "=" + std::string(value));
    return Unit{};
  }
  Status OnEvent(const ChromeEvent& event) override {
    names.push_back(event.name);
    return Unit{};
  }
  void OnUnclosedList() override { is_unclosed = true; }
  std::vector<std::string> headers, names;
  bool is_unclosed = false;
};

Status Read(const std::string& text, ChromeEventSink* sink) {
  ByteSource source{std::string_view(text)};
  return ReadChromeEvents(source, "f", sink);
}

std::string ErrorOf(const std::string& text) {
  Recorder sink;
  const Status read = Read(text, &sink);
  return read.ok() ? "" : read.error().message;
}

std::string WriteFile(const std::string& name, const std::string& bytes) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

TEST(MicrosecondsTest, AreExactNanoseconds) {
  EXPECT_EQ(ParseMicroseconds("5134893820369.248"), 5134893820369248);
  EXPECT_EQ(ParseMicroseconds("1695835542514261"), 1695835542514261000);
  EXPECT_EQ(ParseMicroseconds("0.5"), 500);
  EXPECT_EQ(ParseMicroseconds("0.0005"), 1);
  EXPECT_EQ(ParseMicroseconds("0.00049"), 0);
  EXPECT_EQ(ParseMicroseconds("-2.25"), -2250);
  EXPECT_EQ(ParseMicroseconds("1e3"), 1'000'000);
  for (const char* bad : {"", "-", "x", "1e30", "9223372036854775807", "nan", "1.2.3"}) {
    EXPECT_EQ(ParseMicroseconds(bad), std::nullopt) << bad;
  }
}

TEST(MicrosecondsTest, GoThereAndBack) {
  EXPECT_TRUE(rc::check([] {
    const auto ns = *rc::gen::inRange<std::int64_t>(0, INT64_MAX / 2);
    char text[40];
    std::snprintf(text, sizeof text, "%lld.%03lld", static_cast<long long>(ns / 1000),
                  static_cast<long long>(ns % 1000));
    RC_ASSERT(ParseMicroseconds(text) == ns);
  }));
}

TEST(ChromeEventsTest, EventsAndHeaderCome) {
  Recorder sink;
  ASSERT_TRUE(Read(testing::TinyProfile(), &sink).ok());
  EXPECT_EQ(sink.names.size(), 26u);
  EXPECT_EQ(sink.headers[2], "deviceProperties.0.name=NVIDIA Test");
  EXPECT_EQ(sink.headers.back(), "traceName=tiny.json");
}

TEST(ChromeEventsTest, AListOfEventsIsATraceToo) {
  Recorder sink;
  ASSERT_TRUE(
      Read("\xEF\xBB\xBF [{\"ph\":\"X\",\"name\":\"a\",\"args\":{\"x\":[{}]}}]", &sink).ok());
  EXPECT_EQ(sink.names, std::vector<std::string>{"a"});
}

TEST(ChromeEventsTest, NumbersThatAreNoneInTheWordsOfAnyWriter) {
  for (const char* word :
       {"NaN", "nan", "-nan", "Infinity", "-Infinity", "Inf", "inf", "-inf", "infinity", "null"}) {
    Recorder sink;
    const std::string event = std::string("[{\"name\":\"nan inf\",\"dur\":") + word +
                              ",\"args\":{\"a\":" + word + "}}, {\"name\": \"b\", }, ]";
    EXPECT_TRUE(Read(event, &sink).ok()) << word;
    EXPECT_EQ(sink.names, (std::vector<std::string>{"nan inf", "b"})) << word;
  }
  EXPECT_NE(ErrorOf("[{\"ts\": naan}]"), "");
  EXPECT_NE(ErrorOf("[{\"ts\": nul}]"), "");
}

TEST(ChromeEventsTest, ABareListMayEndWithTheFile) {
  for (const char* text : {"[{\"name\":\"a\"}", "[{\"name\":\"a\"},", "[{\"name\":\"a\"},\n"}) {
    Recorder sink;
    EXPECT_TRUE(Read(text, &sink).ok()) << text;
    EXPECT_TRUE(sink.is_unclosed);
    EXPECT_EQ(sink.names, std::vector<std::string>{"a"});
  }
}

TEST(ChromeEventsTest, DeepHeadersAreReadInTimeOfTheirLength) {
  const int depth = 100'000;
  std::string text = "{\"a\":" + std::string(depth, '[');
  for (int i = 0; i < depth; ++i) text += "0,";
  text += "0" + std::string(depth, ']') + ",\"traceEvents\":[{\"name\":\"a\"}]}";
  Recorder sink;
  EXPECT_TRUE(Read(text, &sink).ok());
  EXPECT_EQ(sink.names, std::vector<std::string>{"a"});
  EXPECT_TRUE(sink.headers.empty());
}

TEST(ChromeEventsTest, CompressedFilesOfManyPieces) {
  std::string text = "{\"traceEvents\":[";
  for (int i = 0; i < 30'000; ++i) {
    text +=
        (i == 0 ? "" : ",") + std::string("{\"ph\":\"X\",\"name\":\"n") + std::to_string(i) + "\"}";
  }
  text += "]}";
  const std::string path = ::testing::TempDir() + "/many.json.gz";
  gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())),
            static_cast<int>(text.size()));
  gzclose(file);
  Recorder sink;
  const Status read = ReadChromeEvents(path, &sink);
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_EQ(sink.names.size(), 30'000u);
  EXPECT_EQ(sink.names.back(), "n29999");

  // Cut anywhere it is an error, and never a crash.
  std::ifstream in(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  for (const std::size_t size : {bytes.size() / 3, bytes.size() - 1, bytes.size() - 9}) {
    const std::string cut = WriteFile("cut.json.gz", bytes.substr(0, size));
    const Status status = ReadChromeEvents(cut, &sink);
    ASSERT_FALSE(status.ok()) << size;
    EXPECT_EQ(status.error().message, cut + ": the gzip stream is cut short");
  }
  std::string broken = bytes;
  for (std::size_t i = 500; i < 600; ++i) broken[i] = static_cast<char>(~broken[i]);
  const Status status = ReadChromeEvents(WriteFile("broken.json.gz", broken), &sink);
  ASSERT_FALSE(status.ok());
}

TEST(ChromeEventsTest, ErrorsSayWhere) {
  EXPECT_EQ(ErrorOf(""), "f: is empty");
  EXPECT_EQ(ErrorOf("hello"), "f: is not JSON: at byte 0: Invalid value.");
  EXPECT_EQ(ErrorOf("{\"a\": 1}"),
            "f: is no trace: it has neither traceEvents nor a list of events");
  EXPECT_EQ(ErrorOf("{\"traceEvents\": 7}"),
            "f: is no trace: it has neither traceEvents nor a list of events");
  EXPECT_EQ(ErrorOf("{\"traceEvents\": [1]}"), "f: the list of events holds 1");
  EXPECT_EQ(ErrorOf("[[]]"), "f: the list of events holds a list");
  EXPECT_EQ(ErrorOf("[{\"ts\": \"soon\"}]"), "f: event 0 has the time 'soon'");
  EXPECT_EQ(ErrorOf("[{\"ph\": \"X\""),
            "f: is not JSON: at byte 11: Missing a comma or '}' after an object member.");
  EXPECT_EQ(ErrorOf("{\"traceEvents\": [{\"ph\": \"X\"}"),
            "f: is not JSON: at byte 28: Missing a comma or ']' after an array element.");
  Recorder sink;
  EXPECT_EQ(ReadChromeEvents("/nowhere/x.json", &sink).error().message,
            "/nowhere/x.json: cannot read: No such file or directory");
  EXPECT_EQ(ReadChromeEvents("/", &sink).error().message, "/: is a folder");
}

TEST(ChromeEventsTest, DepthDoesNotExhaustTheStack) {
  const std::string deep(2'000'000, '[');
  EXPECT_NE(ErrorOf("[{\"args\":{\"x\":" + deep), "");
}

}  // namespace
}  // namespace twinstep
