#include "sim/textproto/set_field.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "sim/lower_case.h"
#include "sim/str_cat.h"
#include "sim/textproto/closest_name.h"
#include "sim/textproto/quantity.h"

namespace twinstep {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

std::vector<std::string> FieldNames(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  return names;
}

std::string Quoted(std::string_view text) { return StrCat("'", text.substr(0, 100), "'"); }

// The descriptors from the outermost message to the field that a path names.
Result<std::vector<const FieldDescriptor*>> Resolve(const Descriptor& outermost,
                                                    std::string_view path) {
  std::vector<const FieldDescriptor*> fields;
  const Descriptor* type = &outermost;
  std::string_view rest = path;
  for (;;) {
    const std::size_t dot = rest.find('.');
    const std::string name(rest.substr(0, dot));
    const FieldDescriptor* field = type->FindFieldByName(name);
    if (field == nullptr) {
      const std::vector<std::string> names = FieldNames(*type);
      return Error{.message = StrCat("no field ", Quoted(path), ": message ", type->name(),
                                     " has no ", Quoted(name), DidYouMean(name, names),
                                     "; its fields are ", Joined(names))};
    }
    fields.push_back(field);
    if (field->is_repeated()) {
      return Error{.message = StrCat("field ", Quoted(path), " is in a list (", field->name(),
                                     "), which can only be set in a file")};
    }
    const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (dot == std::string_view::npos) {
      if (!is_message) return fields;
      return Error{.message = StrCat("field ", Quoted(path), " is a message; its fields are ",
                                     Joined(FieldNames(*field->message_type())))};
    }
    if (!is_message) {
      return Error{.message = StrCat("no field ", Quoted(path), ": ", field->name(),
                                     " is a value and has no fields")};
    }
    type = field->message_type();
    rest.remove_prefix(dot + 1);
  }
}

template <typename Narrow, typename Setter>
Status SetInteger(std::string_view value, Setter set) {
  const Result<std::int64_t> parsed = ParseInteger(value);
  if (!parsed.ok()) return parsed.error();
  if constexpr (sizeof(Narrow) < sizeof(std::int64_t) || std::numeric_limits<Narrow>::min() == 0) {
    const bool below = std::cmp_less(parsed.value(), std::numeric_limits<Narrow>::min());
    const bool above = std::cmp_greater(parsed.value(), std::numeric_limits<Narrow>::max());
    if (below || above) {
      return Error{.message =
                       StrCat(Quoted(value), " is not between ", std::numeric_limits<Narrow>::min(),
                              " and ", std::numeric_limits<Narrow>::max())};
    }
  }
  set(static_cast<Narrow>(parsed.value()));
  return Unit{};
}

Status SetValue(Message* message, const FieldDescriptor* field, std::string_view value) {
  const Reflection& reflection = *message->GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return SetInteger<std::int32_t>(
          value, [&](std::int32_t number) { reflection.SetInt32(message, field, number); });
    case FieldDescriptor::CPPTYPE_UINT32:
      return SetInteger<std::uint32_t>(
          value, [&](std::uint32_t number) { reflection.SetUInt32(message, field, number); });
    case FieldDescriptor::CPPTYPE_INT64:
      return SetInteger<std::int64_t>(
          value, [&](std::int64_t number) { reflection.SetInt64(message, field, number); });
    case FieldDescriptor::CPPTYPE_UINT64:
      return SetInteger<std::uint64_t>(
          value, [&](std::uint64_t number) { reflection.SetUInt64(message, field, number); });
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      const Result<double> parsed = ParseReal(value);
      if (!parsed.ok()) return parsed.error();
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
        reflection.SetDouble(message, field, parsed.value());
      } else {
        reflection.SetFloat(message, field, static_cast<float>(parsed.value()));
      }
      return Unit{};
    }
    case FieldDescriptor::CPPTYPE_BOOL: {
      const std::string lower = LowerCase(value);
      const bool is_true = lower == "true" || lower == "1";
      if (!is_true && lower != "false" && lower != "0") {
        return Error{.message = StrCat(Quoted(value), " is neither true nor false")};
      }
      reflection.SetBool(message, field, is_true);
      return Unit{};
    }
    case FieldDescriptor::CPPTYPE_ENUM: {
      std::vector<std::string> names;
      for (int i = 0; i < field->enum_type()->value_count(); ++i) {
        const EnumValueDescriptor* candidate = field->enum_type()->value(i);
        if (LowerCase(candidate->name()) == LowerCase(value)) {
          reflection.SetEnum(message, field, candidate);
          return Unit{};
        }
        names.push_back(candidate->name());
      }
      return Error{.message = StrCat(Quoted(value), " is none of ", Joined(names))};
    }
    case FieldDescriptor::CPPTYPE_STRING:
      reflection.SetString(message, field, std::string(value));
      return Unit{};
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;  // Resolve returns no such field.
  }
  return Error{.code = ExitCode::kInternal,
               .message = StrCat("field ", field->full_name(), " is no value")};
}

}  // namespace

Status SetField(Message* message, std::string_view path, std::string_view value) {
  const auto fields = Resolve(*message->GetDescriptor(), path);
  if (!fields.ok()) return fields.error();
  // Into a copy, so that an error leaves no enclosing message behind.
  const std::unique_ptr<Message> changed(message->New());
  changed->CopyFrom(*message);
  Message* inner = changed.get();
  for (std::size_t i = 0; i + 1 < fields.value().size(); ++i) {
    inner = inner->GetReflection()->MutableMessage(inner, fields.value()[i]);
  }
  const Status status = SetValue(inner, fields.value().back(), value);
  if (!status.ok()) {
    Error error = status.error();
    error.message = StrCat("field ", path, ": ", error.message);
    return error;
  }
  message->GetReflection()->Swap(message, changed.get());
  return Unit{};
}

