// Models by name or path.
//
//   Result<Model> model = FindModel("llama-65b");       // One of ListModels(), in the binary.
//   Result<Model> mine = FindModel("my_model.textproto");
#pragma once

#include <string>
#include <vector>

#include "model_zoo/model.pb.h"
#include "sim/result.h"
#include "sim/textproto/text_source.h"

namespace twinstep {

// Names of model_zoo/*.textproto, in alphabetical order.
std::vector<std::string> ListModels();

// A validated model: one of the zoo by its name, else the file at that path. An unknown name is an
// Error with the closest names; a bad file names line, column and field.
Result<Model> FindModel(const std::string& name_or_path);

// The same before validation, for a caller that changes fields (--set) first.
Result<ParsedText<Model>> ReadModel(const std::string& name_or_path);

}  // namespace twinstep
