#include "traces/trace_io.h"

#include <google/protobuf/io/gzip_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/traces/tiny_graph.h"
#include "traces/trace_builder.h"

namespace twinstep {
namespace {

Trace TinyTrace() {
  const testing::TinyRun run = testing::TwoRankRun();
  const TraceMemoryCurve curve{1, Pool::kPinnedHost, {0, 45'000}, {0, 2048}};
  return BuildTrace(run.graph, run.replay, "two ranks", {&curve, 1});
}

std::string TemporaryFile(const std::string& name) { return ::testing::TempDir() + "/" + name; }

TEST(TraceIoTest, EventsAreSortedByRankStartAndTask) {
  const Trace trace = TinyTrace();
  ASSERT_EQ(trace.task_size(), 10);
  for (int i = 1; i < trace.task_size(); ++i) {
    const auto key = [&trace](int k) {
      return std::tuple(trace.rank(k), trace.start_ps(k), trace.task(k));
    };
    EXPECT_LT(key(i - 1), key(i));
  }
}

TEST(TraceIoTest, ReadsBackWhatItWrote) {
  const Trace trace = TinyTrace();
  const std::string path = TemporaryFile("trace.pb");
  const Status written = WriteTrace(trace, {}, path);
  ASSERT_TRUE(written.ok()) << written.error().message;
  const Result<Trace> read = ReadTrace(path);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read.value().SerializeAsString(), trace.SerializeAsString());
}

TEST(TraceIoTest, ReadsWhatGzipCompressed) {
  const Trace trace = TinyTrace();
  const std::string path = TemporaryFile("trace.pb.gz");
  {
    std::ofstream file(path, std::ios::binary);
    google::protobuf::io::OstreamOutputStream bytes(&file);
    google::protobuf::io::GzipOutputStream compressed(&bytes);
    ASSERT_TRUE(trace.SerializeToZeroCopyStream(&compressed));
  }
  const Result<Trace> read = ReadTrace(path);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read.value().SerializeAsString(), trace.SerializeAsString());
  // Also without a part of its checksum.
  for (const std::uintmax_t size :
       {std::filesystem::file_size(path) - 1, std::filesystem::file_size(path) / 2}) {
    std::filesystem::resize_file(path, size);
    EXPECT_EQ(ReadTrace(path).error().message, path + ": the gzip stream is cut short or broken");
  }
}

TEST(TraceIoTest, WritesChromeJsonBySuffix) {
  const std::string path = TemporaryFile("trace.json");
  ASSERT_TRUE(WriteTrace(TinyTrace(), {}, path).ok());
  std::ifstream in(path);
  const nlohmann::json parsed = nlohmann::json::parse(in);
  EXPECT_EQ(parsed.at("otherData").at("name"), "two ranks");
}

TEST(TraceIoTest, ErrorsNameTheFile) {
  EXPECT_EQ(
      WriteTrace(TinyTrace(), {}, "trace.txt").error().message,
      "trace.txt: a trace file ends in .json (Chrome), .pftrace (Perfetto) or .pb (Twinstep)");
  EXPECT_EQ(CheckTraceName("trace.txt", /*or_chakra=*/true).error().message,
            "trace.txt: a trace file ends in .json (Chrome), .pftrace (Perfetto), .et (Chakra) or "
            ".pb (Twinstep)");
  EXPECT_TRUE(CheckTraceName("trace.et", /*or_chakra=*/true).ok());
  EXPECT_EQ(WriteTrace(TinyTrace(), {}, "/nowhere/trace.pb").error().message,
            "/nowhere/trace.pb: cannot write: No such file or directory");
  EXPECT_EQ(ReadTrace("/nowhere/trace.pb").error().message,
            "/nowhere/trace.pb: cannot read: No such file or directory");

  const std::string path = TemporaryFile("broken.pb");
  std::ofstream(path) << "this is no protobuf";
  EXPECT_EQ(ReadTrace(path).error().message, path + ": is not a Twinstep trace");
}

TEST(TraceIoTest, RefusesColumnsThatDoNotFit) {
  const std::string path = TemporaryFile("columns.pb");
  Trace trace = TinyTrace();
  trace.mutable_bytes()->RemoveLast();
  ASSERT_TRUE(WriteTrace(trace, {}, path).ok());
  EXPECT_EQ(ReadTrace(path).error().message, path + ": column bytes has 9 entries, task has 10");

  trace = TinyTrace();
  trace.set_lane(3, 99);
  ASSERT_TRUE(WriteTrace(trace, {}, path).ok());
  EXPECT_EQ(ReadTrace(path).error().message, path + ": column lane holds 99, there are 11");

  trace = TinyTrace();
  trace.mutable_memory(0)->set_pool(7);
  ASSERT_TRUE(WriteTrace(trace, {}, path).ok());
  EXPECT_EQ(ReadTrace(path).error().message, path + ": a memory curve is of pool 7");
}

}  // namespace
}  // namespace twinstep
