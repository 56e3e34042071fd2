#include "hw_specs/find_cluster.h"

#include "hw_specs/validate_cluster.h"
#include "sim/textproto/named_texts.h"
#include "sim/textproto/text_file.h"

namespace twinstep {

const std::vector<NamedText>& EmbeddedClusters();  // Generated from hw_specs/*.textproto.

std::vector<std::string> ListClusters() {
  std::vector<std::string> names;
  for (const NamedText& cluster : EmbeddedClusters()) names.emplace_back(cluster.name);
  return names;
}

Result<ParsedText<Cluster>> ReadCluster(const std::string& name_or_path) {
  const Result<FoundText> found = FindText(EmbeddedClusters(), "cluster", name_or_path);
  if (!found.ok()) return found.error();
  return ParseText<Cluster>(found.value().text, found.value().source);
}

Result<Cluster> FindCluster(const std::string& name_or_path) {
  Result<ParsedText<Cluster>> parsed = ReadCluster(name_or_path);
  if (!parsed.ok()) return parsed.error();
  const Status valid = ValidateCluster(parsed.value().message, parsed.value().source);
  if (!valid.ok()) return valid.error();
  return std::move(parsed).value().message;
}

}  // namespace twinstep
