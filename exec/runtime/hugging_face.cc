#include "exec/runtime/hugging_face.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "exec/runtime/element_io.h"
#include "exec/runtime/hugging_face_files.h"
#include "exec/runtime/hugging_face_names.h"
#include "exec/runtime/safetensors.h"
#include "exec/runtime/tensor_dtype.h"
#include "sim/str_cat.h"

namespace twinstep {
namespace {

using Key = std::pair<std::uint16_t, TensorKind>;

constexpr const char* kHead = "lm_head.weight";

std::vector<std::int64_t> ShapeInFile(const HuggingFaceTensor& slot) {
  if (slot.is_vector) return {slot.columns};
  if (slot.transposed) return {slot.columns, slot.rows};
  return {slot.rows, slot.columns};
}

std::string ShapeText(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += StrCat(text.empty() ? "[" : ", ", size);
  return text.empty() ? "[]" : text + "]";
}

// Element of the file's tensor that is (row, column) of the slot.
std::int64_t ElementInFile(const HuggingFaceTensor& slot, std::int64_t row, std::int64_t column) {
  return slot.transposed ? column * slot.rows + row : row * slot.columns + column;
}

bool IsFloat(Dtype dtype) { return dtype != Dtype::kInt32 && dtype != Dtype::kUint8; }

// Causal masks and rotary frequencies that older files hold are no weights.
bool IsConstant(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".rotary_emb.inv_freq");
}

class WeightReader {
 public:
  WeightReader(const Model& model, const HuggingFaceFiles& files, std::string path, Dtype dtype)
      : model_(model), files_(files), path_(std::move(path)), dtype_(dtype) {}

  Result<std::vector<LogicalTensor>> Read() {
    slots_ = HuggingFaceTensors(model_);
    const std::string whole_name = HuggingFacePrefix(model_) + slots_.front().name;
    if (files_.Find(whole_name).file != nullptr) prefix_ = HuggingFacePrefix(model_);
    if (const Status known = CheckNames(); !known.ok()) return known.error();
    for (const HuggingFaceTensor& slot : slots_) {
      if (const Status read = ReadSlot(slot); !read.ok()) return read.error();
    }
    if (const Status tied = CheckTiedHead(); !tied.ok()) return tied.error();
    std::vector<LogicalTensor> result;
    for (auto& [key, tensor] : tensors_) result.push_back(std::move(tensor));
    return result;
  }

 private:
  std::string NameOf(const HuggingFaceTensor& slot) const {
    return (slot.has_prefix ? prefix_ : "") + slot.name;
  }

  // A tensor that the model does not have: another model's.
  Status CheckNames() const {
    std::set<std::string> known;
    for (const HuggingFaceTensor& slot : slots_) known.insert(NameOf(slot));
    if (model_.tied_embeddings()) known.insert(kHead);
    for (const SafetensorsReader& file : files_.files()) {
      for (const TensorEntry& entry : file.tensors()) {
        if (known.contains(entry.name) || IsConstant(entry.name)) continue;
        return Error{.message =
                         StrCat(file.path(), ": tensor '", entry.name, "' has no place in model ",
                                model_.name(), " of ", model_.layers(), " layers")};
      }
    }
    return Unit{};
  }

  Status ReadSlot(const HuggingFaceTensor& slot) {
    const std::string name = NameOf(slot);
    const auto [file, entry] = files_.Find(name);
    if (file == nullptr) {
      return Error{.message = StrCat(path_, ": tensor '", name, "' is missing")};
    }
    const std::optional<Dtype> from = DtypeOfSafetensors(entry->dtype);
    if (entry->shape != ShapeInFile(slot) || !from || !IsFloat(*from)) {
      return Error{.message = StrCat(file->path(), ": tensor '", name, "' is ", entry->dtype, " ",
                                     ShapeText(entry->shape), ", and model ", model_.name(),
                                     " has floats ", ShapeText(ShapeInFile(slot)))};
    }
    const Result<std::vector<std::byte>> data = file->Read(*entry);
    if (!data.ok()) return data.error();
    LogicalTensor& tensor = Grow(slot);
    for (std::int64_t row = 0; row < slot.rows; ++row) {
      for (std::int64_t column = 0; column < slot.columns; ++column) {
        const double value =
            LoadElement(*from, data.value().data(), ElementInFile(slot, row, column));
        StoreElement(dtype_, value, tensor.data.data(),
                     (slot.row_begin + row) * slot.columns + column);
      }
    }
    return Unit{};
  }

