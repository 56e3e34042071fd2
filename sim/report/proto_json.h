// Messages as JSON: numbers as numbers (protobuf's own printer writes 64-bit integers as strings),
// enumerators by name, fields in the order and under the names of the schema.
#pragma once

#include <google/protobuf/message.h>

#include <nlohmann/json.hpp>

namespace twinstep {

// Fields that are not set (or zero, where the schema has no presence) are left out.
nlohmann::ordered_json ToJson(const google::protobuf::Message& message);

}  // namespace twinstep
