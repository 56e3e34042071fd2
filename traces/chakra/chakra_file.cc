#include "traces/chakra/chakra_file.h"

#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "sim/str_cat.h"

namespace twinstep {
namespace {

// The digits before the suffix: 12 of "step.12.et" and "rank12.et".
std::int64_t RankOfName(const std::string& path) {
  const std::string stem = std::filesystem::path(path).stem().string();
  const std::size_t digits = stem.find_last_not_of("0123456789") + 1;
  std::int64_t rank = -1;
  const auto [end, code] = std::from_chars(stem.data() + digits, stem.data() + stem.size(), rank);
  return code == std::errc() && rank < (1 << 24) ? rank : -1;
}

// The fields of numbers that the message has, but of another type; then the others.
struct UnknownFields {
  int contradicting = 0, newer = 0;
};
UnknownFields UnknownFieldsOf(const google::protobuf::Message& message) {
  const google::protobuf::UnknownFieldSet& set = message.GetReflection()->GetUnknownFields(message);
  UnknownFields count;
  for (int i = 0; i < set.field_count(); ++i) {
    const bool is_known =
        message.GetDescriptor()->FindFieldByNumber(set.field(i).number()) != nullptr;
    ++(is_known ? count.contradicting : count.newer);
  }
  return count;
}

template <typename Message>
bool Parse(std::string_view bytes, Message* message) {
  return message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

bool ParseNode(std::string_view bytes, chakra::Node* node) {
  return Parse(bytes, node) && UnknownFieldsOf(*node).contradicting == 0;
}

bool ParseMetadata(std::string_view bytes, chakra::GlobalMetadata* metadata) {
  const auto fits = [](const google::protobuf::Message& message) {
    const UnknownFields unknown = UnknownFieldsOf(message);
    return unknown.contradicting == 0 && unknown.newer == 0;
  };
  const auto is_text = [](const std::string& text) {
    return std::none_of(text.begin(), text.end(), [](char c) { return c >= 0 && c < ' '; });
  };
  if (Parse(bytes, metadata) && fits(*metadata) && is_text(metadata->version())) return true;
  chakra::UnversionedMetadata unversioned;
  if (!Parse(bytes, &unversioned) || !fits(unversioned)) return false;
  metadata->Clear();
  metadata->mutable_attr()->Swap(unversioned.mutable_attr());
  return true;
}

bool SaysNothing(const chakra::Node& node) {
  return node.type() == chakra::INVALID_NODE && node.name().empty() && node.attr().empty();
}

std::optional<std::int64_t> Integer(const chakra::Attribute& attribute) {
  constexpr double kMost = 9e18;
  const auto real = [](double x) -> std::optional<std::int64_t> {
    if (!(std::abs(x) < kMost)) return std::nullopt;
    return std::llround(x);
  };
  switch (attribute.value_case()) {
    case chakra::Attribute::kDoubleVal:
      return real(attribute.double_val());
    case chakra::Attribute::kFloatVal:
      return real(static_cast<double>(attribute.float_val()));
    case chakra::Attribute::kInt32Val:
      return attribute.int32_val();
    case chakra::Attribute::kInt64Val:
      return attribute.int64_val();
    case chakra::Attribute::kUint32Val:
      return attribute.uint32_val();
    case chakra::Attribute::kUint64Val:
      return static_cast<std::int64_t>(attribute.uint64_val());
    case chakra::Attribute::kSint32Val:
      return attribute.sint32_val();
    case chakra::Attribute::kSint64Val:
      return attribute.sint64_val();
    case chakra::Attribute::kFixed32Val:
      return attribute.fixed32_val();
    case chakra::Attribute::kFixed64Val:
      return static_cast<std::int64_t>(attribute.fixed64_val());
    case chakra::Attribute::kSfixed32Val:
      return attribute.sfixed32_val();
    case chakra::Attribute::kSfixed64Val:
      return attribute.sfixed64_val();
    case chakra::Attribute::kBoolVal:
      return attribute.bool_val() ? 1 : 0;
    default:
      return std::nullopt;
  }
}

}  // namespace

Result<ChakraFile> ParseChakraFile(std::string_view bytes, const std::string& path) {
  ChakraFile file;
  file.path = path;
  file.rank = RankOfName(path);
  const auto fail = [&path](const auto&... what) {
    return Error{.message = StrCat(path, ": ", what...)};
  };
  if (bytes.empty()) return fail("is empty");
  std::size_t at = 0;
  bool is_first = true;
  while (at < bytes.size()) {
    const std::size_t begin = at;
    std::uint64_t size = 0;
    int shift = 0;
    for (;; shift += 7) {
      if (at == bytes.size()) return fail("is cut short at byte ", begin);
      if (shift > 28) return fail("is no Chakra execution trace: no length at byte ", begin);
      const auto byte = static_cast<unsigned char>(bytes[at++]);
      size |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) break;
    }
    if (size > bytes.size() - at) {
      return fail(is_first ? "is no Chakra execution trace, or" : "is",
                  " cut short: the message at byte ", begin, " has ", size, " bytes, ",
                  bytes.size() - at, " are left");
    }
    const std::string_view message = bytes.substr(at, size);
    at += size;
    if (is_first && ParseMetadata(message, &file.metadata)) {
      is_first = false;
      continue;
    }
    if (!ParseNode(message, &file.nodes.emplace_back())) {
      return fail("is no Chakra execution trace, or of another schema: the message at byte ", begin,
                  " is no ", is_first ? "GlobalMetadata and no Node" : "Node");
    }
    file.with_newer_fields += UnknownFieldsOf(file.nodes.back()).newer > 0;
    is_first = false;
  }
  if (file.nodes.empty()) return fail("holds no node");
  if (std::all_of(file.nodes.begin(), file.nodes.end(), SaysNothing)) {
    return fail("is of another schema: no node has a type, a name or an attribute");
  }
  return file;
}

Result<ChakraFile> ReadChakraFile(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return Error{.message = StrCat(path, ": is a folder")};
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) return Error{.message = StrCat(path, ": cannot read: ", std::strerror(errno))};
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  return ParseChakraFile(bytes, path);
}

std::string SchemaOf(const ChakraFile& file) {
  if (!file.metadata.version().empty()) return file.metadata.version();
  for (const chakra::Attribute& attribute : file.metadata.attr()) {
    if (attribute.name() == "schema") return attribute.string_val();
  }
  return "";
}

const chakra::Attribute* FindAttribute(const chakra::Node& node, std::string_view name) {
  for (const chakra::Attribute& attribute : node.attr()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

std::optional<std::int64_t> IntegerAttribute(const chakra::Node& node, std::string_view name) {
  const chakra::Attribute* attribute = FindAttribute(node, name);
  return attribute == nullptr ? std::nullopt : Integer(*attribute);
}

std::optional<std::string> TextAttribute(const chakra::Node& node, std::string_view name) {
  const chakra::Attribute* attribute = FindAttribute(node, name);
  if (attribute == nullptr) return std::nullopt;
  if (attribute->value_case() == chakra::Attribute::kStringVal) return attribute->string_val();
  const std::optional<std::int64_t> number = Integer(*attribute);
  if (!number) return std::nullopt;
  return std::to_string(*number);
}

}  // namespace twinstep
