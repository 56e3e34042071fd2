#include "sim/evaluate/evaluate_command.h"

#include <algorithm>
#include <utility>

#include "sim/evaluate/cross_validate.h"
#include "sim/evaluate/evaluation_report.h"
#include "sim/evaluate/suites/find_suite.h"
#include "sim/hardware_threads.h"
#include "sim/options/options.h"
#include "sim/options/output_files.h"
#include "sim/options/positional.h"
#include "sim/options/read_option.h"
#include "sim/options/run_verb.h"
#include "sim/parallel.h"
#include "sim/report/json_report.h"
#include "sim/report/write_text.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

const std::vector<OptionGroup>& Groups() {
  static const std::vector<OptionGroup> kGroups = {
      {"What to evaluate",
       {{"set", "FIELD=VALUE", "change a field of every cluster; may be repeated",
         /*repeats=*/true},
        {"cross-validate", nullptr,
         "fit the constants that each suite names as fitted to half of its rows, and judge them "
         "on the other half (up to some minutes a suite)"},
        {"jobs", "N",
         "threads (default: the cores it may use); the result does not depend on it"}}},
      {"Output",
       {{"summary", nullptr, "no line a row"},
        Writes(
            {"json", "FILE|-", "everything as JSON; - : to standard output, in place of the text"}),
        Writes({"svg", "FILE", "predicted over measured times as a picture"}),
        {"help", nullptr, "this text"}}},
  };
  return kGroups;
}

std::string Help() {
  return StrCat(
      "twinstep evaluate: predicted against measured, over suites of published runs\n\n"
      "  twinstep evaluate [SUITE ...] [OPTION ...]\n\n"
      "SUITE is a name of `twinstep list suites` or a text file like those of\n"
      "sim/evaluate/suites/ (default: all). The null model knows one constant, fitted to the\n"
      "suite: the share of the peak that its rows reach. Exit status 1: a suite is worse than\n"
      "what its file records.\n",
      OptionsHelp(Groups()));
}

class Command {
 public:
  Command(std::vector<std::string> names, const Options& options, const VerbOutput& output)
      : names_(std::move(names)), options_(options), output_(output) {}

  ExitCode Run() {
    for (const Status& status :
         {CheckOutputFiles(options_, names_), ReadSuites(), ReadEvaluateOptions()}) {
      if (!status.ok()) return output_.Fail(status.error());
    }
    const Result<std::vector<Evaluation>> done = Evaluate(suites_, evaluate_);
    if (!done.ok()) return output_.Fail(done.error());
    std::vector<CrossValidation> validations;
    if (options_.Has("cross-validate")) {
      for (const Suite& suite : suites_) {
        if (suite.fitted().empty()) continue;
        const Result<CrossValidation> validation = CrossValidate(suite, evaluate_);
        if (!validation.ok()) return output_.Fail(validation.error());
        validations.push_back(validation.value());
      }
    }
    if (const Status written = Write(done.value(), validations); !written.ok()) {
      return output_.Fail(written.error());
    }
    return Judge(done.value());
  }

 private:
  Status ReadSuites() {
    for (const std::string& name : names_.empty() ? ListSuites() : names_) {
      Result<Suite> suite = FindSuite(name);
      if (!suite.ok()) return suite.error();
      suites_.push_back(std::move(suite).value());
    }
    return Unit{};
  }

  Status ReadEvaluateOptions() {
    evaluate_.jobs = HardwareThreads();
    for (const Option& option : options_.given()) {
      if (option.name != "set") continue;
      Result<FieldValues> field = ParseFieldValues(option.value);
      if (!field.ok()) return OptionError("set", field.error().message);
      if (field.value().values.size() > 1) return OptionError("set", "takes one value here");
      evaluate_.sets.push_back(std::move(field).value());
    }
    return ReadInteger(options_, "jobs", 1, kMostThreads,
                       [this](auto x) { evaluate_.jobs = static_cast<int>(x); });
  }

  Status Write(const std::vector<Evaluation>& evaluations,
               const std::vector<CrossValidation>& validations) {
    const auto json_path = options_.Get("json");
    if (json_path != "-") {
      output_.out() << ToText(evaluations, !options_.Has("summary"));
      for (const CrossValidation& validation : validations)
        output_.out() << "\n" << ToText(validation);
    }
    if (json_path) {
      nlohmann::ordered_json json = ToJson(evaluations);
      for (const CrossValidation& validation : validations) {
        json["cross_validation"].push_back(ToJson(validation));
      }
      if (json_path == "-") {
        output_.out() << JsonText(json);
      } else if (const Status status = WriteTextFile(*json_path, JsonText(json)); !status.ok()) {
        return status;
      }
    }
    if (const auto path = options_.Get("svg")) return WriteTextFile(*path, ToSvg(evaluations));
    return Unit{};
  }

  ExitCode Judge(const std::vector<Evaluation>& evaluations) {
    ExitCode code = ExitCode::kDone;
    for (const Evaluation& evaluation : evaluations) {
      for (const std::string& worse :
           Violations(evaluation, evaluation.suite->recorded(), kRecordedPrecision)) {
        output_.Say(StrCat("suite ", evaluation.suite->name(), " is worse than recorded: ", worse));
        code = ExitCode::kNo;
      }
    }
    return code;
  }

  const std::vector<std::string> names_;
  const Options& options_;
  const VerbOutput& output_;
  std::vector<Suite> suites_;
  EvaluateOptions evaluate_;
};

}  // namespace

ExitCode RunEvaluateCommand(const std::vector<std::string>& arguments, std::ostream& out,
                            std::ostream& err) {
  const VerbOutput output("evaluate", out, err);
  const SplitArguments split = SplitPositional(Groups(), arguments);
  return RunVerb(
      output, ParseOptions(Groups(), "evaluate", split.options), Help,
      [&](const Options& options) { return Command(split.positional, options, output).Run(); });
}

}  // namespace twinstep
