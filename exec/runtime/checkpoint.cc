#include "exec/runtime/checkpoint.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>
#include <tuple>
#include <utility>

#include "exec/runtime/safetensors.h"
#include "exec/runtime/tensor_dtype.h"
#include "model_zoo/validate_model.h"
#include "sim/files/atomic_file.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "twinstep-checkpoint-1";
constexpr std::string_view kSettingPrefix = "setting.";
constexpr std::string_view kFilePrefix = "step-", kFileSuffix = ".safetensors";
constexpr std::array kStates = {StateKind::kParameter, StateKind::kMaster, StateKind::kMoment1,
                                StateKind::kMoment2};

const char* StateName(StateKind state) {
  switch (state) {
    case StateKind::kMaster:
      return "master";
    case StateKind::kMoment1:
      return "moment1";
    case StateKind::kMoment2:
      return "moment2";
    default:
      return "parameter";
  }
}

// "block.3.qkv_weight.master", "head_weight.moment1"
std::string TensorName(const LogicalTensor& tensor) {
  const std::string block = tensor.block == kNoTag ? "" : StrCat("block.", tensor.block, ".");
  return StrCat(block, Name(tensor.kind), ".", StateName(tensor.state));
}

template <typename Number>
std::optional<Number> ParseWhole(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<LogicalTensor> ParseTensorName(const std::string& name) {
  LogicalTensor tensor;
  std::string_view rest = name;
  constexpr std::string_view kBlock = "block.";
  if (rest.starts_with(kBlock)) {
    rest.remove_prefix(kBlock.size());
    const std::size_t dot = rest.find('.');
    if (dot == std::string_view::npos) return std::nullopt;
    const auto block = ParseWhole<std::uint16_t>(rest.substr(0, dot));
    if (!block || *block == kNoTag) return std::nullopt;
    tensor.block = *block;
    rest.remove_prefix(dot + 1);
  }
  for (int kind = 0; kind < kTensorKindCount; ++kind) {
    tensor.kind = static_cast<TensorKind>(kind);
    for (const StateKind state : kStates) {
      tensor.state = state;
      if (rest == StrCat(Name(tensor.kind), ".", StateName(state))) return tensor;
    }
  }
  return std::nullopt;
}

// The step in a checkpoint's file name.
std::optional<std::int64_t> StepOfName(std::string_view name) {
  if (!name.starts_with(kFilePrefix) || !name.ends_with(kFileSuffix)) return std::nullopt;
  name.remove_prefix(kFilePrefix.size());
  name.remove_suffix(kFileSuffix.size());
  return ParseWhole<std::int64_t>(name);
}

// Steps of the folder's checkpoints, latest first; file names by step.
Result<std::vector<std::pair<std::int64_t, std::string>>> ListCheckpoints(
    const std::string& folder) {
  std::vector<std::pair<std::int64_t, std::string>> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (const auto step = StepOfName(name)) found.emplace_back(*step, it->path().string());
  }
  if (error) return Error{.message = StrCat(folder, ": cannot list: ", error.message())};
  std::sort(found.rbegin(), found.rend());
  return found;
}

// Temporary files of writers that were killed.
void RemoveLeftovers(const std::string& folder) {
  std::error_code ignored;
  std::vector<fs::path> leftovers;
  for (fs::directory_iterator it(folder, ignored), end; !ignored && it != end;
       it.increment(ignored)) {
    const std::string name = it->path().filename().string();
    constexpr std::string_view kTemporary = ".tmp";
    if (name.starts_with('.') && name.ends_with(kTemporary) &&
        StepOfName(std::string_view(name).substr(1, name.size() - 1 - kTemporary.size()))) {
      leftovers.push_back(it->path());
    }
  }
  for (const fs::path& path : leftovers) fs::remove(path, ignored);
}

