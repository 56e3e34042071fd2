#include "sim/textproto/text_source.h"

#include <charconv>

#include "sim/str_cat.h"

namespace twinstep {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::TextFormat;

struct Found {
  TextFormat::ParseLocation location;  // Line -1: nowhere.
  bool exact = false;                  // The field's own, not that of a message around it.
};

Found Find(const TextFormat::ParseInfoTree* level, const google::protobuf::Descriptor* type,
           std::string_view field_path) {
  Found found;
  while (level != nullptr && type != nullptr && !field_path.empty()) {
    const std::size_t dot = field_path.find('.');
    std::string_view step = field_path.substr(0, dot);
    int index = 0;
    if (const std::size_t bracket = step.find('['); bracket != std::string_view::npos) {
      std::from_chars(step.data() + bracket + 1, step.data() + step.size(), index);
      step = step.substr(0, bracket);
    }
    const FieldDescriptor* field = type->FindFieldByName(std::string(step));
    if (field == nullptr) break;
    if (!field->is_repeated()) index = -1;
    const TextFormat::ParseLocation location = level->GetLocation(field, index);
    if (location.line < 0) break;
    found = {location, dot == std::string_view::npos};
    level = field->message_type() == nullptr ? nullptr : level->GetTreeForNested(field, index);
    type = field->message_type();
    field_path = dot == std::string_view::npos ? "" : field_path.substr(dot + 1);
  }
  return found;
}

}  // namespace

std::string TextSource::Locate(const google::protobuf::Descriptor* type,
                               std::string_view field_path) const {
  const Found own = Find(tree.get(), type, field_path);
  for (const TextSource* at = base.get(); at != nullptr && !own.exact; at = at->base.get()) {
    const Found inherited = Find(at->tree.get(), type, field_path);
    if (!inherited.exact) continue;
    return StrCat(at->name, ":", inherited.location.line + 1, ":", inherited.location.column + 1);
  }
  if (own.location.line < 0) return name;
  return StrCat(name, ":", own.location.line + 1, ":", own.location.column + 1);
}

}  // namespace twinstep
