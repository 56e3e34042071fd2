// A model of the zoo learns a text of this repository: below 2.5 nats a byte in under a minute on
// two cores. Time is that of the processors, so that other work on the machine does not fail it.

#include <gtest/gtest.h>

#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "exec/train/train_command.h"
#include "tests/exec/runtime/test_folder.h"

namespace twinstep {
namespace {

constexpr double kNatsPerByte = 2.5;
constexpr double kProcessorSeconds = 2 * 60;

TEST(Learning, TinyLlamaLearnsTheReadme) {
  const TestFolder folder;
  const std::string log = folder.File("log.jsonl");
  std::ostringstream out, err;
  const std::clock_t begin = std::clock();
  const ExitCode code = RunTrainCommand(
      {"--model", "tiny-llama", "--data", "README.md", "--steps", "300", "--lr", "5e-3",
       "--global-batch", "8", "--micro-batch", "4", "--threads", "2", "--log", log},
      out, err);
  const double processor_s = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  ASSERT_EQ(code, ExitCode::kDone) << err.str();
  std::vector<double> losses;
  std::istringstream lines(ReadBytes(log));
  for (std::string line; std::getline(lines, line);) {
    losses.push_back(nlohmann::json::parse(line).at("loss"));
  }
  ASSERT_EQ(losses.size(), 300u);
  const double last = std::accumulate(losses.end() - 10, losses.end(), 0.0) / 10;
  std::cout << "mean loss of the last ten steps: " << last << " nats a byte after " << processor_s
            << " s of processor time\n";
  EXPECT_LT(last, kNatsPerByte);
  EXPECT_LT(processor_s, kProcessorSeconds);
}

}  // namespace
}  // namespace twinstep
