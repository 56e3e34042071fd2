// One file of a Chakra execution trace: one rank.
//
//   Result<ChakraFile> file = ReadChakraFile("step.3.et");
//   for (const chakra::Node& node : file.value().nodes) IntegerAttribute(node, "comm_size") ...
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/result.h"
#include "traces/chakra/chakra.pb.h"

namespace twinstep {

struct ChakraFile {
  std::string path;
  std::int64_t rank = 0;            // The number before ".et"; -1 where there is none.
  chakra::GlobalMetadata metadata;  // Empty where the file has none.
  std::vector<chakra::Node> nodes;
  std::int64_t with_newer_fields = 0;  // Nodes with fields that this program does not know.
};

// Errors (kBadInput) name the file and the byte: cut short, no Chakra trace, another schema, no
// node at all.
Result<ChakraFile> ReadChakraFile(const std::string& path);
Result<ChakraFile> ParseChakraFile(std::string_view bytes, const std::string& path);

// "0.0.4", "1.0.2-chakra.0.0.4": what the metadata says, wherever it says it.
std::string SchemaOf(const ChakraFile& file);

// Producers differ in the type of a number: any will do. Nothing where there is no such attribute,
// or one of another type.
std::optional<std::int64_t> IntegerAttribute(const chakra::Node& node, std::string_view name);
// Numbers as texts, too.
std::optional<std::string> TextAttribute(const chakra::Node& node, std::string_view name);
const chakra::Attribute* FindAttribute(const chakra::Node& node, std::string_view name);

}  // namespace twinstep
