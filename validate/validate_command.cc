#include "validate/validate_command.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "exec/profile/measure_profile.h"
#include "exec/runtime/atomic_file.h"
#include "sim/format.h"
#include "sim/report/echo_text.h"
#include "sim/report/text_table.h"
#include "sim/report/write_text.h"
#include "sim/str_cat.h"
#include "traces/compare_json.h"
#include "traces/compare_text.h"
#include "traces/trace_io.h"
#include "validate/validate_input.h"
#include "validate/validate_options.h"
#include "validate/validation.h"

namespace twinstep {
namespace {

constexpr std::size_t kLabelWidth = 12;

std::string ProfileText(const ValidateInput& input) {
  if (!input.profile) return "none: all times are modelled from the constants of the cluster";
  const Profile& profile = *input.profile;
  std::string text = profile.name();
  if (!profile.machine().empty()) text += ", " + profile.machine();
  if (!profile.date().empty()) text += ", " + profile.date();
  return text;
}

// "1,200 measured, 30 extrapolated".
std::string EvidenceText(const TraceComparison& comparison) {
  std::array<std::int64_t, kEvidenceCount> sum{};
  for (const GroupComparison& kind : comparison.kinds) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += kind.evidence[i];
  }
  std::string text;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    if (sum[i] == 0) continue;
    text += StrCat(text.empty() ? "" : ", ", Count(sum[i]), " ", Name(static_cast<Evidence>(i)));
  }
  return "times of tasks: " + text;
}

std::string StepsText(const ValidateInput& input, const Validation& validation) {
  const auto [least, most] =
      std::minmax_element(validation.step_s.begin(), validation.step_s.end());
  return StrCat(input.train.schedule.steps, " run, the first ", input.dropped_steps,
                " dropped; compared is step ", validation.chosen_step, ", the median of ",
                validation.step_s.size(), " (", Seconds(*least), " to ", Seconds(*most), ")");
}

std::string MachineText(const ValidateInput& input) {
  if (input.cluster.node().workers().threads() > 0) {
    return StrCat(input.cluster.name(), ", ", CountOf(input.train.threads, "thread"),
                  " for all ranks");
  }
  return StrCat(input.cluster.name(), ", ", CountOf(input.train.plan.gpus, "GPU"), " (",
                input.cluster.gpu().name(), ")");
}

std::string HeadText(const ValidateInput& input, const Validation& validation) {
  const auto line = [](const char* label, const std::string& text) {
    return Paragraph(label, kLabelWidth, text);
  };
  return line("model", StrCat(input.train.model.name(), ": ", Describe(input.train.model))) +
         line("machine", MachineText(input)) + line("profile", ProfileText(input)) +
         line("", EvidenceText(validation.comparison)) + line("plan", Describe(input.train.plan)) +
         line("steps", StepsText(input, validation)) + "\n";
}

nlohmann::ordered_json JsonOf(const ValidateInput& input, const Validation& validation,
                              const std::vector<std::string>& warnings) {
  nlohmann::ordered_json json = {{"model", input.train.model.name()},
                                 {"plan", Describe(input.train.plan)},
                                 {"cluster", input.cluster.name()},
                                 {"profile", input.profile ? input.profile->name() : ""},
                                 {"threads", input.train.threads},
                                 {"steps", input.train.schedule.steps},
                                 {"dropped_steps", input.dropped_steps},
                                 {"compared_step", validation.chosen_step},
                                 {"step_s", validation.step_s},
                                 {"warnings", warnings}};
  json.update(ToJson(validation.comparison));
  return json;
}

class Command {
 public:
  Command(const Options& options, std::ostream& out, std::ostream& err)
      : options_(options), out_(out), err_(err) {}

