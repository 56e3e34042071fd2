#include "hw_specs/find_cluster.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "hw_specs/validate_cluster.h"
#include "sim/str_cat.h"
#include "sim/textproto/named_texts.h"
#include "sim/textproto/text_file.h"

namespace twinstep {

const std::vector<NamedText>& EmbeddedClusters();  // Generated from hw_specs/*.textproto.

namespace {

// The same of all ways to write a path; no path of one in the binary.
std::string Identity(const FoundText& found) {
  if (found.is_embedded) return found.source;
  std::error_code none;
  const std::filesystem::path canonical = std::filesystem::canonical(found.source, none);
  return none ? "/" + found.source : canonical.string();
}

// `chain`: the files that build on this one, by their identities. Adds to `files` what is read.
Result<ParsedText<Cluster>> ReadFrom(const FoundText& found, std::vector<std::string> chain,
                                     std::vector<std::string>* files) {
  if (files != nullptr && !found.is_embedded) files->push_back(found.source);
  Result<ParsedText<Cluster>> read = ParseText<Cluster>(found.text, found.source);
  if (!read.ok() || read.value().message.base().empty()) return read;
  ParsedText<Cluster> own = std::move(read).value();
  const auto error = [&own](const std::string& problem) {
    return Error{.message =
                     StrCat(own.source.Locate(Cluster::descriptor(), "base"), ": base: ", problem)};
  };
  chain.push_back(Identity(found));
  const Result<FoundText> base =
      FindText(EmbeddedClusters(), "cluster", SeenFrom(found.source, own.message.base()));
  if (!base.ok()) return error(base.error().message);
  if (std::ranges::find(chain, Identity(base.value())) != chain.end()) {
    return error(StrCat(base.value().source, " builds on this file"));
  }
  Result<ParsedText<Cluster>> inherited = ReadFrom(base.value(), std::move(chain), files);
  if (!inherited.ok()) return inherited;
  ParsedText<Cluster> merged = std::move(inherited).value();
  merged.message.clear_name();
  merged.message.clear_description();
  OverrideByText(found.text, &merged.message);
  merged.message.clear_base();
  own.source.base = std::make_shared<TextSource>(std::move(merged.source));
  merged.source = std::move(own.source);
  return merged;
}

}  // namespace

std::vector<std::string> ListClusters() {
  std::vector<std::string> names;
  for (const NamedText& cluster : EmbeddedClusters()) names.emplace_back(cluster.name);
  return names;
}

Result<ParsedText<Cluster>> ReadCluster(const std::string& name_or_path,
                                        std::vector<std::string>* files) {
  const Result<FoundText> found = FindText(EmbeddedClusters(), "cluster", name_or_path);
  if (!found.ok()) return found.error();
  return ReadFrom(found.value(), {}, files);
}

Result<Cluster> FindCluster(const std::string& name_or_path) {
  Result<ParsedText<Cluster>> parsed = ReadCluster(name_or_path);
  if (!parsed.ok()) return parsed.error();
  const Status valid = ValidateCluster(parsed.value().message, parsed.value().source);
  if (!valid.ok()) return valid.error();
  return std::move(parsed).value().message;
}

}  // namespace twinstep
