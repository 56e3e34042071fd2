// Text files that the binary carries, found by name; any other file by its path.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/result.h"

namespace twinstep {

struct NamedText {
  std::string_view name;  // File name without ".textproto".
  std::string_view text;
};

struct FoundText {
  std::string source;  // The path, or "NAME.textproto" of an embedded file: what errors call it.
  std::string text;
  bool is_embedded = false;
};

// An embedded text of that name (in any case), else the file at that path. Neither is an Error with
// the closest names; `kind` ("model") says in it what was looked for.
Result<FoundText> FindText(const std::vector<NamedText>& embedded, std::string_view kind,
                           const std::string& name_or_path);

// What a file names: a name of the binary's, else a path seen from the file's folder.
std::string SeenFrom(const std::string& file, const std::string& name_or_path);

}  // namespace twinstep
