// Rules of a suite that its schema cannot say.
#pragma once

#include "sim/evaluate/suites/suite.pb.h"
#include "sim/result.h"
#include "sim/textproto/text_source.h"

namespace twinstep {

// Every row says what ran, of a collective or copy its bytes and GPUs, and at least one thing that
// was measured; names are unique; numbers are finite. An Error names file, line and field of each
// problem.
Status ValidateSuite(const Suite& suite, const TextSource& source);

}  // namespace twinstep
