// The verb as a user calls it, on models that simulate in milliseconds.

#include "sim/simulate/simulate_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "sim/printable.h"
#include "sim/simulate/list_command.h"

namespace twinstep {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

struct Answer {
  int code = -1;
  std::string out, err;
  json Json() const { return json::parse(out); }
  std::vector<std::string> Warnings() const { return Json().at("warnings"); }
};

Answer Call(std::vector<std::string> arguments) {
  std::ostringstream out, err;
  const ExitCode code = RunSimulateCommand(arguments, out, err);
  return {static_cast<int>(code), out.str(), err.str()};
}

// A pipeline of two of tiny-llama on four GPUs, JSON to standard output, and more options.
Answer CallTiny(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"--model", "tiny-llama", "--cluster",      "4xa100",
                                        "--gpus",  "4",          "--global-batch", "8",
                                        "--pp",    "2",          "--json",         "-"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return Call(arguments);
}

std::string TemporaryFile(const std::string& name, const std::string& text = "") {
  const std::string path = ::testing::TempDir() + "/" + name;
  if (!text.empty()) std::ofstream(path) << text;
  return path;
}

TEST(SimulateCommandTest, ReportsAnIteration) {
  const Answer answer = CallTiny({});
  ASSERT_EQ(answer.code, 0) << answer.err;
  const json report = answer.Json();
  EXPECT_GT(report.at("iteration_time_s"), 0);
  EXPECT_EQ(report.at("plan").at("data_parallel"), 2);
  EXPECT_EQ(report.at("offload_ratio"), 0);
  double sum = 0;
  for (const auto& [name, seconds] : report.at("breakdown").items()) sum += seconds.get<double>();
  EXPECT_NEAR(sum, report.at("iteration_time_s").get<double>(), 1e-12);
  EXPECT_THAT(answer.Warnings(), IsEmpty());
}

TEST(SimulateCommandTest, FrameworksAddWork) {
  const double plain = CallTiny({}).Json().at("iteration_time_s");
  const Answer eager = CallTiny({"--framework", "pytorch-eager"});
  ASSERT_EQ(eager.code, 0) << eager.err;
  EXPECT_GT(eager.Json().at("iteration_time_s"), plain);
  EXPECT_EQ(eager.Json().at("framework"), "pytorch-eager");
  const Answer unknown = CallTiny({"--framework", "pytorch-eagre"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("pytorch-eager"));
}

TEST(SimulateCommandTest, ErrorBarsSayInWhatTheyAreExtrapolated) {
  const std::vector<std::string> run = {
      "--model", "llama-3.1-8b",   "--cluster", "dgx-h100",    "--gpus",        "8",      "--cp",
      "2",       "--global-batch", "8",         "--framework", "megatron-2025", "--json", "-"};
  const json bar = Call(run).Json().at("error_bars").at(0);
  EXPECT_EQ(bar.at("suite"), "llama3-h100");
  EXPECT_GT(bar.at("median_error"), 0);
  EXPECT_THAT(bar.at("beyond").get<std::vector<std::string>>(), IsEmpty());
  std::vector<std::string> changed = run;
  changed.insert(changed.end(), {"--set", "node.nic.bytes_per_s=100e9", "--seq", "4096"});
  EXPECT_THAT(Call(changed).Json().at("error_bars").at(0).at("beyond").dump(),
              AllOf(HasSubstr("changed constants"), HasSubstr("4,096 positions")));
  // No suite has runs on this cluster.
  const Answer unknown =
      Call({"--model", "tiny-llama", "--cluster", "4x3090", "--global-batch", "8", "--json", "-"});
  EXPECT_THAT(unknown.Json().at("error_bars"), IsEmpty());
}

TEST(SimulateCommandTest, TheSameInputGivesTheSameBytes) {
  EXPECT_EQ(CallTiny({"--virtual-stages", "2"}).out, CallTiny({"--virtual-stages", "2"}).out);
}

TEST(SimulateCommandTest, EnginesAgree) {
  const double fast = CallTiny({}).Json().at("iteration_time_s");
  const Answer simgrid = CallTiny({"--engine", "simgrid"});
  if (simgrid.code == 2) GTEST_SKIP() << simgrid.err;  // Built without it.
  EXPECT_NEAR(simgrid.Json().at("iteration_time_s").get<double>(), fast, 1e-3 * fast);
}

// A pipeline whose copies and messages hide: Kuaishou's formulas against the replay.
TEST(SimulateCommandTest, ClosedFormStandsBesideTheReplay) {
  const std::vector<std::string> arguments = {
      "--model", "llama-7b", "--cluster",      "h800", "--gpus",   "8",           "--pp",  "4",
      "--seq",   "4096",     "--global-batch", "64",   "--engine", "closed-form", "--json"};
  std::vector<std::string> as_json = arguments;
  as_json.push_back("-");
  const Answer answer = Call(as_json);
  ASSERT_EQ(answer.code, 0) << answer.err;
  const json report = answer.Json();
  const json& form = report.at("closed_form");
  const double replay = report.at("iteration_time_s");
  EXPECT_NEAR(form.at("iteration_time_s").get<double>(), replay, 0.004 * replay);
  for (const auto& [terms, total] : {std::pair("terms_s", "iteration_time_s"),
                                     std::pair("terms_bytes", "peak_gpu_memory_bytes")}) {
    double sum = 0;
    for (const json& term : form.at(terms)) {
      if (term.at("in_total").get<bool>()) sum += term.at("closed_form").get<double>();
    }
    EXPECT_NEAR(sum, form.at(total).get<double>(), 1e-9 * sum);
  }
  EXPECT_THAT(answer.Warnings(), IsEmpty());
  EXPECT_FALSE(CallTiny({}).Json().contains("closed_form"));
}

TEST(SimulateCommandTest, AllRanksGiveTheTimeOfTheirClasses) {
  const json folded = CallTiny({}).Json();
  const json whole = CallTiny({"--all-ranks"}).Json();
  EXPECT_EQ(whole.at("ranks").size(), 4u);
  EXPECT_LT(folded.at("ranks").size(), 4u);
  EXPECT_NEAR(folded.at("iteration_time_s").get<double>(),
              whole.at("iteration_time_s").get<double>(),
              1e-6 * whole.at("iteration_time_s").get<double>());
  EXPECT_EQ(folded.at("peak_gpu_memory_bytes"), whole.at("peak_gpu_memory_bytes"));
}

TEST(SimulateCommandTest, FlagsOverrideThePlanFile) {
  const std::string path = TemporaryFile(
      "plan.textproto", "global_batch: 16 pipeline_parallel: 2 virtual_stages: 2 micro_batch: 1");
  const std::vector<std::string> base = {"--model", "tiny-llama", "--cluster", "4xa100",
                                         "--plan",  path,         "--json",    "-"};
  const json of_file = Call(base).Json();
  EXPECT_EQ(of_file.at("plan").at("virtual_stages"), 2);
  EXPECT_EQ(of_file.at("plan").at("global_batch"), 16);
  std::vector<std::string> with_flag = base;
  with_flag.insert(with_flag.end(), {"--layers-per-stage", "2", "--micro-batch", "2"});
  const json of_flags = Call(with_flag).Json();
  EXPECT_EQ(of_flags.at("plan").at("virtual_stages"), 1);
  EXPECT_EQ(of_flags.at("plan").at("micro_batch"), 2);
}

TEST(SimulateCommandTest, RecipeAndSetReachTheModelAndTheCluster) {
  const json report =
      CallTiny({"--precision", "fp32", "--clip-norm", "0.5", "--dropout", "0.1", "--set",
                "vocab_size=512", "--set", "node.pcie.h2d_bytes_per_s=1e9"})
          .Json();
  EXPECT_EQ(report.at("model").at("recipe").at("precision"), "FP32");
  EXPECT_EQ(report.at("model").at("recipe").at("clip_norm"), 0.5);
  EXPECT_EQ(report.at("model").at("recipe").at("hidden_dropout"), 0.1);
  EXPECT_EQ(report.at("model").at("vocab_size"), 512);
  EXPECT_EQ(report.at("cluster").at("node").at("pcie").at("h2d_bytes_per_s"), 1e9);
}

TEST(SimulateCommandTest, ImpossiblePlansExitWithOneAndTheirRule) {
  const Answer answer = CallTiny({"--virtual-stages", "3"});
  EXPECT_EQ(answer.code, 1);
  EXPECT_EQ(answer.Json().at("infeasible").at("rule"), "layers-divide");
  EXPECT_FALSE(answer.Json().contains("iteration_time_s"));

  EXPECT_EQ(CallTiny({"--tp", "3"}).Json().at("infeasible").at("rule"), "gpus-divide");
}

TEST(SimulateCommandTest, TooMuchGpuMemorySaysByHowMuch) {
  const std::int64_t peak = CallTiny({}).Json().at("peak_gpu_memory_bytes");
  const Answer fits = CallTiny({"--gpu-memory-capacity", std::to_string(peak)});
  EXPECT_EQ(fits.code, 0);

  const Answer answer = CallTiny({"--gpu-memory-capacity", std::to_string(peak - 100)});
  EXPECT_EQ(answer.code, 1);
  const json infeasible = answer.Json().at("infeasible");
  EXPECT_EQ(infeasible.at("rule"), "gpu-memory");
  EXPECT_EQ(infeasible.at("pool"), "gpu");
  EXPECT_EQ(infeasible.at("bytes"), 100);
  EXPECT_TRUE(infeasible.contains("rank"));
  // The report is there all the same.
  EXPECT_GT(answer.Json().at("iteration_time_s"), 0);
}

TEST(SimulateCommandTest, NamesOfAnyLettersKeepTheWidth) {
  const std::string model = TemporaryFile(
      "letters.textproto",
      "name: 'größe-模型-größe-größe-größe-größe-größe' family: LLAMA layers: 4 hidden_size: 64\n"
      "ffn_hidden_size: 176 attention_heads: 4 vocab_size: 256 max_sequence_length: 64\n");
  const Answer answer =
      Call({"--model", model, "--cluster", "4xa100", "--gpus", "1", "--global-batch", "1"});
  ASSERT_EQ(answer.code, 0) << answer.err;
  // The first line is as full as with letters of one byte.
  const std::string first = answer.out.substr(0, answer.out.find('\n'));
  EXPECT_THAT(first, HasSubstr("größe-模型-größe"));
  EXPECT_LE(TextColumns(first), 100u);
  EXPECT_GT(TextColumns(first), 88u);
}

TEST(SimulateCommandTest, InfeasiblePlansSaySoAboveTheTablesAndWhatMayHelp) {
  const auto text_of = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"--model", "tiny-llama", "--cluster",      "4xa100",
                                          "--gpus",  "4",          "--global-batch", "8",
                                          "--pp",    "2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Answer answer = Call(arguments);
    EXPECT_EQ(answer.code, 1) << answer.err;
    return answer.out;
  };
  const std::string gpu = text_of({"--gpu-memory-capacity", "1MiB", "--micro-batch", "2"});
  const std::size_t tables = gpu.find("Where the time goes");
  EXPECT_LT(gpu.find("  infeasible            gpu-memory: "), tables);
  EXPECT_GT(gpu.find("Infeasible  (gpu-memory) rank 0 needs "), tables);
  EXPECT_THAT(gpu, HasSubstr("May help    a smaller --micro-batch, --recompute balanced or full, a "
                             "higher --zero, a larger --tp or"));
  EXPECT_THAT(gpu, HasSubstr("`twinstep rank --space all`"));
  // What the plan does already is no remedy.
  const std::string chunked =
      text_of({"--gpu-memory-capacity", "100KiB", "--persist", "1", "--checkpoint", "4"});
  EXPECT_THAT(chunked,
              HasSubstr("May help    a larger --tp or --pp, a smaller --persist, more GPUs; "));
  const std::string host =
      text_of({"--virtual-stages", "2", "--offload-ratio", "0.5", "--host-memory-budget", "1KiB"});
  EXPECT_THAT(host, HasSubstr("May help    a smaller --offload-ratio, more nodes; "));
  // Of plans that cannot be: the number of GPUs is often one that nobody chose.
  EXPECT_THAT(text_of({"--tp", "3"}), HasSubstr("May help    another number of GPUs (--gpus, or"));
  EXPECT_THAT(text_of({"--virtual-stages", "3"}), Not(HasSubstr("May help")));
}

TEST(SimulateCommandTest, TheReportSaysOneOfOneThing) {
  const Answer answer =
      Call({"--model", "tiny-llama", "--cluster", "4xa100", "--gpus", "1", "--global-batch", "1"});
  ASSERT_EQ(answer.code, 0) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("plan        1 GPU = tensor 1"));
  EXPECT_THAT(answer.out, HasSubstr("iteration   1 sequence x "));
  EXPECT_THAT(answer.out, HasSubstr(" of 1 rank; engine fast"));
}

