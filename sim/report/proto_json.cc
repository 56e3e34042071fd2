#include "sim/report/proto_json.h"

#include <google/protobuf/descriptor.h>

#include <vector>

namespace twinstep {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using nlohmann::ordered_json;

// A singular field, or element `index` of a repeated one.
ordered_json Value(const Message& message, const FieldDescriptor& field, int index) {
  const google::protobuf::Reflection& get = *message.GetReflection();
  const bool list = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return list ? get.GetRepeatedInt32(message, &field, index) : get.GetInt32(message, &field);
    case FieldDescriptor::CPPTYPE_INT64:
      return list ? get.GetRepeatedInt64(message, &field, index) : get.GetInt64(message, &field);
    case FieldDescriptor::CPPTYPE_UINT32:
      return list ? get.GetRepeatedUInt32(message, &field, index) : get.GetUInt32(message, &field);
    case FieldDescriptor::CPPTYPE_UINT64:
      return list ? get.GetRepeatedUInt64(message, &field, index) : get.GetUInt64(message, &field);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return list ? get.GetRepeatedDouble(message, &field, index) : get.GetDouble(message, &field);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return list ? get.GetRepeatedFloat(message, &field, index) : get.GetFloat(message, &field);
    case FieldDescriptor::CPPTYPE_BOOL:
      return list ? get.GetRepeatedBool(message, &field, index) : get.GetBool(message, &field);
    case FieldDescriptor::CPPTYPE_ENUM:
      return (list ? get.GetRepeatedEnum(message, &field, index) : get.GetEnum(message, &field))
          ->name();
    case FieldDescriptor::CPPTYPE_STRING:
      return list ? get.GetRepeatedString(message, &field, index) : get.GetString(message, &field);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ToJson(list ? get.GetRepeatedMessage(message, &field, index)
                         : get.GetMessage(message, &field));
  }
  return nullptr;
}

}  // namespace

ordered_json ToJson(const Message& message) {
  ordered_json json = ordered_json::object();
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    ordered_json& value = json[field->name()];
    if (!field->is_repeated()) {
      value = Value(message, *field, -1);
      continue;
    }
    value = ordered_json::array();
    for (int i = 0; i < message.GetReflection()->FieldSize(message, field); ++i) {
      value.push_back(Value(message, *field, i));
    }
  }
  return json;
}

}  // namespace twinstep
