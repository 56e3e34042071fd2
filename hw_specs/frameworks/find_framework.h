// Frameworks by name or path.
//
//   Result<Framework> eager = FindFramework("pytorch-eager");  // One of ListFrameworks().
#pragma once

#include <string>
#include <vector>

#include "hw_specs/frameworks/framework.pb.h"
#include "sim/result.h"

namespace twinstep {

// Names of hw_specs/frameworks/*.textproto, in alphabetical order.
std::vector<std::string> ListFrameworks();

// A framework whose operations exist and whose numbers are in range. An unknown name is an Error
// with the closest names; a bad file names line, column and field. A base is a name, or a path seen
// from the file that names it. Adds to `files` those that are read.
Result<Framework> FindFramework(const std::string& name_or_path,
                                std::vector<std::string>* files = nullptr);

}  // namespace twinstep