TEST(SimulateCommandTest, BudgetsThatNoRatioMeetsAreToldInUnits) {
  const Answer answer = CallTiny({"--offload-ratio", "auto", "--gpu-memory-budget", "1KiB"});
  EXPECT_EQ(answer.code, 1);
  const std::string message = answer.Json().at("infeasible").at("message");
  EXPECT_THAT(message, HasSubstr(" exceed the budget of 1.000 KiB by "));
}

TEST(SimulateCommandTest, TooMuchHostMemorySaysByHowMuch) {
  const std::vector<std::string> offload = {"--virtual-stages", "2", "--offload-ratio", "0.5"};
  const std::int64_t peak = CallTiny(offload).Json().at("peak_host_memory_per_node_bytes");
  ASSERT_GT(peak, 0);
  std::vector<std::string> arguments = offload;
  arguments.insert(arguments.end(), {"--host-memory-budget", std::to_string(peak - 7)});
  const Answer answer = CallTiny(arguments);
  EXPECT_EQ(answer.code, 1);
  EXPECT_EQ(answer.Json().at("infeasible").at("rule"), "host-memory");
  EXPECT_EQ(answer.Json().at("infeasible").at("bytes"), 7);
}

// Yuan et al., ATC 2024: the offload ratios that the paper publishes.
TEST(SimulateCommandTest, AutoSolvesThePublishedOffloadRatio) {
  const Answer answer = Call({"--model",
                              "llama-7b",
                              "--cluster",
                              "h800",
                              "--gpus",
                              "4",
                              "--pp",
                              "4",
                              "--layers-per-stage",
                              "1",
                              "--seq",
                              "12288",
                              "--global-batch",
                              "16",
                              "--set",
                              "vocab_size=32004",
                              "--recompute",
                              "balanced",
                              "--offload-ratio",
                              "auto",
                              "--gpu-memory-budget",
                              "65000MiB",
                              "--json",
                              "-"});
  ASSERT_EQ(answer.code, 0) << answer.err << answer.out;
  EXPECT_NEAR(answer.Json().at("offload_ratio").get<double>(), 0.096, 0.0005);
}