Result<Checkpoint> LoadFile(const std::string& path) {
  const Result<SafetensorsReader> opened = SafetensorsReader::Open(path);
  if (!opened.ok()) return opened.error();
  const SafetensorsReader& file = opened.value();
  const auto bad = [&path](const std::string& what) {
    return Error{.message = StrCat(path, ": ", what)};
  };
  const auto text = [&file](const char* key) {
    const auto found = file.metadata().find(key);
    return found == file.metadata().end() ? std::string() : found->second;
  };
  if (text("format") != kFormat) return bad("is no checkpoint of this version");
  if (!file.is_checksummed()) return bad("is corrupted: sums are missing");
  Checkpoint checkpoint;
  const auto step = ParseWhole<std::int64_t>(text("step"));
  const auto seed = ParseWhole<std::uint64_t>(text("seed"));
  if (!step || *step < 0 || !seed) return bad("has no step or seed");
  checkpoint.step = *step;
  checkpoint.seed = *seed;
  if (!google::protobuf::TextFormat::ParseFromString(text("model"), &checkpoint.model)) {
    return bad("has a model that cannot be parsed");
  }
  if (const Status valid = ValidateModel(checkpoint.model); !valid.ok()) {
    return bad(valid.error().message);
  }
  for (const auto& [key, value] : file.metadata()) {
    if (key.starts_with(kSettingPrefix)) {
      checkpoint.settings[key.substr(kSettingPrefix.size())] = value;
    }
  }
  for (const TensorEntry& entry : file.tensors()) {
    std::optional<LogicalTensor> tensor = ParseTensorName(entry.name);
    const std::optional<Dtype> dtype = DtypeOfSafetensors(entry.dtype);
    if (!tensor || !dtype || entry.shape.size() != 2) {
      return bad(StrCat("tensor '", entry.name, "' has no place in a checkpoint"));
    }
    tensor->dtype = *dtype;
    tensor->rows = entry.shape[0];
    tensor->columns = entry.shape[1];
    Result<std::vector<std::byte>> data = file.Read(entry);
    if (!data.ok()) return data.error();
    tensor->data = std::move(data).value();
    checkpoint.tensors.push_back(*std::move(tensor));
  }
  std::sort(checkpoint.tensors.begin(), checkpoint.tensors.end(),
            [](const LogicalTensor& a, const LogicalTensor& b) {
              return std::tie(a.block, a.kind, a.state) < std::tie(b.block, b.kind, b.state);
            });
  return checkpoint;
}

Status CreateFolder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return Error{.message = StrCat(folder, ": cannot create: ", error.message())};
  return Unit{};
}

}  // namespace

std::string CheckpointPath(const std::string& folder, std::int64_t step) {
  std::string digits = std::to_string(step);
  constexpr std::size_t kDigits = 8;  // So that names sort as steps do.
  if (digits.size() < kDigits) digits.insert(0, kDigits - digits.size(), '0');
  return (fs::path(folder) / StrCat(kFilePrefix, digits, kFileSuffix)).string();
}

bool HoldsCheckpoints(const std::string& folder) {
  const auto found = ListCheckpoints(folder);
  return found.ok() && !found.value().empty();
}

Status PrepareCheckpointFolder(const std::string& folder) {
  const Status created = CreateFolder(folder);
  if (!created.ok()) return created;
  return CheckWritable(CheckpointPath(folder, 0));
}

Status SaveCheckpoint(const std::string& folder, const Checkpoint& checkpoint, int keep) {
  if (const Status created = CreateFolder(folder); !created.ok()) return created;
  SafetensorsMetadata metadata;
  metadata["format"] = kFormat;
  metadata["step"] = std::to_string(checkpoint.step);
  metadata["seed"] = std::to_string(checkpoint.seed);
  google::protobuf::TextFormat::PrintToString(checkpoint.model, &metadata["model"]);
  for (const auto& [key, value] : checkpoint.settings) {
    metadata[StrCat(kSettingPrefix, key)] = value;
  }
  std::vector<TensorView> views;
  for (const LogicalTensor& tensor : checkpoint.tensors) {
    views.push_back({.name = TensorName(tensor),
                     .dtype = SafetensorsDtype(tensor.dtype),
                     .shape = {tensor.rows, tensor.columns},
                     .data = tensor.data});
  }
  RemoveLeftovers(folder);
  const Status written = WriteSafetensors(CheckpointPath(folder, checkpoint.step), views, metadata);
  if (!written.ok() || keep == 0) return written;

  // Checkpoints of later steps are another run's; they are neither counted nor removed.
  const auto found = ListCheckpoints(folder);
  if (!found.ok()) return found.error();
  std::error_code error;
  int kept = 0;
  for (const auto& [step, path] : found.value()) {
    if (step > checkpoint.step || ++kept <= keep) continue;
    fs::remove(path, error);
    if (error) return Error{.message = StrCat(path, ": cannot remove: ", error.message())};
  }
  return Unit{};
}

Result<LoadedCheckpoint> LoadCheckpoint(const std::string& path,
                                        std::vector<std::string>* warnings) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    Result<Checkpoint> loaded = LoadFile(path);
    if (!loaded.ok()) return loaded.error();
    return LoadedCheckpoint{std::move(loaded).value(), path};
  }
  const auto found = ListCheckpoints(path);
  if (!found.ok()) return found.error();
  std::string reasons;
  for (const auto& [step, file] : found.value()) {
    Result<Checkpoint> loaded = LoadFile(file);
    if (loaded.ok()) return LoadedCheckpoint{std::move(loaded).value(), file};
    warnings->push_back(StrCat("skipping a checkpoint: ", loaded.error().message));
    reasons += StrCat("\n  ", loaded.error().message);
  }
  return Error{.message = StrCat(path, ": holds no loadable checkpoint ", kFilePrefix, "N",
                                 kFileSuffix, reasons)};
}

}  // namespace twinstep
