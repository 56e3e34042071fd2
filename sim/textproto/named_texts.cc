#include "sim/textproto/named_texts.h"

#include <filesystem>

#include "sim/str_cat.h"
#include "sim/textproto/closest_name.h"
#include "sim/textproto/text_file.h"

namespace twinstep {

Result<FoundText> FindText(const std::vector<NamedText>& embedded, std::string_view kind,
                           const std::string& name_or_path) {
  std::vector<std::string> names;
  for (const NamedText& candidate : embedded) {
    // Sizes first: a path may be long. The distance takes upper and lower case as equal.
    if (candidate.name.size() == name_or_path.size() &&
        EditDistance(candidate.name, name_or_path) == 0) {
      return FoundText{StrCat(candidate.name, ".textproto"), std::string(candidate.text),
                       /*is_embedded=*/true};
    }
    names.emplace_back(candidate.name);
  }
  std::error_code ignored;
  const bool looks_like_path = name_or_path.find('/') != std::string::npos ||
                               name_or_path.ends_with(".textproto") ||
                               std::filesystem::exists(name_or_path, ignored);
  if (!looks_like_path) {
    return Error{.message = StrCat("no ", kind, " '", name_or_path.substr(0, 100), "'",
                                   DidYouMean(name_or_path, names), "; `twinstep list ", kind,
                                   "s` lists them, and a path to a file works too")};
  }
  Result<std::string> text = ReadTextFile(name_or_path);
  if (!text.ok()) return text.error();
  return FoundText{name_or_path, std::move(text).value()};
}

std::string SeenFrom(const std::string& file, const std::string& name_or_path) {
  const bool is_path =
      name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".textproto");
  if (!is_path) return name_or_path;
  return (std::filesystem::path(file).parent_path() / name_or_path).lexically_normal().string();
}

}  // namespace twinstep