TEST(SimulateCommandTest, BudgetsBindWithAGivenRatioToo) {
  const Answer answer = CallTiny({"--gpu-memory-budget", "1000"});
  EXPECT_EQ(answer.code, 1);
  EXPECT_EQ(answer.Json().at("infeasible").at("rule"), "gpu-memory-budget");
  EXPECT_GT(answer.Json().at("infeasible").at("bytes"), 0);
}

TEST(SimulateCommandTest, OptionsThatChangeNothingAreReported) {
  EXPECT_THAT(CallTiny({"--recompute", "selective"}).Warnings(),
              Contains(HasSubstr("changes nothing with flash attention")));
  EXPECT_THAT(CallTiny({"--set", "description=other"}).Warnings(),
              Contains(HasSubstr("--set description=other changed nothing: iteration time")));
  EXPECT_THAT(CallTiny({"--set", "layers=4"}).Warnings(),
              Contains("--set layers=4 changed nothing: the field has this value already"));
  EXPECT_THAT(CallTiny({"--set", "node.host.cores=1"}).Warnings(),
              Contains(HasSubstr("node.host.cores=1 changed nothing")));
  // These do change something, or only repeat a default.
  EXPECT_THAT(CallTiny({"--set", "gpu.kernel_launch_s=1e-4"}).Warnings(), IsEmpty());
  EXPECT_THAT(CallTiny({"--recompute", "full"}).Warnings(), IsEmpty());
  EXPECT_THAT(CallTiny({"--recompute", "none"}).Warnings(), IsEmpty());
}

