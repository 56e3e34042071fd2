// The options of ProTrain's plans: chunks of model states, choices of blocks, and plans of other
// systems as presets.
//
//   groups = {..., PlanOptions(), ChunkOptions()};
//   Status status = ApplyChunkOptions(options, &plan);  // Flags override preset and file.
#pragma once

#include <string>
#include <vector>

#include "sim/options/options.h"
#include "sim/plan/plan.pb.h"
#include "sim/result.h"

namespace twinstep {

// --preset, --persist, --buffers, --chunk-size, --optimizer-overlap, --swap, --checkpoint,
// --swap-interval, --blocks.
OptionGroup ChunkOptions();

Status ApplyChunkOptions(const Options& options, Plan* plan);

// Choices of blocks as a person writes them: the words keep, checkpoint, swap, one a layer, in
// order, with a count before those that repeat ("swap 2 x checkpoint 5 x keep"); # begins a comment
// to the end of its line. An Error names `source` and line.
Result<std::vector<BlockActivations>> ParseBlockList(const std::string& text,
                                                     const std::string& source);

}  // namespace twinstep
