#include "exec/runtime/hugging_face_files.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "sim/str_cat.h"
#include "sim/textproto/text_file.h"

namespace twinstep {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

Result<Json> ReadJson(const std::string& path) {
  const Result<std::string> text = ReadTextFile(path);
  if (!text.ok()) return text.error();
  Json json = Json::parse(text.value(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Error{.message = StrCat(path, ": is not a JSON object")};
  return json;
}

// The files that an index names, in alphabetical order.
Result<std::vector<std::string>> FilesOfIndex(const std::string& index, const fs::path& folder) {
  const Result<Json> json = ReadJson(index);
  if (!json.ok()) return json.error();
  const auto map = json.value().find("weight_map");
  if (map == json.value().end() || !map->is_object() || map->empty()) {
    return Error{.message = StrCat(index, ": has no weight_map")};
  }
  std::set<std::string> names;
  for (const auto& [tensor, file] : map->items()) {
    // A name with a folder in it could lead anywhere.
    if (!file.is_string() || file != fs::path(file.get<std::string>()).filename().string()) {
      return Error{.message = StrCat(index, ": tensor '", tensor, "' has no file name")};
    }
    names.insert((folder / file.get<std::string>()).string());
  }
  return std::vector<std::string>(names.begin(), names.end());
}

}  // namespace

Result<HuggingFaceFiles> HuggingFaceFiles::Open(const std::string& path) {
  std::vector<std::string> names = {path};
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    names = {(fs::path(path) / "model.safetensors").string()};
    const std::string index = names.front() + ".index.json";
    if (!fs::exists(names.front(), ignored) && fs::exists(index, ignored)) {
      Result<std::vector<std::string>> listed = FilesOfIndex(index, path);
      if (!listed.ok()) return listed.error();
      names = std::move(listed).value();
    }
  }
  HuggingFaceFiles result;
  std::set<std::string> tensors;
  for (const std::string& name : names) {
    Result<SafetensorsReader> file = SafetensorsReader::Open(name);
    if (!file.ok()) return file.error();
    for (const TensorEntry& entry : file.value().tensors()) {
      if (!tensors.insert(entry.name).second) {
        return Error{.message =
                         StrCat(name, ": tensor '", entry.name, "' is in another file, too")};
      }
    }
    result.files_.push_back(std::move(file).value());
  }
  return result;
}

HuggingFaceFiles::Found HuggingFaceFiles::Find(const std::string& name) const {
  for (const SafetensorsReader& file : files_) {
    if (const TensorEntry* entry = file.Find(name)) return {&file, entry};
  }
  return {};
}

Status CheckHuggingFaceConfig(const Model& model, const std::string& folder) {
  const std::string path = (fs::path(folder) / "config.json").string();
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return Unit{};
  const Result<Json> json = ReadJson(path);
  if (!json.ok()) return json.error();
  const auto differs = [&path](const char* field, const Json& value, const std::string& ours) {
    return Error{.message = StrCat(path, ": ", field, " is ", value.dump(),
                                   ", and training computes with ", ours)};
  };
  struct Constant {
    const char* field;
    double ours;
  };
  // sim/graph's norms and rotary positions have these constants in every backend.
  const std::vector<Constant> constants =
      model.family() == GPT ? std::vector<Constant>{{"layer_norm_epsilon", 1e-5}}
                            : std::vector<Constant>{{"rms_norm_eps", 1e-5}, {"rope_theta", 10000}};
  for (const auto& [field, ours] : constants) {
    const auto value = json.value().find(field);
    if (value == json.value().end()) continue;
    if (!value->is_number() || std::abs(value->get<double>() - ours) > 1e-9 * ours) {
      return differs(field, *value, StrCat(ours));
    }
  }
  const auto scaling = json.value().find("rope_scaling");
  if (scaling != json.value().end() && !scaling->is_null()) {
    return differs("rope_scaling", *scaling, "none");
  }
  return Unit{};
}

}  // namespace twinstep