TEST(SimulateCommandTest, SweepsMakeATable) {
  const Answer answer = CallTiny({"--set", "gpu.kernel_launch_s=1e-6,1e-5", "--set", "layers=4,8"});
  ASSERT_EQ(answer.code, 0) << answer.err;
  const json sweep = answer.Json().at("sweep");
  ASSERT_EQ(sweep.size(), 4u);
  EXPECT_EQ(sweep[1].at("set"), (json{{"gpu.kernel_launch_s", "1e-6"}, {"layers", "8"}}));
  EXPECT_LT(sweep[0].at("iteration_time_s"), sweep[2].at("iteration_time_s"));

  const Answer text = Call({"--model", "tiny-llama", "--cluster", "4xa100", "--global-batch", "8",
                            "--set", "node.host.cores=1,2"});
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("Sweep of node.host.cores"));
  EXPECT_THAT(text.out, HasSubstr("node.host.cores changed nothing"));
}

TEST(SimulateCommandTest, SweepsSayWhyPointsAreInfeasible) {
  const std::vector<std::string> base = {"--model",        "tiny-llama", "--cluster", "4xa100",
                                         "--global-batch", "8",          "--pp",      "2"};
  const auto call = [&base](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = base;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Call(arguments);
  };
  const Answer none = call({"--set", "layers=3,5"});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.out, HasSubstr("Sweep of layers; no point is feasible"));
  EXPECT_THAT(none.out, HasSubstr("Infeasible: layers = 3: "));
  EXPECT_THAT(none.out, HasSubstr("Infeasible: layers = 5: "));
  EXPECT_THAT(none.out, Not(HasSubstr("changed nothing")));

  const Answer one = call({"--set", "layers=3,4"});
  EXPECT_EQ(one.code, 0);
  EXPECT_THAT(one.out, HasSubstr("Infeasible: layers = 3: "));
  EXPECT_THAT(one.out, Not(HasSubstr("Infeasible: layers = 4")));
  EXPECT_THAT(one.out, HasSubstr("what is above is its first point with a valid plan"));
  EXPECT_THAT(one.out, Not(HasSubstr("changed nothing")));
}

