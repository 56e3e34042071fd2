// What all verbs do alike: parse, help, messages under the verb's name, exit code.
//
//   ExitCode RunTrainCommand(const std::vector<std::string>& arguments, std::ostream& out,
//                            std::ostream& err) {
//     const VerbOutput output("train", out, err);
//     return RunVerb(output, ParseTrainOptions(arguments), TrainHelp,
//                    [&](const Options& options) { return Command(options, output).Run(); });
//   }
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "sim/options/options.h"
#include "sim/result.h"

namespace twinstep {

// Where a verb writes: answers to `out`, messages to `err`, each a line after "twinstep VERB: ".
class VerbOutput {
 public:
  VerbOutput(std::string verb, std::ostream& out, std::ostream& err)
      : verb_(std::move(verb)), out_(out), err_(err) {}

  std::ostream& out() const { return out_; }
  void Say(const std::string& message) const;
  void Warn(const std::string& warning) const;
  void Warn(const std::vector<std::string>& warnings) const;
  // Says the error and returns its code.
  ExitCode Fail(const Error& error) const;

 private:
  const std::string verb_;
  std::ostream& out_;
  std::ostream& err_;
};

// Whether this process writes the files that options name, or possibly another one of the same run,
// which then sees for itself that it can.
enum class Writer { kThis, kPerhapsAnother };

// Says what is wrong with the options, or writes `help` if --help is among them, or runs. Outputs
// that would replace an input or each other (sim/options/output_files.h) are errors before anything
// runs, and so are those that cannot be written.
ExitCode RunVerb(const VerbOutput& output, const Result<Options>& options,
                 const std::function<std::string()>& help,
                 const std::function<ExitCode(const Options&)>& run, Writer writer = Writer::kThis);

}  // namespace twinstep
