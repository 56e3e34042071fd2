#include "sim/textproto/field_rules.h"

#include <cmath>
#include <vector>

#include "sim/str_cat.h"

namespace twinstep {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr double kLargestNumber = 1e24;

// Element `index` of a repeated field, or a singular field (index -1); 0 where it is no number.
double NumberOf(const Message& message, const FieldDescriptor* field, int index) {
  const Reflection& reflection = *message.GetReflection();
  const bool repeated = index >= 0;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return repeated ? reflection.GetRepeatedInt32(message, field, index)
                      : reflection.GetInt32(message, field);
    case FieldDescriptor::CPPTYPE_UINT32:
      return repeated ? reflection.GetRepeatedUInt32(message, field, index)
                      : reflection.GetUInt32(message, field);
    case FieldDescriptor::CPPTYPE_INT64:
      return static_cast<double>(repeated ? reflection.GetRepeatedInt64(message, field, index)
                                          : reflection.GetInt64(message, field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return static_cast<double>(repeated ? reflection.GetRepeatedUInt64(message, field, index)
                                          : reflection.GetUInt64(message, field));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return repeated ? reflection.GetRepeatedFloat(message, field, index)
                      : reflection.GetFloat(message, field);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return repeated ? reflection.GetRepeatedDouble(message, field, index)
                      : reflection.GetDouble(message, field);
    default:
      return 0;
  }
}

}  // namespace

void FieldErrors::Add(std::string_view field_path, std::string_view problem) {
  if (!errors_.empty()) errors_ += '\n';
  errors_ += StrCat(source_.Locate(message_.GetDescriptor(), field_path), ": ", problem, " (",
                    field_path, ")");
}

void FieldErrors::CheckEveryNumber() { CheckNumbersOf(message_, ""); }

void FieldErrors::CheckNumbersOf(const Message& message, const std::string& prefix) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string path = prefix + field->name();
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const int index = field->is_repeated() ? i : -1;
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        CheckNumbersOf(index < 0 ? reflection.GetMessage(message, field)
                                 : reflection.GetRepeatedMessage(message, field, index),
                       path + ".");
      } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
        const int value = index < 0 ? reflection.GetEnumValue(message, field)
                                    : reflection.GetRepeatedEnumValue(message, field, index);
        if (field->enum_type()->FindValueByNumber(value) == nullptr) {
          Add(path, StrCat(value, " is no value of ", field->enum_type()->name()));
        }
      } else {
        const double value = NumberOf(message, field, index);
        if (!(value >= 0 && value <= kLargestNumber)) {
          Add(path, StrCat(value, " is not between 0 and ", kLargestNumber));
        }
      }
    }
  }
}

void FieldErrors::CheckRange(std::string_view field_path, double least, double most) {
  const Message* message = &message_;
  std::string_view rest = field_path;
  for (;;) {
    const std::size_t dot = rest.find('.');
    const FieldDescriptor* field =
        message->GetDescriptor()->FindFieldByName(std::string(rest.substr(0, dot)));
    if (dot != std::string_view::npos) {
      message = &message->GetReflection()->GetMessage(*message, field);
      rest.remove_prefix(dot + 1);
      continue;
    }
    const double value = NumberOf(*message, field, -1);
    if (!(value >= least && value <= most)) {
      std::string problem = StrCat(value, " is not between ", least, " and ", most);
      if (value == 0) problem = StrCat("is missing or 0, not between ", least, " and ", most);
      Add(field_path, problem);
    }
    return;
  }
}

Status FieldErrors::status() const {
  if (errors_.empty()) return Unit{};
  return Error{.message = errors_};
}

}  // namespace twinstep