TEST(SimulateCommandTest, AFieldCannotBeSetTwice) {
  for (const auto& [first, second] :
       std::vector<std::pair<std::string, std::string>>{{"layers=4,8", "layers=4,8"},
                                                        {"layers=4", "layers=8"},
                                                        {"layers=4,8", "model.layers=4"}}) {
    const Answer answer = CallTiny({"--set", first, "--set", second});
    EXPECT_EQ(answer.code, 2) << first << " " << second;
    EXPECT_THAT(answer.err, HasSubstr("layers is given twice"));
  }
  EXPECT_EQ(CallTiny({"--set", "model.name=a", "--set", "cluster.name=b"}).code, 0);
}

TEST(SimulateCommandTest, WritesEveryFileThatWasAskedFor) {
  const std::string report = TemporaryFile("report.json"), chrome = TemporaryFile("trace.json"),
                    trace = TemporaryFile("trace.pb"), dot = TemporaryFile("graph.dot");
  const Answer answer =
      Call({"--model", "tiny-gpt", "--cluster", "4xa100", "--global-batch", "8", "--pp", "2",
            "--json", report, "--trace", chrome, "--trace-flows", "--dot", dot, "--schedule-view"});
  ASSERT_EQ(answer.code, 0) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("Where the time goes"));
  EXPECT_THAT(answer.out, HasSubstr("Schedule: F3 forward"));
  EXPECT_THAT(answer.out, HasSubstr("Activation blocks of rank 0"));
  const auto parse = [](const std::string& path) {
    std::ifstream file(path);
    return json::parse(file);
  };
  EXPECT_TRUE(parse(report).contains("iteration_time_s"));
  EXPECT_GT(parse(chrome).at("traceEvents").size(), 100u);
  std::ifstream picture(dot);
  std::string first_line;
  std::getline(picture, first_line);
  EXPECT_THAT(first_line, StartsWith("digraph"));
  EXPECT_EQ(
      Call({"--model", "tiny-gpt", "--cluster", "4xa100", "--global-batch", "8", "--trace", trace})
          .code,
      0);
  EXPECT_TRUE(std::ifstream(trace).good());
}

