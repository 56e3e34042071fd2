// What a schema cannot say: ranges of numbers and rules between fields, each reported with the
// place where the field was written.
//
//   FieldErrors errors(model, source);
//   errors.CheckEveryNumber();
//   errors.CheckRange("layers", 1, 1e5);
//   if (heads % kv_heads != 0) errors.Add("kv_heads", "3 does not divide the 32 attention_heads");
//   return errors.status();
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <string_view>

#include "sim/result.h"
#include "sim/textproto/text_source.h"

namespace twinstep {

class FieldErrors {
 public:
  // Both must outlive this.
  FieldErrors(const google::protobuf::Message& message, const TextSource& source)
      : message_(message), source_(source) {}

  // Notes `file:line:column: field: problem`.
  void Add(std::string_view field_path, std::string_view problem);

  // Every number in the message, at any depth, is finite and between 0 and 1e24; every enum value
  // is one of the schema.
  void CheckEveryNumber();

  // A numeric field of the schema, not in a list, lies in [least, most].
  void CheckRange(std::string_view field_path, double least, double most);

  // It is 0 (a default, or "none") or lies in [least, most].
  void CheckZeroOrRange(std::string_view field_path, double least, double most);

  bool ok() const { return errors_.empty(); }
  // All problems, one a line, in the order in which they were noted.
  Status status() const;

 private:
  double Number(std::string_view field_path) const;

  const google::protobuf::Message& message_;
  const TextSource& source_;
  std::string errors_;
};

}  // namespace twinstep