namespace {

// Every field that SetField can set, by its path.
void AddPaths(const Descriptor& type, const std::string& prefix, std::vector<std::string>* paths) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* field = type.field(i);
    if (field->is_repeated()) continue;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      AddPaths(*field->message_type(), StrCat(prefix, field->name(), "."), paths);
    } else {
      paths->push_back(prefix + field->name());
    }
  }
}

// The parts of a path that have as many names as `text`: of "node.nvlink.bytes_per_s" with one name
// "node", "nvlink" and "bytes_per_s".
std::vector<std::string> PartsLike(const std::string& path, std::string_view text) {
  std::vector<std::size_t> begins = {0};
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i] == '.') begins.push_back(i + 1);
  }
  begins.push_back(path.size() + 1);
  const auto names = static_cast<std::size_t>(std::ranges::count(text, '.')) + 1;
  std::vector<std::string> parts;
  for (std::size_t i = 0; i + names < begins.size(); ++i) {
    parts.push_back(path.substr(begins[i], begins[i + names] - 1 - begins[i]));
  }
  return parts;
}

// " (did you mean node.nvlink.bytes_per_s?)": what has a part like the path, else like its last or
// its first name, wherever it is.
std::string DidYouMeanPath(const std::vector<std::string>& paths, std::string_view path) {
  constexpr std::size_t kMost = 3;
  const std::string_view last = path.substr(path.rfind('.') + 1);
  for (const std::string_view asked : {path, last, path.substr(0, path.find('.'))}) {
    std::vector<std::string> parts;
    for (const std::string& known : paths) {
      const std::vector<std::string> more = PartsLike(known, asked);
      parts.insert(parts.end(), more.begin(), more.end());
    }
    const std::vector<std::string> nearest = ClosestNames(asked, parts, 1);
    if (nearest.empty()) continue;
    std::vector<std::string> meant;
    for (const std::string& known : paths) {
      const std::vector<std::string> own = PartsLike(known, asked);
      if (std::ranges::find(own, nearest[0]) != own.end()) meant.push_back(known);
    }
    const bool is_cut = meant.size() > kMost;
    meant.resize(std::min(meant.size(), kMost));
    return StrCat(" (did you mean ", Joined(meant), is_cut ? " ..." : "", "?)");
  }
  return "";
}

}  // namespace

bool HasSettableField(const Descriptor& type, std::string_view path) {
  const std::size_t dot = path.find('.');
  const FieldDescriptor* field = type.FindFieldByName(std::string(path.substr(0, dot)));
  if (field == nullptr || field->is_repeated()) return false;
  const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  if (dot == std::string_view::npos) return !is_message;
  return is_message && HasSettableField(*field->message_type(), path.substr(dot + 1));
}

Status SetFieldOfOne(const std::vector<NamedMessage>& messages, std::string_view path,
                     std::string_view value) {
  const NamedMessage* owner = nullptr;
  std::string owners;
  for (const NamedMessage& candidate : messages) {
    if (path.starts_with(candidate.name + ".")) {
      return SetField(candidate.message, path.substr(candidate.name.size() + 1), value);
    }
    if (HasSettableField(*candidate.message->GetDescriptor(), path)) {
      owners += StrCat(owner == nullptr ? "" : " or ", candidate.name, ".", path);
      if (owner != nullptr) {
        return Error{.message = StrCat("field ", Quoted(path), " is ambiguous: say ", owners)};
      }
      owner = &candidate;
    }
  }
  if (owner != nullptr) return SetField(owner->message, path, value);
  // The message that has the path's first name: its error lists the fields there.
  std::string names, fields;
  std::vector<std::string> paths;
  for (const NamedMessage& candidate : messages) {
    const Descriptor& type = *candidate.message->GetDescriptor();
    if (type.FindFieldByName(std::string(path.substr(0, path.find('.')))) != nullptr) {
      return Resolve(type, path).error();
    }
    names += (names.empty() ? "" : " or ") + candidate.name;
    fields += StrCat("; of ", candidate.name, ": ", Joined(FieldNames(type)));
    AddPaths(type, "", &paths);
  }
  const std::string meant = DidYouMeanPath(paths, path);
  return Error{
      .message = StrCat("no field ", Quoted(path), " in ", names, meant.empty() ? fields : meant)};
}

Result<FieldValues> ParseFieldValues(std::string_view argument) {
  const std::size_t equals = argument.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return Error{.message = StrCat(Quoted(argument),
                                   " is not FIELD=VALUE, such as "
                                   "node.pcie.h2d_bytes_per_s=128e9")};
  }
  FieldValues parsed{std::string(argument.substr(0, equals)), {}};
  for (std::string_view rest = argument.substr(equals + 1);;) {
    const std::size_t comma = rest.find(',');
    const std::string_view value = rest.substr(0, comma);
    if (value.empty()) {
      return Error{.message = StrCat(Quoted(argument), " has an empty value")};
    }
    parsed.values.emplace_back(value);
    if (comma == std::string_view::npos) return parsed;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace twinstep
