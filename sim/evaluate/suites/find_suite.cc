#include "sim/evaluate/suites/find_suite.h"

#include "sim/evaluate/suites/validate_suite.h"
#include "sim/textproto/named_texts.h"
#include "sim/textproto/text_file.h"

namespace twinstep {

const std::vector<NamedText>& EmbeddedSuites();  // Generated from *.textproto.

std::vector<std::string> ListSuites() {
  std::vector<std::string> names;
  for (const NamedText& suite : EmbeddedSuites()) names.emplace_back(suite.name);
  return names;
}

Result<Suite> FindSuite(const std::string& name_or_path) {
  const Result<FoundText> found = FindText(EmbeddedSuites(), "suite", name_or_path);
  if (!found.ok()) return found.error();
  Result<ParsedText<Suite>> parsed = ParseText<Suite>(found.value().text, found.value().source);
  if (!parsed.ok()) return parsed.error();
  const Status valid = ValidateSuite(parsed.value().message, parsed.value().source);
  if (!valid.ok()) return valid.error();
  return std::move(parsed).value().message;
}

}  // namespace twinstep
