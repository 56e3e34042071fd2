// Whether a model can exist: what its schema cannot say.
#pragma once

#include "model_zoo/model.pb.h"
#include "sim/result.h"
#include "sim/textproto/text_source.h"

namespace twinstep {

// Positive sizes within bounds that keep every later product inside 64 bits (at most 2^50
// parameters), heads that divide, an activation that the family has, probabilities below 1.
// All problems, one a line: `file:line:column: problem (field)`.
Status ValidateModel(const Model& model, const TextSource& source);

// For a model that was not read from text, or was changed since: errors name the model.
Status ValidateModel(const Model& model);

}  // namespace twinstep
