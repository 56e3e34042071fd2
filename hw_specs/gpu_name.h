// Names of GPUs, as cluster files and drivers write them.
//
//   IsSameGpu("H200", "NVIDIA H200");  // true
#pragma once

#include <string_view>

namespace twinstep {

// Whether two names mean the same part: equal but for the maker's name in front.
bool IsSameGpu(std::string_view a, std::string_view b);

}  // namespace twinstep