  ExitCode Run() {
    if (options_.Has("help")) {
      out_ << ValidateHelp();
      return ExitCode::kDone;
    }
    Result<ValidateInput> input = ReadValidateInput(options_);
    if (!input.ok()) return Fail(input.error());
    // What cannot be written is said before the work and not after it.
    if (const Status folder = MakeFolder(); !folder.ok()) return Fail(folder.error());
    if (const auto json = options_.Get("json").value_or("-"); json != "-") {
      if (const Status writable = CheckWritable(json); !writable.ok()) {
        return Fail(writable.error());
      }
    }
    if (const Status measured = MeasureMachine(&input.value()); !measured.ok()) {
      return Fail(measured.error());
    }
    Progress progress(StepsOfValidation(input.value()));
    std::vector<std::string> warnings;
    const Result<Validation> done = Validate(input.value(), &progress, &warnings);
    progress.Finish();
    for (const std::string& warning : warnings) Warn(warning);
    if (!done.ok()) return Fail(done.error());
    return Report(input.value(), done.value(), warnings);
  }

 private:
  ExitCode Fail(const Error& error) {
    err_ << "twinstep validate: " << error.message << "\n";
    return error.code;
  }

  void Warn(const std::string& warning) {
    err_ << "twinstep validate: warning: " << warning << "\n";
  }

  // --profile auto.
  Status MeasureMachine(ValidateInput* input) {
    if (input->measure_s == 0) return Unit{};
    const TrainInput& train = input->train;
    ProfileInput profile_input;
    profile_input.model = train.model;
    profile_input.plans = {{.name = "", .cluster = train.cluster, .plan = train.plan}};
    profile_input.threads = train.threads;
    profile_input.seconds = input->measure_s;
    Progress progress(StepsOfMeasurement(profile_input));
    std::vector<std::string> warnings;
    Result<Profile> profile = MeasureProfile(profile_input, &progress, &warnings);
    for (const std::string& warning : warnings) Warn(warning);
    if (!profile.ok()) return profile.error();
    if (!input->cluster.has_node()) input->cluster = profile.value().measured_on();
    input->profile = std::move(profile).value();
    return FitToTraining(input);
  }

  Status MakeFolder() const {
    const auto folder = options_.Get("save-traces");
    if (!folder) return Unit{};
    std::error_code error;
    std::filesystem::create_directories(*folder, error);
    if (error) {
      return Error{.message =
                       StrCat("--save-traces: ", *folder, ": cannot create: ", error.message())};
    }
    return Unit{};
  }

  ExitCode Report(const ValidateInput& input, const Validation& validation,
                  const std::vector<std::string>& warnings) {
    const bool json_only = options_.Get("json") == "-";
    if (!json_only) out_ << HeadText(input, validation) << ComparisonText(validation.comparison);
    if (const auto path = options_.Get("json")) {
      const std::string text = JsonOf(input, validation, warnings).dump(2) + "\n";
      if (json_only) {
        out_ << text;
      } else if (const Status written = WriteTextFile(*path, text); !written.ok()) {
        return Fail(written.error());
      }
    }
    if (const auto folder = options_.Get("save-traces")) {
      for (const auto& [name, trace] : {std::pair{"simulated.pb", &validation.simulated},
                                        std::pair{"executed.pb", &validation.executed}}) {
        const std::string path = (std::filesystem::path(*folder) / name).string();
        if (const Status written = WriteTrace(*trace, {}, path); !written.ok()) {
          return Fail(written.error());
        }
      }
    }
    return validation.comparison.ok() ? ExitCode::kDone : ExitCode::kNo;
  }

  const Options& options_;
  std::ostream& out_;
  std::ostream& err_;
};

}  // namespace

ExitCode RunValidateCommand(const std::vector<std::string>& arguments, std::ostream& out,
                            std::ostream& err) {
  const Result<Options> options = ParseValidateOptions(arguments);
  if (!options.ok()) {
    err << "twinstep validate: " << options.error().message << "\n";
    return options.error().code;
  }
  return Command(options.value(), out, err).Run();
}

}  // namespace twinstep