  // The slot's logical tensor, with room for the slot.
  LogicalTensor& Grow(const HuggingFaceTensor& slot) {
    LogicalTensor& tensor = tensors_[{slot.block, slot.kind}];
    tensor.block = slot.block;
    tensor.kind = slot.kind;
    tensor.state = StateKind::kParameter;
    tensor.dtype = dtype_;
    tensor.rows = slot.row_begin + slot.rows;
    tensor.columns = slot.columns;
    tensor.data.resize(static_cast<std::size_t>(tensor.rows * tensor.columns * DtypeBytes(dtype_)));
    return tensor;
  }

  // Some files of tied models repeat the embedding as a head; one that differs is another model's.
  Status CheckTiedHead() const {
    const auto head = files_.Find(kHead);
    if (!model_.tied_embeddings() || head.file == nullptr) return Unit{};
    const auto embedding = files_.Find(NameOf(slots_.front()));
    const auto head_data = head.file->Read(*head.entry);
    const auto embedding_data = embedding.file->Read(*embedding.entry);
    if (!head_data.ok()) return head_data.error();
    if (!embedding_data.ok()) return embedding_data.error();
    if (head_data.value() != embedding_data.value()) {
      return Error{.message = StrCat(head.file->path(), ": tensor '", kHead,
                                     "' differs from the embedding, and model ", model_.name(),
                                     " has tied embeddings")};
    }
    return Unit{};
  }

  const Model& model_;
  const HuggingFaceFiles& files_;
  const std::string path_;
  const Dtype dtype_;
  std::vector<HuggingFaceTensor> slots_;
  std::string prefix_;
  std::map<Key, LogicalTensor> tensors_;
};

}  // namespace

Result<std::vector<LogicalTensor>> ReadHuggingFace(const Model& model, const std::string& path,
                                                   Dtype dtype) {
  const Result<HuggingFaceFiles> files = HuggingFaceFiles::Open(path);
  if (!files.ok()) return files.error();
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    const Status config = CheckHuggingFaceConfig(model, path);
    if (!config.ok()) return config.error();
  }
  return WeightReader(model, files.value(), path, dtype).Read();
}

Status WriteHuggingFace(const Model& model, std::span<const LogicalTensor> tensors,
                        const std::string& path) {
  std::map<Key, const LogicalTensor*> by_key;
  for (const LogicalTensor& tensor : tensors) {
    if (tensor.state == StateKind::kParameter) by_key[{tensor.block, tensor.kind}] = &tensor;
  }
  const std::vector<HuggingFaceTensor> slots = HuggingFaceTensors(model);
  std::vector<std::vector<std::byte>> data(slots.size());
  std::vector<TensorView> views;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const HuggingFaceTensor& slot = slots[i];
    const std::string name = (slot.has_prefix ? HuggingFacePrefix(model) : "") + slot.name;
    const auto found = by_key.find({slot.block, slot.kind});
    if (found == by_key.end() || found->second->rows < slot.row_begin + slot.rows ||
        found->second->columns != slot.columns) {
      return Error{.code = ExitCode::kInternal,
                   .message = StrCat(path, ": nothing to write as tensor '", name, "'")};
    }
    const LogicalTensor& tensor = *found->second;
    const auto width = static_cast<std::size_t>(DtypeBytes(tensor.dtype));
    data[i].resize(static_cast<std::size_t>(slot.rows * slot.columns) * width);
    for (std::int64_t row = 0; row < slot.rows; ++row) {
      for (std::int64_t column = 0; column < slot.columns; ++column) {
        const auto to = static_cast<std::size_t>(ElementInFile(slot, row, column));
        const auto from = static_cast<std::size_t>((slot.row_begin + row) * slot.columns + column);
        std::memcpy(data[i].data() + to * width, tensor.data.data() + from * width, width);
      }
    }
    views.push_back({.name = name,
                     .dtype = SafetensorsDtype(tensor.dtype),
                     .shape = ShapeInFile(slot),
                     .data = data[i]});
  }
  return WriteSafetensors(path, views, {{"format", "pt"}});
}

}  // namespace twinstep
