#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "sim/str_cat.h"
#include "traces/open_trace.h"

namespace twinstep {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Numbers in names count as numbers.
bool NaturallyBefore(std::string_view a, std::string_view b) {
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (IsDigit(a[i]) && IsDigit(b[j])) {
      const auto number = [](std::string_view text, std::size_t* at) {
        while (*at < text.size() && text[*at] == '0') ++*at;
        const std::size_t begin = *at;
        while (*at < text.size() && IsDigit(text[*at])) ++*at;
        return text.substr(begin, *at - begin);
      };
      const std::string_view x = number(a, &i), y = number(b, &j);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
    }
  }
  return a.size() - i < b.size() - j;
}

bool IsTraceFile(const std::string& name) {
  for (const char* suffix : {".json", ".json.gz", ".et", ".pb", ".pb.gz"}) {
    if (name.ends_with(suffix)) return true;
  }
  return false;
}

Result<std::vector<std::string>> FilesOfFolder(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    // What cannot be looked at (a link to itself) is no file.
    std::error_code unreadable;
    if (at->is_regular_file(unreadable) && IsTraceFile(at->path().filename().string())) {
      files.push_back(at->path().string());
    }
  }
  if (error) return Error{.message = StrCat(folder, ": cannot read: ", error.message())};
  // Beside Chakra's files may lie what describes their groups.
  const auto is_chakra = [](const std::string& file) { return file.ends_with(".et"); };
  if (std::any_of(files.begin(), files.end(), is_chakra)) {
    std::erase_if(files, [&](const std::string& file) { return !is_chakra(file); });
  }
  if (files.empty()) {
    return Error{.message =
                     StrCat(folder, ": no trace in this folder (.json, .json.gz, .et, .pb)")};
  }
  return files;
}

// "step.0.et", "step.1.et" ... for "step" and "step.et".
std::vector<std::string> FilesOfRanks(const std::string& name) {
  constexpr std::string_view kSuffix = ".et";
  const std::filesystem::path whole(
      name.ends_with(kSuffix) ? name.substr(0, name.size() - kSuffix.size()) : name);
  const std::string begin = whole.filename().string() + ".";
  const std::filesystem::path folder = whole.has_parent_path() ? whole.parent_path() : ".";
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    const std::string file = at->path().filename().string();
    if (!file.starts_with(begin) || !file.ends_with(kSuffix)) continue;
    const std::size_t digits = file.size() - kSuffix.size() - begin.size();
    if (file.size() <= begin.size() + kSuffix.size() ||
        !std::all_of(file.begin() + static_cast<std::ptrdiff_t>(begin.size()),
                     file.begin() + static_cast<std::ptrdiff_t>(begin.size() + digits), IsDigit)) {
      continue;
    }
    files.push_back(whole.has_parent_path() ? at->path().string() : file);
  }
  return files;
}

}  // namespace

Result<std::vector<std::string>> FilesOfTrace(const std::string& name) {
  std::vector<std::string> files;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find(',', begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    begin = end + 1;
    if (part.empty()) return Error{.message = StrCat("'", name, "': a name of a trace is empty")};
    std::error_code error;
    if (!std::filesystem::exists(part, error)) {
      const std::vector<std::string> ranks = FilesOfRanks(part);
      if (!ranks.empty()) {
        files.insert(files.end(), ranks.begin(), ranks.end());
        continue;
      }
    }
    // A file is looked at more than once.
    if (std::filesystem::is_fifo(part, error) || std::filesystem::is_socket(part, error)) {
      return Error{.message = StrCat(part,
                                     ": is a pipe, which can be read only once: save it as a "
                                     "file")};
    }
    if (!std::filesystem::is_directory(part, error)) {
      files.push_back(part);
      continue;
    }
    Result<std::vector<std::string>> inside = FilesOfFolder(part);
    if (!inside.ok()) return inside.error();
    files.insert(files.end(), inside.value().begin(), inside.value().end());
  }
  std::stable_sort(files.begin(), files.end(), [](const std::string& a, const std::string& b) {
    return NaturallyBefore(a, b);
  });
  return files;
}

}  // namespace twinstep
