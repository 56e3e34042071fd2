#include "exec/profile/profile_command.h"

#include <chrono>
#include <span>
#include <utility>

#include "exec/profile/build_profile.h"
#include "exec/profile/measure_profile.h"
#include "exec/profile/profile_input.h"
#include "exec/profile/profile_options.h"
#include "exec/profile/statistics.h"
#include "exec/runtime/atomic_file.h"
#include "sim/format.h"
#include "sim/report/progress.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

// A quiet machine stays well below.
constexpr double kQuietSpread = 0.2;

class Command {
 public:
  Command(const Options& options, std::ostream& out, std::ostream& err)
      : options_(options), out_(out), err_(err) {}

  ExitCode Run() {
    if (options_.Has("help")) {
      out_ << ProfileHelp();
      return ExitCode::kDone;
    }
    const Result<ProfileInput> input = ReadProfileInput(options_);
    if (!input.ok()) return Fail(input.error());
    for (const PlanToMeasure& plan : input.value().plans) {
      for (const std::string& warning : plan.plan.warnings) Warn(warning);
    }
    const Status done = Measure(input.value());
    return done.ok() ? ExitCode::kDone : Fail(done.error());
  }

 private:
  ExitCode Fail(const Error& error) {
    err_ << "twinstep profile: " << error.message << "\n";
    return error.code;
  }
  void Warn(const std::string& warning) {
    err_ << "twinstep profile: warning: " << warning << "\n";
  }

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
    std::vector<std::string> warnings;
    const Result<Profile> measured = MeasureProfile(input, &progress, &warnings);
    progress.Finish();
    for (const std::string& warning : warnings) Warn(warning);
    if (!measured.ok()) return measured.error();
    Profile profile = input.earlier.value_or(Profile());
    if (input.earlier.has_value()) {
      const Status merged = MergeProfile(measured.value(), &profile);
      if (!merged.ok()) return merged;
    } else {
      profile = measured.value();
    }
    const std::string text = ProfileText(profile);
    const Status written = file.value().Append(std::as_bytes(std::span(text)));
    if (!written.ok()) return written;
    const Status committed = file.value().Commit();
    if (!committed.ok()) return committed;
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    Report(input, measured.value(), elapsed.count());
    return Unit{};
  }

  void Report(const ProfileInput& input, const Profile& measured, double elapsed_s) {
    out_ << measured.operators_size() << " operators, " << measured.copies_size() << " copies, "
         << measured.collectives_size() << " collectives and messages of "
         << CountOf(static_cast<std::int64_t>(input.plans.size()), "plan") << " in "
         << Seconds(elapsed_s) << ": " << input.output << "\n";
    const Spread spread = SpreadOf(measured);
    out_ << "spread of the samples, quartile to quartile: " << Percent(spread.median)
         << " of the time in the middle, " << Percent(spread.largest) << " at most (" << spread.at
         << ")\n";
    if (spread.median > kQuietSpread) {
      Warn("other work on this machine has disturbed the measurement");
    }
  }

  const Options& options_;
  std::ostream& out_;
  std::ostream& err_;
};

}  // namespace

ExitCode RunProfileCommand(const std::vector<std::string>& arguments, std::ostream& out,
                           std::ostream& err) {
  const Result<Options> options = ParseProfileOptions(arguments);
  if (!options.ok()) {
    err << "twinstep profile: " << options.error().message << "\n";
    return options.error().code;
  }
  return Command(options.value(), out, err).Run();
}

}  // namespace twinstep
