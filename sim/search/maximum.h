// What `rank --maximize` looks for and finds.
#pragma once

#include <cstdint>
#include <string>

#include "sim/result.h"

namespace twinstep {

enum class Maximize { kNothing, kLayers, kBatch };

struct Maximum {
  Maximize of = Maximize::kNothing;
  // Layers of the model, or sequences of a GPU in one micro-batch. 0: not even one fits.
  std::int64_t value = 0;
  std::int64_t parameters = 0;  // Of the model with so many layers.
  // Layers: for the states of more there is no room in all memory together.
  std::int64_t bound = 0;
  // What the plan that lacks least lacks for value + 1: rule, pool and bytes. Without a message
  // where more was not tried.
  Error limit;
};

}  // namespace twinstep
