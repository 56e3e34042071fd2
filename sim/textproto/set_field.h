// `--set FIELD=VALUE`: changes one field of a message by its path as in the file.
//
//   SetField(&cluster, "node.pcie.h2d_bytes_per_s", "128e9");
//   SetField(&cluster, "gpu.memory_bytes", "65000MiB");
//   SetField(&model, "recipe.precision", "fp16");
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <string_view>
#include <vector>

#include "sim/result.h"

namespace twinstep {

// Sets a number (with the suffixes of quantity.h), bool (true/false, 1/0), enum (by name, in any
// case) or string. An unknown path is an Error that lists the fields there and the closest name;
// a message or list as a whole cannot be set. `message` is unchanged on error. Ranges are not
// checked: validate the message afterwards.
Status SetField(google::protobuf::Message* message, std::string_view path, std::string_view value);

// Whether a path names a field of the type that SetField can set.
bool HasSettableField(const google::protobuf::Descriptor& type, std::string_view path);

struct NamedMessage {
  std::string name;  // "model"
  google::protobuf::Message* message;
};

// Sets the field in the one message that has it. A path may start with a message's name
// ("model.name"), and must where several have it.
Status SetFieldOfOne(const std::vector<NamedMessage>& messages, std::string_view path,
                     std::string_view value);

// An argument of --set. Several values are a sweep.
struct FieldValues {
  std::string path;
  std::vector<std::string> values;  // At least one.
};

// "a.b=1,2,3" -> {"a.b", {"1", "2", "3"}}.
Result<FieldValues> ParseFieldValues(std::string_view argument);

}  // namespace twinstep
