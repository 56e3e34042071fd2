// Where the fields of a message were written, for errors found after parsing.
//
//   source.Locate(Model::descriptor(), "recipe.clip_norm")  ->  "my.textproto:7:3"
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>

#include <memory>
#include <string>
#include <string_view>

namespace twinstep {

struct TextSource {
  // What was read: a path, or a description such as "model 'llama-65b'" where there was no file.
  std::string name;
  // Null if the message was not parsed from text, or was changed since.
  std::shared_ptr<const google::protobuf::TextFormat::ParseInfoTree> tree;
  // The text that this one builds on, which has what is not written here; null: none.
  std::shared_ptr<const TextSource> base = {};

  // "name:line:column" of a field ("operators[2].median_s" in a list), counted from 1; of the
  // innermost enclosing message that was written here if the field itself was not, here or in a
  // base; the bare name if there is no such place.
  std::string Locate(const google::protobuf::Descriptor* type, std::string_view field_path) const;
};

template <typename Message>
struct ParsedText {
  Message message;
  TextSource source;
};

}  // namespace twinstep
