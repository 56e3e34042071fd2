// Suites by name or path.
//
//   Result<Suite> suite = FindSuite("atc24-figure9");  // One of ListSuites(), in the binary.
//   Result<Suite> mine = FindSuite("my_suite.textproto");
#pragma once

#include <string>
#include <vector>

#include "sim/evaluate/suites/suite.pb.h"
#include "sim/result.h"

namespace twinstep {

// Names of sim/evaluate/suites/*.textproto, in alphabetical order.
std::vector<std::string> ListSuites();

// A validated suite. An unknown name is an Error with the closest names; a bad file names line,
// column and field.
Result<Suite> FindSuite(const std::string& name_or_path);

}  // namespace twinstep
