// The version that `twinstep --version`, reports and traces show.
#pragma once

namespace twinstep {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace twinstep
