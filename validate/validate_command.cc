#include "validate/validate_command.h"

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "exec/profile/measure_profile.h"
#include "sim/files/atomic_file.h"
#include "sim/format.h"
#include "sim/options/output_files.h"
#include "sim/options/read_option.h"
#include "sim/options/run_verb.h"
#include "sim/report/echo_text.h"
#include "sim/report/text_table.h"
#include "sim/report/write_text.h"
#include "sim/str_cat.h"
#include "traces/compare_json.h"
#include "traces/compare_text.h"
#include "traces/trace_io.h"
#include "validate/step_spread_report.h"
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
  const StepTimes& steps = validation.spread.iteration;
  return StrCat(input.train.schedule.steps, " run, the first ", input.dropped_steps,
                " dropped; compared is step ", validation.chosen_step, ", the median of ",
                steps.step_s.size(), " (", Seconds(steps.Least()), " to ", Seconds(steps.Most()),
                ")",
                input.train.backend == BackendKind::kCuda
                    ? "; warm: behind two seconds of steps, each behind one that is not recorded"
                    : "");
}

std::string MemoryText(const DeviceMemory& memory) {
  return StrCat(Bytes(static_cast<double>(memory.predicted_bytes)), " predicted, ",
                Bytes(static_cast<double>(memory.driver_bytes)), " by the driver (",
                memory.Error() > 0 ? "+" : "", Percent(memory.Error()), ")");
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
         line("steps", StepsText(input, validation)) +
         (validation.device_memory ? line("GPU memory", MemoryText(*validation.device_memory))
                                   : "") +
         "\n";
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
                                 {"step_s", validation.spread.iteration.step_s},
                                 {"warnings", warnings}};
  if (const auto& memory = validation.device_memory) {
    json["device_memory"] = {{"predicted_bytes", memory->predicted_bytes},
                             {"driver_bytes", memory->driver_bytes}};
  }
  json.update(ToJson(validation.comparison));
  json["all_steps"] = ToJson(validation.spread);
  return json;
}

class Command {
 public:
  Command(const Options& options, const VerbOutput& output) : options_(options), output_(output) {}

  ExitCode Run() {
    Result<ValidateInput> input = ReadValidateInput(options_);
    if (!input.ok()) return output_.Fail(input.error());
    // What cannot be written is said before the work and not after it.
    for (const Status& free : {CheckOutputFiles(options_, {}, Traces()), MakeFolder()}) {
      if (!free.ok()) return output_.Fail(free.error());
    }
    if (const Status measured = MeasureMachine(&input.value()); !measured.ok()) {
      return output_.Fail(measured.error());
    }
    Progress progress(StepsOfValidation(input.value()));
    std::vector<std::string> warnings;
    const Result<Validation> done = Validate(input.value(), &progress, &warnings);
    progress.Finish();
    output_.Warn(warnings);
    if (!done.ok()) return output_.Fail(done.error());
    return Report(input.value(), done.value(), warnings);
  }

 private:
  // --profile auto.
  Status MeasureMachine(ValidateInput* input) {
    if (input->measure_s == 0) return Unit{};
    const TrainInput& train = input->train;
    ProfileInput profile_input;
    profile_input.model = train.model;
    profile_input.plans = {{.name = "", .cluster = train.cluster, .plan = train.plan}};
    profile_input.on_gpu = train.backend == BackendKind::kCuda;
    profile_input.deterministic = train.deterministic;
    profile_input.threads = train.threads;
    profile_input.seconds = input->measure_s;
    if (profile_input.on_gpu) profile_input.data = train.data;
    Progress progress(StepsOfMeasurement(profile_input));
    MeasurementNotes notes;
    Result<Profile> profile = MeasureProfile(profile_input, &progress, &notes);
    output_.Warn(notes.warnings);
    if (!profile.ok()) return profile.error();
    if (!input->cluster.has_node()) input->cluster = profile.value().measured_on();
    input->profile = std::move(profile).value();
    return FitToTraining(input);
  }

  // What --save-traces writes: as simulated, as executed.
  std::vector<OutputFile> Traces() const {
    std::vector<OutputFile> traces;
    if (const auto folder = options_.Get("save-traces")) {
      for (const char* name : {"simulated.pb", "executed.pb"}) {
        traces.push_back({"save-traces", (std::filesystem::path(*folder) / name).string()});
      }
    }
    return traces;
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
    for (const OutputFile& file : Traces()) {
      const Status writable = CheckWritable(file.path);
      if (!writable.ok()) return OptionError(file.option, writable.error().message);
    }
    return Unit{};
  }

  ExitCode Report(const ValidateInput& input, const Validation& validation,
                  const std::vector<std::string>& warnings) {
    const bool json_only = options_.Get("json") == "-";
    if (!json_only) {
      output_.out() << HeadText(input, validation) << ComparisonTables(validation.comparison)
                    << SpreadText(validation.spread, validation.comparison)
                    << VerdictText(validation.comparison.verdicts);
    }
    if (const auto path = options_.Get("json")) {
      const std::string text = JsonOf(input, validation, warnings).dump(2) + "\n";
      if (json_only) {
        output_.out() << text;
      } else if (const Status written = WriteTextFile(*path, text); !written.ok()) {
        return output_.Fail(written.error());
      }
    }
    const std::vector<OutputFile> files = Traces();
    for (std::size_t i = 0; i < files.size(); ++i) {
      const Trace& trace = i == 0 ? validation.simulated : validation.executed;
      if (const Status written = WriteTrace(trace, {}, files[i].path); !written.ok()) {
        return output_.Fail(written.error());
      }
    }
    return validation.comparison.ok() ? ExitCode::kDone : ExitCode::kNo;
  }

  const Options& options_;
  const VerbOutput& output_;
};

}  // namespace

ExitCode RunValidateCommand(const std::vector<std::string>& arguments, std::ostream& out,
                            std::ostream& err) {
  const VerbOutput output("validate", out, err);
  return RunVerb(output, ParseValidateOptions(arguments), ValidateHelp,
                 [&](const Options& options) { return Command(options, output).Run(); });
}

}  // namespace twinstep
