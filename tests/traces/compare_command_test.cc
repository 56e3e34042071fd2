#include "traces/compare_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/traces/kineto/tiny_profile.h"
#include "tests/traces/tiny_graph.h"
#include "traces/trace_builder.h"
#include "traces/trace_io.h"

namespace twinstep {
namespace {

using ::testing::HasSubstr;

struct Outcome {
  ExitCode code = ExitCode::kInternal;
  std::string out, err;
};

Outcome Compare(const std::vector<std::string>& arguments) {
  std::ostringstream out, err;
  const ExitCode code = RunCompareCommand(arguments, out, err);
  return {code, out.str(), err.str()};
}

std::string Folder() {
  const std::string folder = ::testing::TempDir() + "/compare";
  std::filesystem::create_directories(folder);
  return folder;
}

std::string WriteFile(const std::string& name, const std::string& text) {
  const std::string path = Folder() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

std::string OwnTrace(const std::string& name, std::int64_t slower_ps) {
  testing::TinyRun run = testing::TwoRankRun();
  run.replay.end_ps.back() += slower_ps;
  run.replay.makespan_ps += slower_ps;
  const std::string path = Folder() + "/" + name;
  EXPECT_TRUE(WriteTrace(BuildTrace(run.graph, run.replay, name), {}, path).ok());
  return path;
}

TEST(CompareCommandTest, TracesOfOneGraphTaskByTask) {
  const std::string a = OwnTrace("a.pb", 5'000), b = OwnTrace("b.pb", 0);
  EXPECT_EQ(Compare({a, b}).code, ExitCode::kDone);
  EXPECT_EQ(Compare({a, b, "--tolerance", "0.1"}).code, ExitCode::kDone);
  const Outcome outcome = Compare({"--tolerance=0.05", a, "--json", "-", b});
  EXPECT_EQ(outcome.code, ExitCode::kNo);
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json.at("by"), "task");
  EXPECT_EQ(json.at("ok"), false);
  EXPECT_NEAR(json.at("iteration").at("error").get<double>(), 1. / 12, 1e-12);
}

TEST(CompareCommandTest, APageHoldsBothTimelinesAndTheReport) {
  const std::string a = OwnTrace("a & b.pb", 5'000), b = OwnTrace("b.pb", 0);
  const std::string page = Folder() + "/page.html";
  const Outcome outcome = Compare({a, b, "--html", page});
  EXPECT_EQ(outcome.code, ExitCode::kDone) << outcome.err;
  std::stringstream text;
  text << std::ifstream(page).rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("id=\"trace-1\""));
  EXPECT_THAT(text.str(), HasSubstr("Comparison   A (a &amp; b.pb) against B (b.pb)"));
  EXPECT_EQ(Compare({a, b, "--html", Folder() + "/no/such/folder.html"}).code, ExitCode::kBadInput);
}

TEST(CompareCommandTest, AProfileAgainstASimulation) {
  const std::string profile = WriteFile("rank3.json", testing::TinyProfile());
  const std::string own = OwnTrace("own.pb", 0);
  const Outcome text = Compare({profile, own, "--step-a", "2"});
  EXPECT_EQ(text.code, ExitCode::kDone) << text.err;
  EXPECT_THAT(text.out, HasSubstr("6 kernels (0.391 ms)"));
  EXPECT_THAT(text.out, ::testing::ContainsRegex("Unknown,[ \n]+kept: 1 mtia_ccp_events"));
  const auto json = nlohmann::json::parse(Compare({profile, own, "--json", "-"}).out);
  EXPECT_EQ(json.at("by"), "kind");
  EXPECT_EQ(json.at("a").at("read").at("events"), 26);
  EXPECT_DOUBLE_EQ(json.at("iteration").at("a_s").get<double>(), 250e-6);
  for (const char* side : {"a", "b"}) {
    double sum = 0;
    for (const auto& part : json.at("parts"))
      sum += part.at(std::string(side) + "_s").get<double>();
    EXPECT_NEAR(sum, json.at("iteration").at(std::string(side) + "_s").get<double>(), 1e-15);
  }
  EXPECT_LE(json.at("largest").size(), 10u);
}

TEST(CompareCommandTest, AFolderHoldsTheRanks) {
  const std::string folder = Folder() + "/ranks";
  std::filesystem::create_directories(folder);
  for (const char* rank : {"3", "10"}) {
    std::string text = testing::TinyProfile();
    text.replace(text.find("\"rank\": 3"), 9, std::string("\"rank\": ") + rank);
    std::ofstream(folder + "/rank" + rank + ".json") << text;
  }
  const Outcome outcome = Compare({folder, folder, "--json", "-"});
  ASSERT_EQ(outcome.code, ExitCode::kDone) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  ASSERT_EQ(json.at("ranks").at("a").size(), 2u);
  EXPECT_EQ(json.at("ranks").at("a")[1].at("rank"), 10);
}

TEST(CompareCommandTest, BadInputIsASentence) {
  const std::string good = OwnTrace("good.pb", 0);
  EXPECT_EQ(Compare({good}).err,
            "twinstep compare: takes two traces, not 1 (twinstep compare A B; several ranks: a "
            "folder, or names with commas between them)\n");
  for (const auto& [name, text] : std::vector<std::pair<std::string, std::string>>{
           {"none.json", "[]"},
           {"text.json", "no JSON"},
           {"schema.json", "{\"iteration_time_s\": 3}"},
           {"negative.json", R"([{"ph":"X","cat":"kernel","name":"k","ts":5,"dur":-5}])"},
           {"cut.json.gz", "\x1f\x8b\x08"}}) {
    const std::string path = WriteFile(name, text);
    const Outcome outcome = Compare({path, good});
    EXPECT_EQ(outcome.code, ExitCode::kBadInput) << name;
    EXPECT_THAT(outcome.err, HasSubstr(path + ": ")) << name;
  }
  EXPECT_EQ(Compare({good, good, "--step-b", "x"}).code, ExitCode::kBadInput);
  EXPECT_THAT(Compare({good, good, "--step-b", "3"}).err, HasSubstr("it has no step 3"));
  EXPECT_EQ(Compare({good, good, "--step-b", "all"}).code, ExitCode::kDone);
  EXPECT_EQ(Compare({good, good, "--tolerence", "1"}).code, ExitCode::kBadInput);
  EXPECT_THAT(Compare({"--help"}).out, HasSubstr("compare A B"));
}

}  // namespace
}  // namespace twinstep
