#include "sim/options/run_verb.h"

#include "sim/options/output_files.h"
#include "sim/printable.h"

namespace twinstep {

void VerbOutput::Say(const std::string& message) const {
  err_ << "twinstep " << verb_ << ": " << Printable(message) << "\n";
}

void VerbOutput::Warn(const std::string& warning) const { Say("warning: " + warning); }

void VerbOutput::Warn(const std::vector<std::string>& warnings) const {
  for (const std::string& warning : warnings) Warn(warning);
}

ExitCode VerbOutput::Fail(const Error& error) const {
  Say(error.message);
  return error.code;
}

ExitCode RunVerb(const VerbOutput& output, const Result<Options>& options,
                 const std::function<std::string()>& help,
                 const std::function<ExitCode(const Options&)>& run, Writer writer) {
  if (!options.ok()) return output.Fail(options.error());
  if (options.value().Has("help")) {
    output.out() << help();
    return ExitCode::kDone;
  }
  const Status distinct = CheckOutputFiles(options.value());
  if (!distinct.ok()) return output.Fail(distinct.error());
  if (writer == Writer::kThis) {
    const Status writable = CheckOutputsWritable(options.value());
    if (!writable.ok()) return output.Fail(writable.error());
  }
  return run(options.value());
}

}  // namespace twinstep
