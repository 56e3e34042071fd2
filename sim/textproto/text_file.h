// Protobuf text files that a person edits: every error names file, line, column and field.
//
//   Result<Plan> plan = ParseTextFile<Plan>("my_plan.textproto");
//   if (!plan.ok()) std::cerr << plan.error().message;
//     my_plan.textproto:3:1: tensr_parallel: no field of Plan (did you mean tensor_parallel?)
//     my_plan.textproto:5:14: micro_batch: Expected integer, got: eight
//
// Errors carry ExitCode::kBadInput; a message of several lines has one problem a line. Bad values
// that a schema cannot know are for ValidateModel, ValidateCluster and ResolvePlan to find.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <string_view>
#include <utility>

#include "sim/result.h"
#include "sim/textproto/text_source.h"

namespace twinstep {

// Larger files are refused: text files are written by hand, profiles have some thousand lines.
inline constexpr std::size_t kMaxTextFileBytes = std::size_t{64} << 20;

// Whole content; Error if there is no such file, or it is a directory, unreadable or too large.
Result<std::string> ReadTextFile(const std::string& path);

// Fills `message` from `text`, which errors call `name`.
Result<TextSource> ParseTextInto(std::string_view text, const std::string& name,
                                 google::protobuf::Message* message);

// Sets in `message` what `text` says, zeros too; the rest stays. For a text that ParseTextInto has
// taken, of a message without lists.
void OverrideByText(std::string_view text, google::protobuf::Message* message);

template <typename Message>
Result<ParsedText<Message>> ParseText(std::string_view text, const std::string& name) {
  ParsedText<Message> parsed;
  Result<TextSource> source = ParseTextInto(text, name, &parsed.message);
  if (!source.ok()) return source.error();
  parsed.source = std::move(source).value();
  return parsed;
}

template <typename Message>
Result<ParsedText<Message>> ParseTextFileWithSource(const std::string& path) {
  const Result<std::string> text = ReadTextFile(path);
  if (!text.ok()) return text.error();
  return ParseText<Message>(text.value(), path);
}

template <typename Message>
Result<Message> ParseTextFile(const std::string& path) {
  Result<ParsedText<Message>> parsed = ParseTextFileWithSource<Message>(path);
  if (!parsed.ok()) return parsed.error();
  return std::move(parsed).value().message;
}

}  // namespace twinstep
