// Whether a profile can have been measured: what its schema cannot say.
#pragma once

#include "hw_specs/profile.pb.h"
#include "sim/result.h"
#include "sim/textproto/text_source.h"

namespace twinstep {

// Every number finite and not negative, every sample with a time above 0 and sizes that fit. All
// problems, one a line: `file:line:column: problem (field)`. Which operator names exist is for the
// cost model to say.
Status ValidateProfile(const Profile& profile, const TextSource& source);

}  // namespace twinstep
