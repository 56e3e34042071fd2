// A profile from text, as if it were in a file "f".
#pragma once

#include <string_view>

#include "sim/result.h"
#include "traces/kineto/byte_source.h"
#include "traces/kineto/kineto_reader.h"

namespace twinstep::testing {

inline Result<KinetoTrace> ReadProfile(std::string_view text) {
  ByteSource source{text};
  return ReadKineto(source, "f");
}

}  // namespace twinstep::testing
