#include "sim/simulate/options.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "sim/report/text_table.h"
#include "sim/simulate/simulate_input.h"
#include "sim/simulate/sweep.h"

namespace twinstep {
namespace {

std::string ErrorOf(const std::vector<std::string>& arguments) {
  const Result<Options> options = ParseOptions(arguments);
  return options.ok() ? "" : options.error().message;
}

TEST(OptionsTest, KeepsWhatWasGivenInOrder) {
  const Result<Options> options =
      ParseOptions({"--tp", "2", "--json", "-", "--set=a=1,2", "--set", "b=3", "--all-ranks"});
  ASSERT_TRUE(options.ok()) << options.error().message;
  EXPECT_EQ(options.value().given(), (std::vector<Option>{{"tp", "2"},
                                                          {"json", "-", FileUse::kWritten},
                                                          {"set", "a=1,2"},
                                                          {"set", "b=3"},
                                                          {"all-ranks", ""}}));
  EXPECT_EQ(options.value().Get("tp"), "2");
  EXPECT_TRUE(options.value().Has("all-ranks"));
  EXPECT_FALSE(options.value().Has("cp"));
  EXPECT_EQ(options.value().Without(0).Get("tp"), std::nullopt);
  EXPECT_EQ(options.value().With(0, "4").Get("tp"), "4");
}

TEST(OptionsTest, ErrorsNameTheOption) {
  EXPECT_EQ(ErrorOf({"--recompte", "full"}),
            "unknown option --recompte (did you mean --recompute?)");
  EXPECT_EQ(ErrorOf({"--tp", "2", "--tp", "4"}), "--tp is given twice");
  for (const std::string name : {"--plan", "--json", "--profile", "--trace"}) {
    EXPECT_EQ(ErrorOf({name, ""}), name + ": the value is empty");
  }
  EXPECT_EQ(ErrorOf({"--tp"}), "the required argument for option '--tp' is missing");
  EXPECT_EQ(ErrorOf({"llama"}),
            "unexpected argument 'llama': options begin with -- (twinstep simulate --help)");
  // No abbreviations: they break when an option is added.
  EXPECT_NE(ErrorOf({"--mod", "x"}), "");
  EXPECT_NE(ErrorOf({"--all-ranks=1"}), "");
}

TEST(OptionsTest, HelpFitsTheWidth) {
  std::istringstream lines(SimulateHelp());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) EXPECT_LE(line.size(), kReportWidth);
  EXPECT_GT(count, 40);
}

TEST(OptionsTest, DataParallelSaysHowManyGpus) {
  const auto gpus = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--model", "llama-7b", "--cluster", "h800"});
    const Result<Options> options = ParseOptions(arguments);
    const Result<SimulateInput> input = ReadInput(options.value());
    return input.ok() ? input.value().gpus : -1;
  };
  EXPECT_EQ(gpus({"--dp", "4"}), 4);
  EXPECT_EQ(gpus({"--dp", "4", "--tp", "2", "--pp", "2"}), 16);
  EXPECT_EQ(gpus({"--dp", "4", "--gpus", "8"}), 8);  // And the plan says that they do not agree.
  EXPECT_EQ(gpus({"--tp", "2"}), 256);
  EXPECT_EQ(gpus({"--dp", "0"}), -1);
}

// Of a machine whose threads serve any number of ranks, all would be an odd default.
TEST(OptionsTest, ThreadsServeTheRanksThatAPlanNeeds) {
  const Result<Options> options = ParseOptions(
      {"--model", "tiny-llama", "--cluster", "cpu-x2", "--pp", "2", "--global-batch", "8"});
  const Result<SimulateInput> input = ReadInput(options.value());
  ASSERT_TRUE(input.ok()) << input.error().message;
  EXPECT_EQ(input.value().gpus, 2);
}

TEST(SweepTest, ExpandsEveryCombinationLastFieldFastest) {
  const Result<Options> options =
      ParseOptions({"--set", "a=1,2", "--set", "b=3", "--set", "c=x,y", "--tp", "2"});
  const Result<std::vector<SweepPoint>> points = ExpandSweep(options.value());
  ASSERT_TRUE(points.ok());
  ASSERT_EQ(points.value().size(), 4u);
  using Fields = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(points.value()[0].fields, (Fields{{"a", "1"}, {"c", "x"}}));
  EXPECT_EQ(points.value()[1].fields, (Fields{{"a", "1"}, {"c", "y"}}));
  EXPECT_EQ(points.value()[3].options.given(),
            (std::vector<Option>{{"set", "a=2"}, {"set", "b=3"}, {"set", "c=y"}, {"tp", "2"}}));
}

TEST(SweepTest, WithoutListsThereIsOnePoint) {
  const Result<std::vector<SweepPoint>> points =
      ExpandSweep(ParseOptions({"--set", "a=1"}).value());
  ASSERT_EQ(points.value().size(), 1u);
  EXPECT_TRUE(points.value()[0].fields.empty());
}

TEST(SweepTest, RefusesTooManyPoints) {
  std::string list = "=0";
  for (int i = 1; i < 40; ++i) list += "," + std::to_string(i);
  const Result<std::vector<SweepPoint>> points =
      ExpandSweep(ParseOptions({"--set", "a" + list, "--set", "b" + list}).value());
  ASSERT_FALSE(points.ok());
  EXPECT_EQ(points.error().message, "--set: the sweep has more than 1000 points");
}

}  // namespace
}  // namespace twinstep