TEST(SimulateCommandTest, FilesOfOtherRanksAreNotTakenForThisTrace) {
  const std::string trace = TemporaryFile("fewer.et");
  ASSERT_EQ(CallTiny({"--trace", trace}).code, 0);
  EXPECT_EQ(CallTiny({"--trace", trace}).code, 0);
  const Answer fewer = Call({"--model", "tiny-llama", "--cluster", "4xa100", "--gpus", "2",
                             "--global-batch", "8", "--trace", trace});
  EXPECT_EQ(fewer.code, 2);
  EXPECT_THAT(fewer.err, HasSubstr("fewer.2.et and 1 more are of a trace of more than 2 ranks"));
}

TEST(SimulateCommandTest, BadInputExitsWithTwoAndNamesTheOption) {
  for (const auto& [arguments, message] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--schedule", "zigzag"}, "--schedule: 'zigzag' is none of gpipe, 1f1b, interleaved"},
           {{"--zero", "4"}, "--zero: '4' is none of 0, 1, 2, 3"},
           {{"--micro-batch", "0"}, "--micro-batch: 0 is less than 1"},
           {{"--offload-ratio", "1.5"}, "--offload-ratio: 1.5 is not between 0 and 1"},
           {{"--offload-ratio", "auto"}, "--offload-ratio: auto needs --gpu-memory-budget"},
           {{"--dropout", "x"}, "--dropout: "},
           {{"--set", "no_such_field=1"}, "--set: "},
           {{"--set", "layers=0"}, "layers"},
           {{"--trace", "x.txt"}, "x.txt: a trace file ends in .json"},
           {{"--trace-flows"}, "--trace-flows needs --trace FILE.json"},
           {{"--plan", "/nowhere.textproto"}, "/nowhere.textproto"},
           {{"--profile", "/nowhere.textproto"}, "/nowhere.textproto"},
           {{"--sequence-parallel", "maybe"}, "--sequence-parallel: 'maybe' is none of on, off"},
           {{"--schedule-view"}, "--schedule-view goes to standard output, as --json - does"},
           {{"--trace", "x.pb", "--set", "layers=4,8"}, "--trace is for one iteration"}}) {
    const Answer answer = CallTiny(arguments);
    EXPECT_EQ(answer.code, 2) << message;
    EXPECT_THAT(answer.err, HasSubstr(message));
    EXPECT_EQ(answer.out, "");
  }
  EXPECT_THAT(Call({"--model", "lama-65b", "--cluster", "h800"}).err, HasSubstr("llama-65b"));
  EXPECT_THAT(Call({"--model", "tiny-gpt"}).err, HasSubstr("--cluster is missing"));
}

