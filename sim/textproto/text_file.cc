#include "sim/textproto/text_file.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include "sim/str_cat.h"
#include "sim/textproto/closest_name.h"
#include "sim/textproto/field_scanner.h"
#include "sim/textproto/visit_fields.h"

namespace twinstep {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::TextFormat;

constexpr int kMaxNesting = 64;
constexpr std::size_t kMaxErrors = 20;
constexpr std::size_t kLongestShown = 200;
constexpr std::string_view kUnknownEnumeration = "Unknown enumeration value of \"";

struct Problem {
  std::size_t line, column;  // 0-based.
  std::string message;
};

// The parser stops at its first problem; what a tokenizer reports before that is kept too.
class FirstProblem : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (problem_) return;
    problem_ = Problem{static_cast<std::size_t>(std::max(line, 0)),
                       static_cast<std::size_t>(std::max(column, 0)), message};
  }
  const std::optional<Problem>& problem() const { return problem_; }

 private:
  std::optional<Problem> problem_;
};

std::string Shown(std::string text) {
  if (text.size() > kLongestShown) text = text.substr(0, kLongestShown) + "...";
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || static_cast<unsigned char>(c) >= 0x7f) c = '?';
  }
  return text;
}

// Overwrites a one-line field that the parser refused with blanks, so that it finds the next
// problem; false where what follows could be a consequence of this one.
bool BlankField(const FieldAt& field, const Problem& problem, std::string* text) {
  if (field.path.empty() || field.line != problem.line) return false;
  const std::size_t end = std::min(text->find('\n', field.begin), text->size());
  const std::string_view line = std::string_view(*text).substr(field.begin, end - field.begin);
  if (line.find_first_of("{}<>\"';,") != std::string_view::npos) return false;
  std::fill(text->begin() + static_cast<std::ptrdiff_t>(field.begin),
            text->begin() + static_cast<std::ptrdiff_t>(end), ' ');
  return true;
}

// The parser reports a bad enum or bool value where the next token stands: moves back to the value,
// which its message quotes.
void PointAtValue(std::string_view text, Problem* problem) {
  const std::string_view message = problem->message;
  std::size_t quote = std::string_view::npos;
  if (message.starts_with(kUnknownEnumeration)) {
    quote = message.find('"');
  } else if (message.starts_with("Invalid value for boolean field ")) {
    quote = message.rfind('"', message.rfind('"') - 1);
  }
  if (quote == std::string_view::npos) return;
  const std::string_view value =
      message.substr(quote + 1, message.find('"', quote + 1) - quote - 1);
  const std::size_t at = text.rfind(value, OffsetOf(text, problem->line, problem->column));
  if (at == std::string_view::npos) return;
  problem->line = static_cast<std::size_t>(std::ranges::count(text.substr(0, at), '\n'));
  // Column in the tokenizer's count, tabs expanded.
  const std::size_t newline = text.substr(0, at).rfind('\n');
  problem->column = ColumnOf(text, newline == std::string_view::npos ? 0 : newline + 1, at);
}

std::vector<std::string> FieldNames(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  return names;
}

// The field of a path such as "node.nic.count"; null where there is none.
const FieldDescriptor* FieldAtPath(const Descriptor* type, std::string_view path) {
  for (;;) {
    const std::size_t dot = path.find('.');
    const FieldDescriptor* field = type->FindFieldByName(std::string(path.substr(0, dot)));
    if (field == nullptr || dot == std::string_view::npos) return field;
    type = field->message_type();
    if (type == nullptr) return nullptr;
    path.remove_prefix(dot + 1);
  }
}

// "RECOMPUTE_NONE, RECOMPUTE_FULL".
std::string ValuesOf(const EnumDescriptor& type) {
  std::string text;
  for (int i = 0; i < type.value_count(); ++i) text += (i == 0 ? "" : ", ") + type.value(i)->name();
  return text;
}

std::string Describe(const std::string& name, const Descriptor& outermost, const Problem& problem,
                     const FieldAt& field) {
  constexpr std::string_view kUnknown = "\" has no field named";
  std::size_t line = problem.line, column = problem.column;
  std::string message = Shown(problem.message);
  if (const std::size_t at = message.find(kUnknown);
      at != std::string::npos && !field.path.empty()) {
    // The parser points behind the name, and names the message by its full name.
    line = field.line;
    column = field.column;
    const std::string type = message.substr(0, at);
    const std::string full_name = type.substr(type.find('"') + 1);
    message = StrCat("no field of ", full_name.substr(full_name.rfind('.') + 1));
    const Descriptor* known = outermost.file()->pool()->FindMessageTypeByName(full_name);
    if (known != nullptr) {
      message += DidYouMean(field.path.substr(field.path.rfind('.') + 1), FieldNames(*known));
    }
  } else if (const FieldDescriptor* value = FieldAtPath(&outermost, field.path);
             value != nullptr && value->enum_type() != nullptr &&
             message.starts_with(kUnknownEnumeration)) {
    const std::size_t begin = kUnknownEnumeration.size();
    message = StrCat("'", message.substr(begin, message.find('"', begin) - begin), "' is none of ",
                     ValuesOf(*value->enum_type()));
  }
  std::string text = StrCat(name, ":", line + 1, ":", column + 1, ": ");
  if (!field.path.empty()) text += StrCat(Shown(field.path), ": ");
  return text + message;
}

