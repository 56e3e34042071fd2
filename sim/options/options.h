// Options of a verb: their names and help, and their values as given on the command line.
//
//   const std::vector<OptionGroup> groups = {{"What to train", {{"model", "NAME|FILE", "..."}}}};
//   Result<Options> options = ParseOptions(groups, "train", arguments);
//   if (options.value().Has("help")) std::cout << OptionsHelp(groups);
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/result.h"

namespace twinstep {

// What a verb does with the file that an option names (sim/options/output_files.h).
enum class FileUse { kNoFile, kRead, kWritten, kFolderMade };

struct OptionSpec {
  const char* name;
  const char* argument;  // Null: a switch. "FILE|-": - is standard output.
  const char* help;
  bool repeats = false;  // May be given several times.
  FileUse file = FileUse::kNoFile;
};

// {"plan", "FILE", "..."} of an option whose value names a file: Reads({"plan", "FILE", "..."}).
OptionSpec Reads(OptionSpec option);
OptionSpec Writes(OptionSpec option);
// Of one whose value names a folder that the verb writes files in, and makes where there is none.
OptionSpec MakesFolder(OptionSpec option);

struct OptionGroup {
  const char* title;
  std::vector<OptionSpec> options;
};

// One option as given: {"tp", "2"}. Switches have an empty value.
struct Option {
  std::string name;
  std::string value;
  FileUse file = FileUse::kNoFile;
  bool operator==(const Option&) const = default;
};

class Options {
 public:
  Options() = default;
  explicit Options(std::vector<Option> given) : given_(std::move(given)) {}

  bool Has(std::string_view name) const { return Get(name).has_value(); }
  // The value of an option that may be given once.
  std::optional<std::string> Get(std::string_view name) const;
  const std::vector<Option>& given() const { return given_; }
  // Without what is at `index` of given().
  Options Without(std::size_t index) const;
  // With another value at `index` of given().
  Options With(std::size_t index, std::string value) const;

 private:
  std::vector<Option> given_;
};

// An Error names the option, and the closest ones if it is unknown.
Result<Options> ParseOptions(const std::vector<OptionGroup>& groups, const std::string& verb,
                             const std::vector<std::string>& arguments);

// The groups as a part of --help.
std::string OptionsHelp(const std::vector<OptionGroup>& groups);

}  // namespace twinstep
