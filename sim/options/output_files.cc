#include "sim/options/output_files.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "sim/files/atomic_file.h"
#include "sim/options/read_option.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

// What can be overwritten.
bool IsFile(const std::string& path) { return path != "-" && !IsStream(path); }

bool AreOneFile(const std::string& a, const std::string& b) {
  std::error_code error;
  if (std::filesystem::exists(a, error) && std::filesystem::exists(b, error)) {
    return std::filesystem::equivalent(a, b, error);
  }
  return WrittenPath(a) == WrittenPath(b);
}

// Inputs may be names of what is built in, too.
bool IsInput(const std::string& input, const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(input, error) && AreOneFile(input, path);
}

// A folder is no file, nor is one that it lies in.
bool IsOrHolds(const std::string& path, const std::string& folder) {
  const std::filesystem::path outer = WrittenPath(path), inner = WrittenPath(folder);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

std::vector<OutputFile> OutputsOf(const Options& options) {
  std::vector<OutputFile> outputs;
  for (const Option& option : options.given()) {
    if (option.file != FileUse::kWritten || !IsFile(option.value)) continue;
    outputs.push_back({option.name, option.value});
  }
  return outputs;
}

}  // namespace

Status CheckOutputFiles(const Options& options, const std::vector<std::string>& inputs,
                        const std::vector<OutputFile>& more_outputs) {
  std::vector<OutputFile> outputs = OutputsOf(options);
  const std::size_t of_options = outputs.size();
  outputs.insert(outputs.end(), more_outputs.begin(), more_outputs.end());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto& [name, path] = outputs[i];
    for (const std::string& input : inputs) {
      if (!IsInput(input, path)) continue;
      return OptionError(name, StrCat(path, " is what is read, and would be overwritten"));
    }
    for (const Option& option : options.given()) {
      if (option.file == FileUse::kFolderMade && i < of_options && IsOrHolds(path, option.value)) {
        return OptionError(name, StrCat(path, " is a folder of --", option.name, ", and no file"));
      }
      if (option.file != FileUse::kRead || !IsInput(option.value, path)) continue;
      return OptionError(
          name, StrCat(path, " is what --", option.name, " reads, and would be overwritten"));
    }
    for (std::size_t j = 0; j < std::min(i, of_options); ++j) {
      if (outputs[j].option == name || !AreOneFile(outputs[j].path, path)) continue;
      return OptionError(name, StrCat(path, " is the file of --", outputs[j].option, ", too"));
    }
  }
  return Unit{};
}

Status CheckOutputsWritable(const Options& options) {
  for (const OutputFile& output : OutputsOf(options)) {
    const Status writable = CheckWritable(output.path);
    if (!writable.ok()) return OptionError(output.option, writable.error().message);
  }
  return Unit{};
}

}  // namespace twinstep
