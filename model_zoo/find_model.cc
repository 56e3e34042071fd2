#include "model_zoo/find_model.h"

#include "model_zoo/validate_model.h"
#include "sim/textproto/named_texts.h"
#include "sim/textproto/text_file.h"

namespace twinstep {

const std::vector<NamedText>& EmbeddedModels();  // Generated from model_zoo/*.textproto.

std::vector<std::string> ListModels() {
  std::vector<std::string> names;
  for (const NamedText& model : EmbeddedModels()) names.emplace_back(model.name);
  return names;
}

Result<ParsedText<Model>> ReadModel(const std::string& name_or_path) {
  const Result<FoundText> found = FindText(EmbeddedModels(), "model", name_or_path);
  if (!found.ok()) return found.error();
  return ParseText<Model>(found.value().text, found.value().source);
}

Result<Model> FindModel(const std::string& name_or_path) {
  Result<ParsedText<Model>> parsed = ReadModel(name_or_path);
  if (!parsed.ok()) return parsed.error();
  const Status valid = ValidateModel(parsed.value().message, parsed.value().source);
  if (!valid.ok()) return valid.error();
  return std::move(parsed).value().message;
}

}  // namespace twinstep
