#include "exec/profile/profile_command.h"

#include <chrono>
#include <span>
#include <utility>

#include "exec/profile/build_profile.h"
#include "exec/profile/measure_profile.h"
#include "exec/profile/phase_times.h"
#include "exec/profile/profile_input.h"
#include "exec/profile/profile_options.h"
#include "exec/profile/statistics.h"
#include "hw_specs/validate_profile.h"
#include "sim/files/atomic_file.h"
#include "sim/format.h"
#include "sim/options/run_verb.h"
#include "sim/report/progress.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

// A quiet machine stays well below.
constexpr double kQuietSpread = 0.2;

class Command {
 public:
  Command(const Options& options, const VerbOutput& output) : options_(options), output_(output) {}

  ExitCode Run() {
    const Result<ProfileInput> input = ReadProfileInput(options_);
    if (!input.ok()) return output_.Fail(input.error());
    for (const PlanToMeasure& plan : input.value().plans) {
      output_.Warn(plan.plan.warnings);
    }
    const Status done = Measure(input.value());
    return done.ok() ? ExitCode::kDone : output_.Fail(done.error());
  }

 private:
  Status Measure(const ProfileInput& input) {
    const auto begin = std::chrono::steady_clock::now();
    // What cannot be written or appended to is said before the work.
    if (input.earlier.has_value()) {
      const Status same = CheckSameProvenance(*input.earlier, ProvenanceOf(input));
      if (!same.ok()) {
        return Error{.message = StrCat(input.earlier_file, ": ", same.error().message)};
      }
    }
    Result<AtomicFile> file = AtomicFile::Create(input.output);
    if (!file.ok()) return file.error();
    Progress progress(StepsOfMeasurement(input));
    MeasurementNotes notes;
    const Result<Profile> measured = MeasureProfile(input, &progress, &notes);
    progress.Finish();
    output_.Warn(notes.warnings);
    if (!measured.ok()) return measured.error();
    Profile profile = input.earlier.value_or(Profile());
    if (input.earlier.has_value()) {
      const Status merged = MergeProfile(measured.value(), &profile);
      if (!merged.ok()) return merged;
    } else {
      profile = measured.value();
    }
    // Other work can make times so odd that no reader would take them.
    for (const Status& usable :
         {ValidateProfile(profile, {.name = input.output, .tree = nullptr}),
          ValidateMeasuredOn(profile, {.name = input.output, .tree = nullptr})}) {
      if (usable.ok()) continue;
      return Error{.message =
                       StrCat("the measurement was disturbed, and nothing is written; ",
                              "measure again where nothing else runs: ", usable.error().message)};
    }
    const std::string text = ProfileText(profile);
    const Status written = file.value().Append(std::as_bytes(std::span(text)));
    if (!written.ok()) return written;
    const Status committed = file.value().Commit();
    if (!committed.ok()) return committed;
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    Report(input, measured.value(), elapsed.count());
    output_.out() << PhaseTable(notes.times.phases());
    return Unit{};
  }

  void Report(const ProfileInput& input, const Profile& measured, double elapsed_s) {
    output_.out() << measured.operators_size() << " operators, " << measured.copies_size()
                  << " copies, " << measured.collectives_size() << " collectives and messages of "
                  << CountOf(static_cast<std::int64_t>(input.plans.size()), "plan") << " in "
                  << Seconds(elapsed_s) << ": " << input.output << "\n";
    const Spread spread = SpreadOf(measured);
    output_.out() << "spread of the samples, quartile to quartile: " << Percent(spread.median)
                  << " of the time in the middle,\n  " << Percent(spread.largest) << " at most ("
                  << spread.at << ")\n";
    if (spread.median > kQuietSpread) {
      output_.Warn("other work on this machine has disturbed the measurement");
    }
  }

  const Options& options_;
  const VerbOutput& output_;
};

}  // namespace

ExitCode RunProfileCommand(const std::vector<std::string>& arguments, std::ostream& out,
                           std::ostream& err) {
  const VerbOutput output("profile", out, err);
  return RunVerb(output, ParseProfileOptions(arguments), ProfileHelp,
                 [&](const Options& options) { return Command(options, output).Run(); });
}

}  // namespace twinstep
