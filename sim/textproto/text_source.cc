#include "sim/textproto/text_source.h"

#include <charconv>

#include "sim/str_cat.h"

namespace twinstep {

std::string TextSource::Locate(const google::protobuf::Descriptor* type,
                               std::string_view field_path) const {
  using google::protobuf::FieldDescriptor;
  using google::protobuf::TextFormat;
  TextFormat::ParseLocation found;  // Line -1: nowhere.
  const TextFormat::ParseInfoTree* level = tree.get();
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
    found = location;
    level = field->message_type() == nullptr ? nullptr : level->GetTreeForNested(field, index);
    type = field->message_type();
    field_path = dot == std::string_view::npos ? "" : field_path.substr(dot + 1);
  }
  if (found.line < 0) return name;
  return StrCat(name, ":", found.line + 1, ":", found.column + 1);
}

}  // namespace twinstep