bool IsUtf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at]);
    const std::size_t more = lead < 0x80 ? 0 : lead >> 5 == 6 ? 1 : lead >> 4 == 14 ? 2 : 3;
    if (lead >= 0x80 && (lead < 0xc2 || lead > 0xf4)) return false;
    if (more >= text.size() - at) return false;
    for (std::size_t i = 1; i <= more; ++i) {
      if (static_cast<unsigned char>(text[at + i]) >> 6 != 2) return false;
    }
    // Overlong forms, surrogates, beyond U+10FFFF.
    const auto next = more > 0 ? static_cast<unsigned char>(text[at + 1]) : 0;
    if ((lead == 0xe0 && next < 0xa0) || (lead == 0xed && next > 0x9f) ||
        (lead == 0xf0 && next < 0x90) || (lead == 0xf4 && next > 0x8f)) {
      return false;
    }
    at += more + 1;
  }
  return true;
}

// Escapes such as "\xff" can put bytes in a string that no JSON report may hold. Returns the path
// of the first such field.
std::optional<std::string> FindBadString(const Message& message) {
  std::optional<std::string> bad;
  VisitFields(message, [&bad](const FieldPlace& place) {
    const auto& [of, field, index, path] = place;
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_STRING) return true;
    const Reflection& reflection = *of.GetReflection();
    const std::string text = index < 0 ? reflection.GetString(of, &field)
                                       : reflection.GetRepeatedString(of, &field, index);
    if (!IsUtf8(text)) bad = path;
    return !bad.has_value();
  });
  return bad;
}

}  // namespace

Result<std::string> ReadTextFile(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    // A text with a NUL or of a thousand letters is no path; the system says so.
    return Error{.message = StrCat(Shown(path), ": ",
                                   error ? error.message() : "No such file or directory")};
  }
  if (std::filesystem::is_directory(status)) {
    return Error{.message = StrCat(Shown(path), ": is a directory, not a file")};
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{.message = StrCat(Shown(path), ": ", std::strerror(errno))};
  std::string text;
  std::vector<char> block(std::size_t{1} << 16);
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0) {
    text.append(block.data(), static_cast<std::size_t>(file.gcount()));
    if (text.size() > kMaxTextFileBytes) {
      return Error{.message =
                       StrCat(Shown(path), ": is larger than ", kMaxTextFileBytes >> 20, " MiB")};
    }
  }
  if (file.bad()) return Error{.message = StrCat(Shown(path), ": cannot be read")};
  return text;
}

Result<TextSource> ParseTextInto(std::string_view text, const std::string& name, Message* message) {
  std::string rest(text);
  std::string errors;
  for (std::size_t count = 0; count < kMaxErrors; ++count) {
    auto tree = std::make_shared<TextFormat::ParseInfoTree>();
    FirstProblem collector;
    TextFormat::Parser parser;
    parser.RecordErrorsTo(&collector);
    parser.WriteLocationsTo(tree.get());
    parser.SetRecursionLimit(kMaxNesting);
    message->Clear();
    const bool parsed = parser.ParseFromString(rest, message);
    if (parsed && !collector.problem()) {
      if (!errors.empty()) break;
      TextSource source{name, std::move(tree)};
      if (const auto bad = FindBadString(*message)) {
        return Error{.message = StrCat(source.Locate(message->GetDescriptor(), *bad), ": ", *bad,
                                       ": the text is not UTF-8")};
      }
      return source;
    }
    Problem problem = collector.problem().value_or(Problem{0, 0, "cannot be parsed"});
    PointAtValue(rest, &problem);
    const FieldAt field = FindField(rest, OffsetOf(rest, problem.line, problem.column));
    errors +=
        (errors.empty() ? "" : "\n") + Describe(name, *message->GetDescriptor(), problem, field);
    if (!BlankField(field, problem, &rest)) break;
  }
  return Error{.message = std::move(errors)};
}

void OverrideByText(std::string_view text, Message* message) {
  TextFormat::Parser().MergeFromString(std::string(text), message);
}

}  // namespace twinstep
