// The safetensors files of a Hugging Face checkpoint, as one.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "exec/runtime/safetensors.h"
#include "model_zoo/model.pb.h"
#include "sim/result.h"

namespace twinstep {

class HuggingFaceFiles {
 public:
  // A file, or a folder (exec/runtime/hugging_face.h).
  static Result<HuggingFaceFiles> Open(const std::string& path);

  struct Found {
    const SafetensorsReader* file = nullptr;  // Null if no file has the tensor.
    const TensorEntry* entry = nullptr;
  };
  Found Find(const std::string& name) const;
  const std::vector<SafetensorsReader>& files() const { return files_; }

 private:
  std::vector<SafetensorsReader> files_;
};

// Checks a folder's config.json, if there is one, for an arithmetic that differs from ours.
Status CheckHuggingFaceConfig(const Model& model, const std::string& folder);

}  // namespace twinstep