TEST(SimulateCommandTest, TwoOutputsCannotHaveOnePath) {
  const std::string path = TemporaryFile("same.json");
  const std::string other_spelling = ::testing::TempDir() + "/./same.json";
  std::vector<std::string> base = {"--model", "tiny-gpt",       "--cluster",
                                   "4xa100",  "--global-batch", "8"};
  const auto call = [&base](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = base;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Call(arguments);
  };
  for (const auto& [arguments, message] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--json", path, "--trace", path}, "is the file of --json, too"},
           {{"--json", path, "--dot", other_spelling}, "is the file of --json, too"},
           {{"--dot", path, "--trace", path}, "is the file of --dot, too"}}) {
    const Answer answer = call(arguments);
    EXPECT_EQ(answer.code, 2);
    EXPECT_THAT(answer.err, HasSubstr(message));
    EXPECT_FALSE(std::ifstream(path).good());
  }
  EXPECT_EQ(call({"--json", "/dev/null", "--dot", "/dev/null"}).code, 0);
}

TEST(SimulateCommandTest, RefusesWhatTheMachineCannotHold) {
  const Answer answer = Call({"--model", "llama-7b", "--cluster", "h800", "--gpus", "1", "--seq",
                              "128", "--global-batch", "60000000", "--recompute", "full"});
  EXPECT_EQ(answer.code, 2);
  EXPECT_THAT(answer.err, HasSubstr("bytes each their simulation takes"));
}

TEST(SimulateCommandTest, HostileValuesAreAnsweredNotCrashedOn) {
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{"--micro-batch", "9223372036854775807"},
                                             {"--seq", "67108864"},
                                             {"--seq", "1e30"},
                                             {"--tp", "9223372036854775807"},
                                             {"--layers-per-stage", "9223372036854775807"},
                                             {"--gpu-memory-budget", "1"},
                                             {"--gpu-memory-capacity", "1"},
                                             {"--offload-ratio", "nan"},
                                             {"--set", "gpu.bf16_flops_per_s=0"},
                                             {"--set", "gpu.memory_bytes_per_s=-1"},
                                             {"--set", "node.gpus=0"},
                                             {"--set", "nodes=1e18"},
                                             {"--set", "vocab_size=1e18"},
                                             {"--set", "="},
                                             {"--set", "name="},
                                             {"--rank-order", "tp-tp-tp-tp"},
                                             {"--plan", "/dev/null", "--micro-batch", "3"}}) {
    const Answer answer = CallTiny(more);
    EXPECT_THAT(answer.code, AnyOf(1, 2)) << more[0] << " " << more[1] << "\n" << answer.out;
    // Either says what is wrong, or the JSON does.
    EXPECT_TRUE(answer.code == 1 ? answer.Json().contains("infeasible") : !answer.err.empty());
  }
  const Answer answer = CallTiny({"--set", "description=\xff\xfe"});
  EXPECT_EQ(answer.code, 0);
  EXPECT_TRUE(answer.Json().contains("mfu"));
}

TEST(ListCommandTest, OneNameALineFirstWord) {
  std::ostringstream out, err;
  ASSERT_EQ(RunListCommand({"models"}, out, err), ExitCode::kDone) << err.str();
  std::vector<std::string> names;
  std::istringstream lines(out.str());
  for (std::string line; std::getline(lines, line);)
    names.push_back(line.substr(0, line.find(' ')));
  EXPECT_THAT(names, Contains("llama-65b"));
  EXPECT_THAT(names, Contains("tiny-gpt"));

  std::ostringstream clusters;
  ASSERT_EQ(RunListCommand({"clusters"}, clusters, err), ExitCode::kDone) << err.str();
  EXPECT_THAT(clusters.str(), HasSubstr("\nh800 "));
  EXPECT_EQ(RunListCommand({"model"}, out, err), ExitCode::kBadInput);
  EXPECT_THAT(err.str(), HasSubstr("did you mean models?"));
  EXPECT_EQ(RunListCommand({}, out, err), ExitCode::kBadInput);
}

}  // namespace
}  // namespace twinstep
