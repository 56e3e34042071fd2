// A profile from its file.
//
//   Result<Profile> profile = ReadProfile("h200.textproto");
#pragma once

#include <string>

#include "hw_specs/profile.pb.h"
#include "sim/result.h"

namespace twinstep {

// Valid, and so is the machine that it was measured on, if it names one (validate_profile.h).
// Errors name file, line and field.
Result<Profile> ReadProfile(const std::string& path);

}  // namespace twinstep
