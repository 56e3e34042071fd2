// Checkpoints: a folder of files step-00000100.safetensors, each a whole training state after so
// many steps, written so that none is ever half there (sim/files/atomic_file.h).
//
// A checkpoint holds the whole model's tensors (parameters, masters, moments), whatever the plan
// that trained them, so that training resumes under any plan. All that is random is drawn by
// counters over seed and step, and the data's order is a function of them, too: seed and step are
// the random state.
//
//   Status saved = SaveCheckpoint("run", checkpoint, /*keep=*/2);
//   std::vector<std::string> warnings;
//   Result<LoadedCheckpoint> latest = LoadCheckpoint("run", &warnings);  // Or one file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "exec/runtime/logical_tensors.h"
#include "model_zoo/model.pb.h"
#include "sim/result.h"

namespace twinstep {

struct Checkpoint {
  std::int64_t step = 0;  // Steps that were done.
  std::uint64_t seed = 0;
  Model model;  // With its recipe.
  // What else decides the numbers (learning rate, batch, data ...), as the training was asked for.
  std::map<std::string, std::string> settings;
  std::vector<LogicalTensor> tensors;
};

struct LoadedCheckpoint {
  Checkpoint checkpoint;
  std::string path;
};

// "FOLDER/step-00000100.safetensors"
std::string CheckpointPath(const std::string& folder, std::int64_t step);

// Whether a folder has files of such names, loadable or not.
bool HoldsCheckpoints(const std::string& folder);

// Creates the folder, and says whether a checkpoint could be written there: before training starts
// and not when the first one is due.
Status PrepareCheckpointFolder(const std::string& folder);

// Creates the folder if need be, and once the file is safe removes all but the `keep` latest
// (0: removes none), as well as what killed writers left behind.
Status SaveCheckpoint(const std::string& folder, const Checkpoint& checkpoint, int keep);

// A file, or the latest loadable one of a folder: a newer one that cannot be read adds a warning
// with its name and reason. An Error (kBadInput) if there is none.
Result<LoadedCheckpoint> LoadCheckpoint(const std::string& path,
                                        std::vector<std::string>* warnings);

}  // namespace twinstep
