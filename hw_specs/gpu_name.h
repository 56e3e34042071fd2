// Names of GPUs, as cluster files and drivers write them.
//
//   IsSameGpu("H200", "NVIDIA H200");  // true
#pragma once

#include <string_view>

namespace twinstep {

// Whether two names mean the same part: equal but for the maker's name in front.
bool IsSameGpu(std::string_view a, std::string_view b);

// Whether two names cannot mean one chip: "H200" and "NVIDIA A100-SXM4-80GB", but not "A100-80GB
// SXM4" and the latter. The chip is the first word of letters and digits, such as "L4", or of
// four digits; what names none may be any.
bool AreOtherChips(std::string_view a, std::string_view b);

}  // namespace twinstep
