#include "sim/options/output_files.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "sim/options/read_option.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

bool AreOneFile(const std::string& a, const std::string& b) {
  std::error_code error;
  if (std::filesystem::exists(a, error) && std::filesystem::exists(b, error)) {
    return std::filesystem::equivalent(a, b, error);
  }
  return std::filesystem::weakly_canonical(a, error) == std::filesystem::weakly_canonical(b, error);
}

// What can be overwritten.
bool IsFile(const std::string& path) {
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  return path != "-" && (type == std::filesystem::file_type::regular ||
                         type == std::filesystem::file_type::not_found);
}

}  // namespace

Status CheckOutputFiles(const std::vector<std::string>& inputs, const Options& options,
                        const std::vector<std::string>& names) {
  std::vector<std::pair<std::string, std::string>> outputs;
  for (const std::string& name : names) {
    const auto path = options.Get(name);
    if (!path || !IsFile(*path)) continue;
    for (const std::string& input : inputs) {
      if (AreOneFile(input, *path)) {
        return OptionError(name, StrCat(*path, " is what is read, it would be overwritten"));
      }
    }
    for (const auto& [other, other_path] : outputs) {
      if (AreOneFile(other_path, *path)) {
        return OptionError(name, StrCat(*path, " is the file of --", other, ", too"));
      }
    }
    outputs.emplace_back(name, *path);
  }
  return Unit{};
}

}  // namespace twinstep
