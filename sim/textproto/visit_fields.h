// Walks through the fields of a message that are set, those of messages in it included.
//
//   VisitFields(cluster, [](const FieldPlace& place) {
//     std::cout << place.path << "\n";  // "node.gpu.name", "operators[3].dims[0]"
//     return true;
//   });
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "sim/str_cat.h"

namespace twinstep {

struct FieldPlace {
  const google::protobuf::Message& message;  // That has the field.
  const google::protobuf::FieldDescriptor& field;
  int index;         // Of an element of a repeated field; -1: a singular one.
  std::string path;  // From the message where the walk began.
};

// visit(FieldPlace), in the order of fields' numbers, of everything but messages, until it returns
// false; whether it never did. `prefix` goes before all paths.
template <typename Visit>
bool VisitFields(const google::protobuf::Message& message, const Visit& visit,
                 const std::string& prefix = "") {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const google::protobuf::FieldDescriptor* field : fields) {
    const bool repeated = field->is_repeated();
    const int count = repeated ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const std::string path = prefix + field->name() + (repeated ? StrCat("[", i, "]") : "");
      if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
        if (!visit(FieldPlace{message, *field, repeated ? i : -1, path})) return false;
      } else if (!VisitFields(repeated ? reflection.GetRepeatedMessage(message, field, i)
                                       : reflection.GetMessage(message, field),
                              visit, path + ".")) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace twinstep
