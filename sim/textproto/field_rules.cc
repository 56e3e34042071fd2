#include "sim/textproto/field_rules.h"

#include <google/protobuf/stubs/logging.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "sim/str_cat.h"
#include "sim/textproto/visit_fields.h"

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

// Integers as they were written, with all digits; round ones beyond a thousand million and
// fractions short: "1e+24".
std::string NumberText(double value) {
  const bool is_round = std::abs(value) >= 1e9 && std::fmod(value, 1e6) == 0;
  if (value == std::floor(value) && std::abs(value) < 0x1p53 && !is_round) {
    return StrCat(static_cast<std::int64_t>(value));
  }
  return StrCat(value);
}

// What is wrong with a number or enum value; empty where nothing is.
std::string NumberProblem(const FieldPlace& place) {
  const auto& [message, field, index, path] = place;
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
    const Reflection& reflection = *message.GetReflection();
    const int value = index < 0 ? reflection.GetEnumValue(message, &field)
                                : reflection.GetRepeatedEnumValue(message, &field, index);
    if (field.enum_type()->FindValueByNumber(value) != nullptr) return "";
    return StrCat(value, " is no value of ", field.enum_type()->name());
  }
  const double value = NumberOf(message, &field, index);
  if (value >= 0 && value <= kLargestNumber) return "";
  return StrCat(NumberText(value), " is not between 0 and ", kLargestNumber);
}

}  // namespace

void FieldErrors::Add(std::string_view field_path, std::string_view problem) {
  if (!errors_.empty()) errors_ += '\n';
  errors_ +=
      StrCat(source_.Locate(message_.GetDescriptor(), field_path), ": ", field_path, ": ", problem);
}

void FieldErrors::CheckEveryNumber() {
  VisitFields(message_, [this](const FieldPlace& place) {
    if (const std::string problem = NumberProblem(place); !problem.empty()) {
      Add(place.path, problem);
    }
    return true;
  });
}

double FieldErrors::Number(std::string_view field_path) const {
  const Message* message = &message_;
  for (std::string_view rest = field_path;;) {
    const std::size_t dot = rest.find('.');
    const FieldDescriptor* field =
        message->GetDescriptor()->FindFieldByName(std::string(rest.substr(0, dot)));
    GOOGLE_CHECK(field != nullptr) << "no field " << field_path;  // A rule of ours is misspelt.
    if (dot == std::string_view::npos) return NumberOf(*message, field, -1);
    message = &message->GetReflection()->GetMessage(*message, field);
    rest.remove_prefix(dot + 1);
  }
}

void FieldErrors::CheckRange(std::string_view field_path, double least, double most) {
  const double value = Number(field_path);
  if (value >= least && value <= most) return;
  const std::string what = value == 0 ? "is missing or 0" : StrCat(NumberText(value), " is");
  Add(field_path, StrCat(what, value == 0 ? ", not between " : " not between ", NumberText(least),
                         " and ", NumberText(most)));
}

void FieldErrors::CheckZeroOrRange(std::string_view field_path, double least, double most) {
  if (Number(field_path) != 0) CheckRange(field_path, least, most);
}

Status FieldErrors::status() const {
  if (errors_.empty()) return Unit{};
  return Error{.message = errors_};
}

}  // namespace twinstep
