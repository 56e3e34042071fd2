// Files that a verb writes, before it writes any: none may be one that it reads, one that it writes
// for another option, or a folder that it makes for one, by whatever name or link. RunVerb asks for
// all that options name (Reads, Writes and MakesFolder of sim/options/options.h); verbs ask again
// for what they only know later:
//
//   Status free = CheckOutputFiles(options, FilesOfTrace(name));
#pragma once

#include <string>
#include <vector>

#include "sim/options/options.h"
#include "sim/result.h"

namespace twinstep {

struct OutputFile {
  std::string option;  // Without dashes.
  std::string path;
};

// An Error (kBadInput) names the option and the file. Beside those of options, `inputs` are read
// and `more_outputs` are written, which differ among themselves. "-" is no file, nor are devices
// and pipes; inputs that are no files are passed over.
Status CheckOutputFiles(const Options& options, const std::vector<std::string>& inputs = {},
                        const std::vector<OutputFile>& more_outputs = {});

// Whether every file that an option says to write could be written now. Leaves nothing behind.
Status CheckOutputsWritable(const Options& options);

}  // namespace twinstep
